"""The examples run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_it_runs(example: Path, tmp_path: Path) -> None:
    on_ray = example.stem == "ray_pool"  # Ray warns of itself, and tells what it does
    lenient = ["-W", "ignore::DeprecationWarning"] if on_ray else []
    command = [sys.executable, "-W", "error", *lenient, str(example), str(tmp_path)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert on_ray or run.stderr == ""
    if example.stem in ("choose_what_to_caption", "ray_pool"):
        picks = [json.loads(line) for line in (tmp_path / "picks.jsonl").read_text().splitlines()]
        assert len(picks) == 20 and picks[0]["id"] in run.stdout and picks[0]["why"]
    else:
        assert run.stdout.count("would be confused with '") == 5 and "5 of 300 items by Rarest" in run.stdout
