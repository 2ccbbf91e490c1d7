"""The annotation app from Python."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import nextpair


@pytest.fixture
def scenes(tmp_path: Path) -> nextpair.Dataset:
    return nextpair.Dataset.scenes(tmp_path / "scenes", 20)


def picks(scenes: nextpair.Dataset, budget: int = 2) -> nextpair.Picks:
    """Items of the training split."""
    places = [place for place, item in enumerate(scenes) if item.split == "train"]
    array = scenes.features("image")[places]
    vectors = array.reshape(len(array), -1, array.shape[-1]).mean(axis=1)
    ids = [scenes[place].id for place in places]
    return nextpair.select(vectors[:5], vectors[:5], vectors[5:], budget, ids=ids[5:], guard="off")


def ask(app: nextpair.Annotation, path: str, body: Any = None, csrf: str = "") -> Any:
    """Talks to the app as its pages do: posts, unless it only asks who it is."""
    headers = {"Content-Type": "application/json", "X-CSRF-Token": csrf}
    data = None if path == "/api/me" else json.dumps(body).encode() if body else b""
    request = urllib.request.Request(f"http://{app._app.address}{path}", data, headers)
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read() or b"null")


def test_people_answer_and_python_hears(scenes: nextpair.Dataset, tmp_path: Path) -> None:
    chosen = picks(scenes)
    with nextpair.annotate(chosen, scenes, out=tmp_path / "picks.jsonl", sign_in=False, grace=0) as app:
        assert app.running and app.answered == (0, 2) and app.answers == []
        assert app.url in repr(app) and "href" in app._repr_html_()
        with pytest.raises(TimeoutError, match="0 of 2"):
            app.wait(timeout=0)
        csrf = ask(app, "/api/me")["csrf"]
        for number, _ in enumerate(chosen):
            item = ask(app, "/api/next", csrf=csrf)["task"]["item"]
            said = {"captions": [f"A walrus with {number} lanterns ."]}
            ask(app, "/api/answers", {"key": f"{number:032x}", "item": item, "said": said, "accept": True}, csrf)
        answers = app.wait(timeout=60)
    assert not app.running
    assert {one["id"] for one in answers} == {pick.id for pick in chosen}
    larger = scenes.enlarge(app.answers_file, tmp_path / "larger")
    assert larger.captions == 2


def test_links_and_refusals(scenes: nextpair.Dataset, tmp_path: Path) -> None:
    chosen = picks(scenes)
    out = tmp_path / "picks.jsonl"
    app = nextpair.annotate(chosen, scenes, out=out, invite=["Ada"])
    assert [one.name for one in app.invitations][1:] == ["Ada"]
    assert app.url == app.invitations[0].link
    app.stop()
    app.stop()
    assert not app.running and "has ended" in app._repr_html_()
    with pytest.raises(nextpair.FileError, match="0 of 2 items"):
        app.wait()
    # The same picks go on; others would be lost among them.
    nextpair.annotate(out, scenes).stop()
    nextpair.annotate(chosen, scenes, out=out).stop()
    with pytest.raises(nextpair.FileError, match="other picks"):
        nextpair.annotate(picks(scenes, 3), scenes, out=out)
    with pytest.raises(nextpair.SettingError, match="^dataset: "):
        nextpair.annotate(out)
    with pytest.raises(nextpair.SettingError, match="can be reached from elsewhere|every address"):
        nextpair.annotate(out, scenes, host="0.0.0.0", sign_in=False)
    with pytest.raises(nextpair.SettingError, match="captions"):
        nextpair.annotate(out, scenes, captions=0)
    with pytest.raises(nextpair.SettingError, match="^grace: "):
        nextpair.annotate(out, scenes, grace=float("nan"))
