"""The engine against NumPy, in as few lines as possible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import make

import nextpair


def cosines(a: Any, b: Any) -> Any:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return (a / np.linalg.norm(a, axis=1)[:, None]) @ (b / np.linalg.norm(b, axis=1)[:, None]).T


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("top_k", [1, 3])
@pytest.mark.parametrize("weight", ["surplus", "count"])
def test_hard_negatives(seed: int, top_k: int, weight: Any) -> None:
    world = make(seed)
    pairs, pool = cosines(world.images, world.texts), cosines(world.pool, world.texts)
    rivals = np.where(np.eye(len(pairs), dtype=bool), -np.inf, pairs)
    thresholds = np.sort(rivals, axis=0)[-top_k]
    surplus = np.maximum(pool - thresholds, 0)
    hits = (surplus > 0).sum(axis=1)
    scores = surplus.sum(axis=1) if weight == "surplus" else hits.astype(float)
    budget = min(20, int((hits > 0).sum()))
    wanted = np.lexsort((np.arange(len(pool)), -scores if weight == "count" else -scores.round(12)))[:budget]

    picks = world.select(budget, nextpair.HardNegative(top_k=top_k, weight=weight), explain=2)
    np.testing.assert_allclose(picks.thresholds, thresholds, rtol=1e-12)
    np.testing.assert_allclose(picks.scores, scores[wanted], rtol=1e-9)
    if weight == "surplus":
        assert picks.indices.tolist() == wanted.tolist()
    assert picks.hard_negatives == (hits > 0).sum()
    for pick in picks:
        strongest = np.argsort(-surplus[pick.index])[: len(pick.why)]
        assert [reason.anchor for reason in pick.why] == strongest.tolist()
        assert pick.hits == hits[pick.index]
        for reason in pick.why:
            assert reason.similarity == pytest.approx(pool[pick.index, reason.anchor], rel=1e-12)
            assert reason.own == pytest.approx(pairs[reason.anchor, reason.anchor], rel=1e-12)
            assert reason.surplus == reason.similarity - reason.threshold


@pytest.mark.parametrize("seed", range(3))
def test_core_set(seed: int) -> None:
    world = make(seed)
    pool, centres = world.pool.astype(np.float64), list(world.images.astype(np.float64))
    wanted = []
    for _ in range(15):
        distances = np.min([np.linalg.norm(pool - centre, axis=1) for centre in centres], axis=0)
        wanted.append(int(distances.argmax()))
        centres.append(pool[wanted[-1]])
    assert world.select(15, "core-set").indices.tolist() == wanted


@pytest.mark.parametrize("seed", range(3))
def test_least_similar_margin_and_entropy(seed: int) -> None:
    world = make(seed)
    pool = cosines(world.pool, world.texts)
    two = -np.sort(-pool, axis=1)[:, :2]
    weights = np.exp((pool - pool.max(axis=1, keepdims=True)) / 0.05)
    weights /= weights.sum(axis=1, keepdims=True)
    entropies = -(weights * np.log(np.maximum(weights, 1e-300))).sum(axis=1)
    for name, scores in (
        ("least-similar", -two[:, 0]),
        ("margin", two[:, 1] - two[:, 0]),
        ("entropy", entropies),
    ):
        picks = world.select(25, name)
        assert picks.indices.tolist() == np.argsort(-scores, kind="stable")[:25].tolist(), name
        np.testing.assert_allclose(picks.scores, np.sort(scores)[::-1][:25], rtol=1e-8, atol=1e-12)


def test_groups_are_never_rivals() -> None:
    world = make()
    groups = np.arange(60) // 5
    pairs = cosines(world.images, world.texts)
    rivals = np.where(groups[:, None] == groups[None, :], -np.inf, pairs)
    found = nextpair.thresholds(world.images, world.texts, groups=groups)
    np.testing.assert_allclose(found, rivals.max(axis=0), rtol=1e-12)
    named = [f"image {label}" for label in groups]
    assert (nextpair.thresholds(world.images, world.texts, groups=named) == found).all()
    both = nextpair.thresholds(world.images, world.texts, groups=(groups, np.arange(60) // 10))
    assert (both == nextpair.thresholds(world.images, world.texts, groups=np.arange(60) // 10)).all()
    with pytest.raises(nextpair.InputError, match="^groups: 59 group labels for 60 pairs"):
        world.select(5, groups=groups[1:])


def test_recall() -> None:
    world = make()
    table = cosines(world.images, world.texts)
    own = np.diag(table)
    text = (table > own[:, None]).sum(axis=1) + 1
    image = (table > own[None, :]).sum(axis=0) + 1
    for found in (nextpair.recall(world.images, world.texts), nextpair.recall(similarities=table)):
        assert found.text.ranks.tolist() == text.tolist()
        assert found.image.ranks.tolist() == image.tolist()
        assert found.text.r1 == pytest.approx(100 * (text == 1).mean())
        assert found.image.r10 == pytest.approx(100 * (image <= 10).mean())
        assert found.text.mean_log == pytest.approx(np.log(text).mean())
        assert found.rsum == pytest.approx(sum(100 * (ranks <= k).mean() for ranks in (text, image) for k in (1, 5, 10)))
    twice = nextpair.recall(world.images, np.repeat(world.texts, 2, axis=0), image_of=np.arange(120) // 2)
    assert twice.image.r1 == pytest.approx(found.image.r1)
    with pytest.raises(nextpair.SettingError, match="^metric: 'euclid'"):
        nextpair.recall(world.images, world.texts, metric="euclid")  # type: ignore[arg-type]
    with pytest.raises(nextpair.SettingError, match="^similarities: images and texts are not read"):
        nextpair.recall(world.images, world.texts, similarities=table)
    with pytest.raises(nextpair.InputError, match="^image_of: 60 images and 59 texts"):
        nextpair.recall(world.images, world.texts[1:])
