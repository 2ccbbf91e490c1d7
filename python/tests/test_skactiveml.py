"""Our strategies in a pool loop of scikit-activeml's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import NEEDS, World
from skactiveml.base import SingleAnnotatorPoolQueryStrategy
from skactiveml.pool import RandomSampling
from skactiveml.utils import MISSING_LABEL
from sklearn.base import clone

import nextpair


def everything(world: World) -> tuple[Any, Any, Any]:
    """All samples, the texts that they would get, and which of them are paired."""
    samples = np.concatenate([world.images, world.pool])
    texts = np.concatenate([world.texts, world.pool])
    labels = np.full(len(samples), MISSING_LABEL)
    labels[:60] = np.arange(60)
    return samples, texts, labels


@pytest.mark.parametrize("name", nextpair.STRATEGIES)
def test_it_runs_in_a_pool_loop(name: str, world: World) -> None:
    samples, texts, labels = everything(world)
    truth = np.arange(len(samples), dtype=float)
    ours = nextpair.as_skactiveml(nextpair.STRATEGIES[name](), texts if NEEDS[name][0] else None)
    for strategy in (ours, RandomSampling(random_state=0)):
        assert isinstance(clone(strategy), SingleAnnotatorPoolQueryStrategy)
        y = labels.copy()
        for _ in range(3):
            chosen = strategy.query(X=samples, y=y, batch_size=4)
            assert len(set(chosen.tolist())) == 4 and np.isnan(y[chosen]).all()
            y[chosen] = truth[chosen]
        assert np.isfinite(y).sum() == 72
    first = ours.query(samples, labels, batch_size=4)
    assert (first - 60).tolist() == world.select(4, name).indices.tolist()


@pytest.mark.parametrize("name", nextpair.STRATEGIES)
def test_candidates_and_utilities(name: str, world: World) -> None:
    samples, texts, labels = everything(world)
    strategy = nextpair.as_skactiveml(nextpair.STRATEGIES[name](), texts)
    candidates = np.arange(100, 140)
    chosen, utilities = strategy.query(samples, labels, candidates, batch_size=5, return_utilities=True)
    assert set(chosen) <= set(candidates) and utilities.shape == (5, 260)
    picks = world._replace(pool=world.pool[40:80]).select(5, name)
    assert chosen.tolist() == (picks.indices + 100).tolist()
    for step, (index, score) in enumerate(zip(chosen, picks.scores, strict=True)):
        assert utilities[step, index] == score
        assert np.isnan(utilities[step, chosen[:step]]).all() and np.isfinite(utilities[step]).sum() == 5 - step
    chosen, utilities = strategy.query(samples, labels, samples[100:140], batch_size=5, return_utilities=True)
    assert chosen.tolist() == picks.indices.tolist() and utilities.shape == (5, 40)


def test_pools_of_texts_and_labels(world: World) -> None:
    samples, texts, labels = everything(world)
    ours = nextpair.as_skactiveml(nextpair.HardNegative(), texts, pool_side="text")
    assert ours.query(samples, labels).tolist() == (world.select(1).indices + 60).tolist()
    wrong = np.where(np.isnan(labels), labels, labels + 0.5)
    with pytest.raises(nextpair.InputError, match="^y: a label is the row of texts"):
        nextpair.as_skactiveml(nextpair.HardNegative(), texts).query(samples, wrong)
    with pytest.raises(nextpair.SettingError, match="needs the similarities"):
        nextpair.as_skactiveml(nextpair.HardNegative()).query(samples, labels)
    with pytest.raises(nextpair.SettingError, match="^strategy: "):
        nextpair.as_skactiveml("random")  # type: ignore[arg-type]
