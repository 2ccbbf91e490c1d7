"""The blocks of Python in the guide and in the package's README run, in their order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from conftest import World

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("page", ["docs/guide/python.md", "python/README.md"])
def test_its_blocks_run(page: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    names: dict[str, Any] = {}
    if page == "python/README.md":
        # The reader has arrays.
        names = world._asdict()
        blocks = [block.replace("budget=500", "budget=50") for block in blocks]
    for block in blocks:
        exec(block, names)
