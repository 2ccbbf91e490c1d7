"""The program `nextpair`: `python -m nextpair`, or the script of that name."""

from __future__ import annotations

import signal
import sys

from . import _engine


def main() -> int:
    """Runs the command line of this process and returns its exit code."""
    # Python would only note Ctrl-C until the command is done.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _engine.run_command(["nextpair", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
