"""Experiments and rehearsals from Python."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import nextpair

TINY: dict[str, Any] = {
    "strategies": ["random", "hard-negative"],
    "rounds": 1,
    "model": {"architecture": "vse", "dim": 8, "word_dim": 8},
    "training": {"epochs": 1, "batch": 8, "validate_last": 0},
}


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: Any) -> nextpair.Dataset:
    return nextpair.Dataset.scenes(tmp_path_factory.mktemp("data") / "scenes", 80)


@pytest.fixture(scope="module")
def results(scenes: nextpair.Dataset, tmp_path_factory: Any) -> nextpair.Results:
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    return nextpair.Experiment(dataset=scenes, seeds=[0, 1], **TINY).run(folder)


def test_rounds_as_tables(results: nextpair.Results) -> None:
    frame = results.to_pandas()
    # Two seeds: the start, and a batch by each strategy.
    assert len(frame) == 6
    assert sorted(frame["strategy"].dropna().unique()) == ["hard-negative", "random"]
    assert frame["image_r1"].between(0, 100).all()
    assert results.to_arrow().column_names == list(frame.columns)
    lines = (results.folders[0] / "rounds.jsonl").read_text().splitlines()
    stored = {json.loads(line)["round"]["weights"] for line in lines}
    assert {one["weights"] for one in results.rounds} == stored
    assert results.evidence["seeds"] == [0, 1]
    assert "hard-negative" in repr(results)
    assert repr(nextpair.load(results.folders[0])) == repr(results)
    assert results.waiting is None
    recommended = results.evidence["recommendation"]
    assert results.advice == recommended["advice"] and results.advice.startswith("Buy the next ")
    assert recommended["go_on"] == "--resume --seeds 0..5"


def test_the_program_finds_the_same(results: nextpair.Results, scenes: nextpair.Dataset, tmp_path: Path) -> None:
    settings = {"dataset": str(scenes.folder), "seeds": [0, 1], **TINY}
    (tmp_path / "tiny.toml").write_text(nextpair._engine.to_toml(json.dumps(settings)))
    experiment = nextpair.Experiment.from_toml(tmp_path / "tiny.toml")
    again = experiment.run(tmp_path / "again", jobs=1, threads=1)
    assert [one["weights"] for one in again.rounds] == [one["weights"] for one in results.rounds]
    more = nextpair.Experiment.from_toml(tmp_path / "tiny.toml", rounds=2).run(tmp_path / "again", resume=True)
    assert max(one["round"] for one in more.rounds) == 2


def test_figures_and_reports(results: nextpair.Results, tmp_path: Path) -> None:
    for measure in ("r1", "r10", "log_rank"):
        figure = results.figure(measure)  # type: ignore[arg-type]
        labels = [line.get_label() for line in figure.axes[0].get_lines()]
        assert labels == ["random", "hard-negative"]
    results.figure().savefig(tmp_path / "curve.png")
    with pytest.raises(nextpair.SettingError, match="^measure: 'r2'"):
        results.figure("r2")  # type: ignore[arg-type]
    page = results.report(tmp_path / "page")
    assert "<html" in page.read_text()


def test_what_is_wrong_is_said(scenes: nextpair.Dataset, tmp_path: Path, results: nextpair.Results) -> None:
    file = tmp_path / "x.toml"
    file.write_text('dataset = "x"\nround = 1\n')
    with pytest.raises(nextpair.FileError, match=r"x\.toml:2: unknown field `round`"):
        nextpair.Experiment.from_toml(file).run(tmp_path / "never")
    for settings, says in (
        ({**TINY, "strategies": ["best"]}, "best"),
        ({**TINY, "rounds": -1}, "rounds|negative|integer"),
        ({name: value for name, value in TINY.items() if name != "model"}, r"^model: "),
    ):
        with pytest.raises(nextpair.NextpairError, match=says):
            nextpair.Experiment(dataset=scenes, **settings).run(tmp_path / "never")
    with pytest.raises(nextpair.SettingError, match="^out: "):
        nextpair.Experiment(dataset=scenes, **TINY).run()
    with pytest.raises(nextpair.InputError, match="^settings: "):
        nextpair.Experiment(dataset=object())
    with pytest.raises(nextpair.NextpairError):
        nextpair.Experiment(dataset=scenes, **TINY).run(results.folders[0])  # there is one already
    with pytest.raises(nextpair.FileError, match="nowhere"):
        nextpair.load("nowhere")
    assert not (tmp_path / "never").exists()


def test_ctrl_c_keeps_what_is_done(scenes: nextpair.Dataset, tmp_path: Path) -> None:
    long = {**TINY, "training": {**TINY["training"], "epochs": 1_000_000}}
    experiment = nextpair.Experiment(dataset=scenes, **long)

    def stop(phase: str, done: int, total: int) -> None:
        if phase == "rounds" and not pressed.is_set():
            pressed.set()
            os.kill(os.getpid(), signal.SIGINT)

    pressed = threading.Event()
    with pytest.raises(KeyboardInterrupt):
        experiment.run(tmp_path / "long", progress=stop)
    assert (tmp_path / "long" / "experiment.json").is_file()


def test_rehearse(scenes: nextpair.Dataset, tmp_path: Path) -> None:
    model, training = TINY["model"], TINY["training"]
    rehearsal = nextpair.rehearse(
        scenes, 10, model, strategies=["hard-negative"], seeds=4, training=training, out=tmp_path / "rehearsal", price=2.0
    )
    assert rehearsal.strategy in ("random", "hard-negative")
    assert rehearsal.advice["budget"] == 10
    frame = rehearsal.to_pandas()
    assert "hard-negative" in frame["strategy"].tolist()
    assert rehearsal.page.is_file() and rehearsal.sentence
    assert rehearsal.figure().axes
    with pytest.raises(nextpair.SettingError, match="seeds"):
        nextpair.rehearse(scenes, 10, model, strategies=["hard-negative"], seeds=1, training=training, out=tmp_path / "other")
    with pytest.raises(nextpair.NextpairError, match="architecture"):
        nextpair.rehearse(scenes, 10, "gpt", out=tmp_path / "other")
