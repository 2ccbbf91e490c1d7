"""How well images and texts find each other."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _engine
from ._arrays import lend
from ._problem import Metric
from ._progress import Listener, listening
from ._select import thread_count
from ._strategies import whole
from .errors import InputError, SettingError


@dataclasses.dataclass(frozen=True)
class Direction:
    """How well one side finds the other. Percentages, and ranks from 1."""

    r1: float
    r5: float
    r10: float
    median: float
    mean: float
    mean_reciprocal: float
    mean_log: float
    ranks: npt.NDArray[np.int64] = dataclasses.field(repr=False, compare=False)


@dataclasses.dataclass(frozen=True)
class Recall:
    """How well images and texts find each other."""

    text: Direction
    """Every image looks for its texts."""
    image: Direction
    """Every text looks for its image."""

    @property
    def rsum(self) -> float:
        """The sum of the six recalls."""
        return sum(side.r1 + side.r5 + side.r10 for side in (self.text, self.image))


def recall(
    images: Any = None,
    texts: Any = None,
    *,
    similarities: Any = None,
    image_of: Sequence[int] | npt.NDArray[Any] | None = None,
    metric: Metric = "cosine",
    progress: bool | Listener | None = None,
    threads: int | None = None,
) -> Recall:
    """Recall at 1, 5 and 10 and more, from embeddings or from similarities (a row per image, a column per
    text). `image_of` has the image of every text; without it, text j belongs to image j.
    """
    if metric not in ("cosine", "dot"):
        raise SettingError(f"metric: {metric!r} is neither cosine nor dot")
    if similarities is not None and not (images is texts is None):
        raise SettingError("similarities: images and texts are not read beside them; leave them None")
    embeddings = None if similarities is not None else (lend(images, "images"), lend(texts, "texts"))
    table = None if similarities is None else lend(similarities, "similarities")
    rows, columns = (embeddings[0][1], embeddings[1][1]) if embeddings else (table[1], table[3]) if table else (0, 0)
    if image_of is None and rows != columns:
        raise InputError(f"image_of: {rows} images and {columns} texts; say which image every text belongs to")
    owners = range(columns) if image_of is None else image_of
    if len(owners) != columns:
        raise InputError(f"image_of: {len(owners)} of them for {columns} texts")
    with listening(progress) as listener:
        how: _engine.How = (thread_count(threads), listener)
        both = _engine.recall(embeddings, table, [whole("image_of", owner) for owner in owners], metric, how)
    text, image = (Direction(*side[:7], np.array(side[7], dtype=np.int64)) for side in both)
    return Recall(text, image)
