"""A small world that every test can select from."""

from __future__ import annotations

import signal
from typing import Any, NamedTuple

import numpy as np
import pytest

import nextpair
from nextpair import _engine

# A shell that runs the tests in the background has it ignored, and Python takes that over.
signal.signal(signal.SIGINT, signal.default_int_handler)

NEEDS = {name: (matching, features) for name, matching, features, *_ in _engine.strategies()}


class World(NamedTuple):
    images: Any
    texts: Any
    pool: Any

    def select(self, budget: int, strategy: Any = "hard-negative", **options: Any) -> nextpair.Picks:
        options.setdefault("guard", "off")
        return nextpair.select(*self, budget, strategy, **options)

    def each(self, change: Any) -> World:
        """The same world in arrays of another kind."""
        return World(*(change(array) for array in self))


def make(seed: int = 0, pairs: int = 60, items: int = 200, dim: int = 12, dtype: Any = np.float32) -> World:
    """Scenes around a few subjects: texts lie near their images."""
    rng = np.random.default_rng(seed)
    subjects = rng.normal(size=(8, dim))

    def scenes(count: int) -> Any:
        return subjects[rng.integers(8, size=count)] + 0.5 * rng.normal(size=(count, dim))

    images = scenes(pairs)
    texts = images + 0.3 * rng.normal(size=images.shape)
    return World(*(np.ascontiguousarray(array, dtype=dtype) for array in (images, texts, scenes(items))))


@pytest.fixture
def world() -> World:
    return make()
