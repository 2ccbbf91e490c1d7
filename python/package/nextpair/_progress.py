"""Who hears how far the work is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from .errors import SettingError

Listener: TypeAlias = Callable[[str, int, int], object]


@contextmanager
def listening(progress: bool | Listener | None) -> Iterator[Listener | None]:
    """What is called with a phase, the steps done and all its steps, now and then, on the calling thread.

    `None` shows a bar of tqdm where somebody can see it, if tqdm is installed.
    """
    if progress is None:
        shown = _is_seen() and _tqdm() is not None
    elif isinstance(progress, bool):
        shown = progress
        if shown and _tqdm() is None:
            raise SettingError("progress: a bar needs tqdm, which is not installed")
    elif callable(progress):
        yield progress
        return
    else:
        raise SettingError(f"progress: True, False, None or a function is needed, not {progress!r}")
    if not shown:
        yield None
        return
    bar = _Bar()
    try:
        yield bar
    finally:
        bar.close()


def _is_seen() -> bool:
    if "ipykernel" in sys.modules:
        return True
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


def _tqdm() -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm


class _Bar:
    """A bar per phase, which goes when the next one comes."""

    def __init__(self) -> None:
        self._phase = ""
        self._bar: Any = None

    def __call__(self, phase: str, done: int, total: int) -> None:
        if phase == self._phase and self._bar is not None:
            self._bar.total = total  # of some work, more becomes known while it is done
        else:
            self.close()
            self._phase = phase
            self._bar = _tqdm()(total=total, desc=phase, leave=False, unit_scale=True)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
