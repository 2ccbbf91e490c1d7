"""Strategies and models of one's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import NEEDS, World

import nextpair


class Nearest:
    """The items most similar to any anchor."""

    def query(self, problem: nextpair.Problem, budget: int) -> Any:
        scores = problem.similarities().max(axis=1)
        best = np.argsort(-scores, kind="stable")[:budget]
        return best, scores[best]


class Returns:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def query(self, problem: nextpair.Problem, budget: int) -> Any:
        return self.answer


def test_a_class_of_python_is_a_strategy(world: World) -> None:
    picks = world.select(5, Nearest(), ids=range(200))
    least = world.select(200, "least-similar")
    assert picks.indices.tolist() == least.indices[::-1][:5].tolist()
    assert picks.scores.tolist() == (-least.scores[::-1][:5]).tolist()
    assert picks.strategy == "Nearest" and picks[0].id == picks[0].index
    assert world.select(2, Returns([7, 3])).scores.tolist() == [0, 0]


def test_a_built_in_strategy_with_a_query_of_its_own_is_refused(world: World) -> None:
    class Mine(nextpair.Margin):
        def query(self, problem: nextpair.Problem, budget: int) -> Any:  # type: ignore[override]
            return range(budget)

    class Renamed(nextpair.Margin):
        pass

    with pytest.raises(nextpair.SettingError, match="^strategy: Mine is a built-in strategy with a query of its own"):
        world.select(3, Mine())
    assert world.select(3, Renamed()) == world.select(3, "margin")


def test_it_sees_the_problem(world: World) -> None:
    class Looks:
        def query(self, problem: nextpair.Problem, budget: int) -> Any:
            assert (problem.pool, problem.pairs, problem.seed, problem.pool_side) == (200, 60, 4, "image")
            assert problem.items.tolist() == list(range(200))
            assert problem.features is not None and np.shares_memory(problem.features[0], world.pool)
            assert (problem.features[1] == world.images).all()
            assert (problem.thresholds() == nextpair.thresholds(world.images, world.texts)).all()
            block = problem.similarities([5, 2], np.array([1, 0, 3]))
            assert (block == problem.similarities()[[5, 2]][:, [1, 0, 3]]).all()
            with pytest.raises(nextpair.InputError, match="pair 60 of 60"):
                problem.similarities([0], [60])
            with pytest.raises(nextpair.StrategyError, match="item 200 of a pool of 200"):
                problem.similarities([200], [0])
            return range(budget)

    assert len(world.select(3, Looks(), seed=4)) == 3


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([1, 2], "2 items for a budget of 3"),
        ([1, 2, 2], "item 2 twice"),
        ([1, 2, 200], "Returns picked item 200 of a pool of 200"),
        ([1, 2, -3], "a whole number from 0 on"),
        (None, "returned neither items nor"),
        (([1, 2, 3], [1.0]), "3 items and 1 scores"),
        ("abc", "a whole number"),
    ],
)
def test_wrong_answers_are_refused(answer: Any, said: str, world: World) -> None:
    with pytest.raises(nextpair.StrategyError, match=said):
        world.select(3, Returns(answer))


def test_errors_of_a_strategy_come_through(world: World) -> None:
    class Fails:
        def query(self, problem: nextpair.Problem, budget: int) -> Any:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        world.select(3, Fails())


def unit(array: Any) -> Any:
    array = np.asarray(array, dtype=np.float64)
    return array / np.linalg.norm(array, axis=1, keepdims=True)


@pytest.mark.parametrize("side", ["image", "text"])
@pytest.mark.parametrize("batch", [1, 7, 100, 4096])
def test_a_model_of_python_gives_the_picks_of_its_table(side: Any, batch: int, world: World) -> None:
    calls = []

    def similarity(images: Any, texts: Any) -> Any:
        calls.append(len(images) * len(texts))
        return np.einsum("id,td->it", unit(images), unit(texts))

    first, second = (world.images, world.texts) if side == "image" else (world.texts, world.images)
    asked = nextpair.select(
        *map(list, (first, second, world.pool)), 9, "hard-negative", side, similarity=similarity, batch=batch, guard="off"
    )
    table = (unit(world.pool) @ unit(world.texts).T, unit(world.images) @ unit(world.texts).T)
    given = nextpair.select(None, None, None, 9, "hard-negative", side, similarities=table, guard="off")
    assert asked.indices.tolist() == given.indices.tolist() == world.select(9).indices.tolist()
    assert sum(calls) == (200 + 60) * 60 and max(calls) <= batch, "every pair is asked about once"


@pytest.mark.parametrize("name", nextpair.STRATEGIES)
def test_similarities_serve_every_strategy(name: str, world: World) -> None:
    table = (unit(world.pool) @ unit(world.texts).T, unit(world.images) @ unit(world.texts).T)
    features = (world.pool, world.images)
    if NEEDS[name][1]:
        with pytest.raises(nextpair.SettingError, match="needs a vector for every item"):
            nextpair.select(None, None, None, 5, name, similarities=table, guard="off")
        with pytest.raises(nextpair.SettingError, match="^features: .* or name a strategy that needs none"):
            world.select(5, name, similarity=lambda images, texts: pytest.fail("it was asked"))
    found = nextpair.select(None, None, None, 5, name, similarities=table, features=features, guard="off")
    assert found.indices.tolist() == world.select(5, name).indices.tolist()


def test_bad_similarities_are_refused(world: World) -> None:
    table = (world.pool @ world.texts.T, world.images @ world.texts.T)
    with pytest.raises(nextpair.SettingError, match="^similarities: images, texts and pool are not read"):
        world.select(5, similarities=table)
    with pytest.raises(nextpair.InputError, match="^similarities: .*transpose"):
        nextpair.select(None, None, None, 5, "hard-negative", similarities=(table[0].T, table[1]))
    with pytest.raises(nextpair.InputError, match="^similarities: two arrays"):
        nextpair.select(None, None, None, 5, "hard-negative", similarities=table[0])
    with pytest.raises(nextpair.SettingError, match="^similarity: give the function, or"):
        world.select(5, similarity=lambda a, b: a @ b.T, similarities=table)
    with pytest.raises(nextpair.InputError, match=r"^similarity: it returned shape \(60, 68\) for 68 images and 60"):
        world.select(5, similarity=lambda a, b: (a @ b.T).T)
    with pytest.raises(nextpair.InputError, match="^similarity: one row per item"):
        world.select(5, similarity=lambda a, b: 1.0)
    with pytest.raises(nextpair.InputError, match="^images, texts: 60 images but 59 texts"):
        world._replace(texts=world.texts[1:]).select(5, similarity=lambda a, b: a @ b.T)
    with pytest.raises(nextpair.InputError, match="row 0, column 1 is NaN"):
        table[1][0, 1] = np.nan
        nextpair.select(None, None, None, 5, "hard-negative", similarities=table)


def test_large_tables_go_to_a_file(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nextpair._problem._IN_MEMORY", 0)
    table = world.select(9, similarity=lambda a, b: a @ b.T)
    assert table.indices.tolist() == world.select(9, metric="dot").indices.tolist()


def test_none_of_the_vectors_is_needed_twice(world: World) -> None:
    with pytest.raises(nextpair.InputError, match="^pool: there is none"):
        nextpair.select(world.images, world.texts, None, 5)
