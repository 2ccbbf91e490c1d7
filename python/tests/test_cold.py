"""Selections before anything is paired."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import NEEDS, World
from skactiveml.utils import MISSING_LABEL

import nextpair

ALONE = [name for name, (matching, _) in NEEDS.items() if not matching]
alone = pytest.mark.parametrize("name", ALONE)


def test_these_strategies_need_no_pairs() -> None:
    assert set(ALONE) == {"v-optimal", "core-set", "herding", "typical", "stratified", "random"}


@alone
def test_a_pool_is_enough(name: str, world: World) -> None:
    none = world.images[:0]
    for budget in (1, 9, 200):
        picks = nextpair.select(pool=world.pool, budget=budget, strategy=name)
        assert len(set(picks.indices.tolist())) == budget
        assert picks == nextpair.STRATEGIES[name]().query(pool=world.pool, budget=budget)
        for pairs in ((none, None), (none, none)):
            assert picks == nextpair.select(*pairs, world.pool, budget, name)
    # One item does not vary, of which v-optimal warns.
    assert nextpair.select(pool=world.pool[:1], budget=1, strategy=name, guard="off").indices.tolist() == [0]


@alone
def test_the_program_picks_the_same(name: str, world: World, tmp_path: Path) -> None:
    np.save(tmp_path / "pool.npy", world.pool)
    words = f"select --pool pool.npy --budget 9 --strategy {name} --out picks.jsonl"
    subprocess.run([sys.executable, "-m", "nextpair", *words.split()], cwd=tmp_path, check=True, capture_output=True)
    nextpair.select(pool=world.pool, budget=9, strategy=name).to_jsonl(tmp_path / "ours.jsonl")
    assert (tmp_path / "ours.jsonl").read_bytes() == (tmp_path / "picks.jsonl").read_bytes()


@alone
def test_pool_loops_begin_without_a_label(name: str, world: World) -> None:
    strategy = nextpair.as_skactiveml(nextpair.STRATEGIES[name](), world.pool)
    y = np.full(len(world.pool), MISSING_LABEL)
    first = strategy.query(X=world.pool, y=y, batch_size=5)
    assert first.tolist() == nextpair.select(pool=world.pool, budget=5, strategy=name).indices.tolist()
    y[first] = first
    assert not set(first) & set(strategy.query(X=world.pool, y=y, batch_size=5))


def test_queries_weigh_a_pool_without_pairs(world: World) -> None:
    picks = nextpair.select(pool=world.pool, budget=9, strategy="herding", queries=world.texts[:3])
    assert picks != nextpair.select(pool=world.pool, budget=9, strategy="herding")


def test_a_strategy_of_yours_sees_the_pool(world: World) -> None:
    class First:
        def query(self, problem: nextpair.Problem, budget: int) -> Any:
            assert problem.features is not None and problem.pairs == 0
            pool, paired = problem.features
            assert pool.shape == (200, 12) and paired.shape == (0, 12)
            return problem.items[:budget]

    assert nextpair.select(pool=world.pool, budget=3, strategy=First()).indices.tolist() == [0, 1, 2]


def test_what_compares_with_pairs_is_refused(world: World) -> None:
    for name in NEEDS.keys() - set(ALONE):
        for none in (None, world.images[:0]):
            with pytest.raises(nextpair.NextpairError, match="the paired set is empty"):
                nextpair.select(none, none, world.pool, 5, name)
    with pytest.raises(nextpair.NextpairError, match="the pool is empty"):
        nextpair.select(pool=world.pool[:0], budget=1, strategy="random")
    with pytest.raises(nextpair.NextpairError, match="the budget is 0"):
        nextpair.select(pool=world.pool, strategy="random")
