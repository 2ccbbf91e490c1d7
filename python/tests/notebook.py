"""Examples as notebooks: `python tests/notebook.py` writes them, and a test holds them to the scripts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOK = EXAMPLES / "choose_what_to_caption.ipynb"


def cells(script: str) -> list[dict[str, Any]]:
    """The cells of a script that marks them by `# %%`."""
    made: list[dict[str, Any]] = []
    for number, part in enumerate(re.split(r"^# %%", script, flags=re.MULTILINE)[1:]):
        head, _, body = part.partition("\n")
        lines = body.strip("\n").splitlines(keepends=True)
        if "[markdown]" in head:
            lines = [re.sub("^# ?", "", line) for line in lines]
            made.append({"cell_type": "markdown", "id": f"cell-{number}", "metadata": {}, "source": lines})
        else:
            cell = {"cell_type": "code", "id": f"cell-{number}", "metadata": {}, "source": lines}
            made.append({**cell, "execution_count": None, "outputs": []})
    return made


def notebook(script: str) -> str:
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    whole = {"cells": cells(script), "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook(NOTEBOOK.with_suffix(".py").read_text()))
