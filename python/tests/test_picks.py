"""The table of picks, its forms, and what guards say about them."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import World, make

import nextpair

IDS = [f"image-{item}.jpg" for item in range(200)]
PAIRS = [f"pair {pair}" for pair in range(60)]


def test_it_is_a_sequence_with_names(world: World) -> None:
    picks = world.select(8, ids=IDS, pair_ids=PAIRS)
    assert [pick.id for pick in picks] == picks.ids == [IDS[index] for index in picks.indices]
    assert picks[0].why[0].anchor_id == PAIRS[picks[0].why[0].anchor]
    assert picks[-1] is list(picks)[-1] and picks[2:4] == [picks[2], picks[3]]
    assert picks[0] in picks and picks.index(picks[3]) == 3
    assert world.select(8)[0].id == str(picks[0].index)
    assert world.select(8, ids=np.arange(1000, 1200))[0].id == 1000 + picks[0].index
    assert pickle.loads(pickle.dumps(picks)) == picks
    assert repr(picks).startswith(f"8 of 200 items by hard-negative\n  1. {picks[0].id}: ")
    assert world.select(8, explain=1, pair_ids=PAIRS)[0].why == picks[0].why[:1]
    with pytest.raises(nextpair.InputError, match="^ids: 199 of them for 200 items"):
        world.select(8, ids=IDS[1:])
    with pytest.raises(nextpair.InputError, match="^pair_ids: 61 of them for 60 items"):
        world.select(8, pair_ids=[*PAIRS, ""])


@pytest.mark.parametrize("name", ["hard-negative", "herding", "v-optimal"])
def test_jsonl_is_that_of_the_command_line(name: str, world: World, tmp_path: Path) -> None:
    for part in world._fields:
        np.save(tmp_path / f"{part}.npy", getattr(world, part))
    (tmp_path / "ids").write_text("\n".join(IDS) + "\n")
    (tmp_path / "pairs").write_text("\n".join(PAIRS) + "\n")
    arguments = "select --paired-images images.npy --paired-texts texts.npy --pool pool.npy --pool-side image"
    arguments += f" --budget 30 --strategy {name} --ids ids --paired-ids pairs --out theirs.jsonl --unguarded"
    subprocess.run([sys.executable, "-m", "nextpair", *arguments.split()], cwd=tmp_path, check=True, capture_output=True)
    world.select(30, name, ids=IDS, pair_ids=PAIRS).to_jsonl(tmp_path / "ours.jsonl")
    assert (tmp_path / "ours.jsonl").read_bytes() == (tmp_path / "theirs.jsonl").read_bytes()


def test_files_appear_whole_or_not_at_all(world: World, tmp_path: Path) -> None:
    with pytest.raises(nextpair.FileError, match="nowhere") as caught:
        world.select(3).to_jsonl(tmp_path / "nowhere" / "picks.jsonl")
    assert isinstance(caught.value, OSError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["hard-negative", "random", "novelty", "v-optimal"])
def test_tables_of_pandas_and_arrow(name: str, world: World, tmp_path: Path) -> None:
    picks = world.select(30, name, ids=IDS)
    frame, table = picks.to_pandas(), picks.to_arrow()
    picks.to_jsonl(tmp_path / "picks.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "picks.jsonl").read_text().splitlines()]
    assert frame["id"].tolist() == table["id"].to_pylist() == picks.ids == [line["id"] for line in lines]
    assert frame["index"].tolist() == table["index"].to_pylist() == picks.indices.tolist()
    assert table["score"].to_pylist() == frame["score"].tolist() == [line["score"] for line in lines]
    assert table["hits"].to_pylist() == [line["hits"] for line in lines]
    assert frame["hits"].isna().all() == (name != "hard-negative")
    assert table["why"].to_pylist() == frame["why"].tolist() == [line["why"] for line in lines]
    if name == "novelty":
        assert table["novelty"].to_pylist() == [facts["novelty"] for facts in frame["facts"]]
        assert frame["facts"].tolist() == [line["facts"] for line in lines]
    if name == "v-optimal":
        near = [line["near"] for line in lines]
        assert frame["near"].tolist() == [json.loads(text) for text in table["near"].to_pylist()] == near
        assert all(list(first) == ["pair", "pair_id", "cosine"] for first, *_ in near)


def test_picks_say_what_learns_from_them(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    picks = world.select(12, "v-optimal", ids=IDS, pair_ids=PAIRS)
    assert pickle.loads(pickle.dumps(picks)) == picks
    for pick in picks:
        nearest, *learners = pick.near
        assert nearest.paired and nearest.id == PAIRS[nearest.index] and -1 <= nearest.value <= 1
        assert len(learners) == 3 and not any(near.paired for near in learners)
        assert all(near.id == IDS[near.index] and 0 < near.value <= 1 for near in learners)
    effect = picks.effect
    assert effect is not None and effect.measure == "uncertainty"
    assert effect.after < effect.random < effect.before
    assert effect.before - effect.after == pytest.approx(picks.scores.sum())
    assert f"\n  uncertainty {effect.before:.3g} before, " in repr(picks)
    assert world.select(12, "v-optimal", explain=0)[0].near == ()
    assert world.select(12, "random").effect is None

    picture = tmp_path / "a.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n")
    page = world.select(2, "v-optimal", pictures=[picture] * 200)._repr_html_()
    assert page.count("data:image/png;base64,") == 2 + 6 and page.count(": learns ") == 6
    assert f"nearest paired: {PAIRS[picks[0].near[0].index]}, " in picks._repr_html_()


def test_notebooks_show_pictures(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    picture = tmp_path / "<b>.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n")
    picks = world.select(30, pair_ids=["<i>"] * 60, pictures=[str(picture)] * 200)
    page = picks._repr_html_()
    assert page.count("data:image/png;base64,") == 20 and "and 10 more" in page
    assert "&lt;i&gt;: 0." in page and "<i>" not in page
    assert "data:" not in world.select(3, ids=["/nowhere.png"] * 200)._repr_html_()
    named = world.select(3, ids=[str(picture)] * 200)._repr_html_()
    assert named.count("data:image/png") == 3 and "<b>.png" not in named
    assert "data:" not in pickle.loads(pickle.dumps(world.select(3)))._repr_html_()


def test_pictures_are_made_small(world: World, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (2000, 1000), "red").save(tmp_path / "large.png")
    page = world.select(1, pictures=[tmp_path / "large.png"] * 200)._repr_html_()
    assert "data:image/jpeg" in page and len(page) < 5000


def test_guards_warn_raise_or_are_off(world: World) -> None:
    pool = np.concatenate([world.pool, world.pool[:40]])
    wrong = world._replace(pool=pool)
    with pytest.warns(nextpair.SelectionWarning, match="40 of 240 pool items have the same numbers") as said:
        picks = wrong.select(5, guard="warn")
    assert said[0].filename.endswith("conftest.py")
    assert picks.warnings[0].kind == "copies" and picks.warnings[0].fix == 'dedupe="exact" leaves them out'
    assert "warning: 40 of 240" in repr(picks) and "<b>warning</b> 40 of 240" in picks._repr_html_()
    with pytest.raises(nextpair.GuardError, match="40 of 240"):
        wrong.select(5, guard="raise")
    assert wrong.select(5, guard="off").warnings == []
    named = [f"n{item}" for item in range(240)]
    with pytest.warns(nextpair.SelectionWarning, match=r"\(n200 as n0\)"):
        wrong.select(5, guard="warn", ids=named)
    with pytest.raises(nextpair.SettingError, match="^guard: "):
        wrong.select(5, guard="loud")
    shuffled = world._replace(texts=world.texts[::-1])
    with pytest.warns(nextpair.SelectionWarning, match="hardly find each other"):
        assert shuffled.select(5, "random", guard="warn").warnings[0].kind == "near-chance"


def test_a_clean_world_has_no_warnings() -> None:
    for name in nextpair.STRATEGIES:
        assert make(3, 300, 600).select(5, name, guard="warn").warnings == [], name


def test_duplicates_are_left_out(world: World) -> None:
    rng = np.random.default_rng(0)
    near = world.pool[:50] + 1e-4 * rng.normal(size=(50, 12)).astype(np.float32)
    pool = np.concatenate([world.pool, world.pool[:40], near, world.images[:10]])
    wrong = world._replace(pool=pool)
    exact, near_ones = wrong.select(20, dedupe="exact"), wrong.select(20, dedupe=0.999)
    assert (exact.pool, exact.duplicates, near_ones.duplicates) == (300, 50, 100)
    assert near_ones.indices.tolist() == world.select(20).indices.tolist()
    assert wrong.select(20, dedupe=True) == exact and exact.indices.max() < 290
    assert wrong.select(20).duplicates is None
    with pytest.raises(nextpair.SettingError, match="^budget: the budget is 201, but without its duplicates .* 200 of 300"):
        wrong.select(201, dedupe=0.999)
    for dedupe, said in ((0.0, "not 0"), (1.5, "not 1.5"), ("all", "'all'")):
        with pytest.raises(nextpair.SettingError, match=f"^dedupe: .*{said}"):
            wrong.select(5, dedupe=dedupe)

    class Last:
        def query(self, problem: nextpair.Problem, budget: int) -> Any:
            assert problem.pool == 300 and problem.items.tolist() == list(range(200))
            return problem.items[-budget:]

    assert wrong.select(2, Last(), dedupe=0.999).indices.tolist() == [198, 199]

    class Copy:
        def query(self, problem: nextpair.Problem, budget: int) -> Any:
            return [250]

    with pytest.raises(nextpair.StrategyError, match="item 250 is left out"):
        wrong.select(1, Copy(), dedupe=0.999)


def test_queries_move_the_picks(world: World) -> None:
    for name in ("herding", "novelty", "v-optimal"):
        assert world.select(9, name, queries=world.texts[:3]) != world.select(9, name)
        with pytest.raises(nextpair.SettingError, match="^queries: the queries are empty"):
            world.select(9, name, queries=world.texts[:0])
    with pytest.raises(nextpair.SettingError, match="^queries: hard-negative does not look at queries"):
        world.select(9, queries=world.texts[:3])
