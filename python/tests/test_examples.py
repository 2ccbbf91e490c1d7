"""The examples run."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from notebook import NOTEBOOK, notebook

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
        assert len(picks) == 20 and picks[0]["id"] in run.stdout and (picks[0]["why"] or not on_ray)
    else:
        assert run.stdout.count("would be confused with '") == 5 and "5 of 300 items by Rarest" in run.stdout


def test_the_notebook_is_the_script_and_its_cells_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = NOTEBOOK.read_text()
    assert text == notebook(NOTEBOOK.with_suffix(".py").read_text()), "python tests/notebook.py writes it"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["notebook"])
    shown = []
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "code":
            *body, last = ast.parse("".join(cell["source"])).body
            exec(compile(ast.Module([*body], []), "cell", "exec"), names)
            if isinstance(last, ast.Expr):  # what a notebook shows
                shown.append(eval(compile(ast.Expression(last.value), "cell", "eval"), names))
            else:
                exec(compile(ast.Module([last], []), "cell", "exec"), names)
    tables = [table for thing in shown if (table := getattr(thing, "_repr_html_", lambda: "")())]
    assert any("data:image/" in table for table in tables), "picks have pictures"
