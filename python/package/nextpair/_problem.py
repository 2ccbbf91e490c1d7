"""A problem: a pool, the pairs, and the rule that compares them."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from . import _engine
from ._arrays import Array, as_array, lend, lend_two, readable
from ._progress import Listener
from ._strategies import Strategy, whole
from .errors import InputError, SettingError

Side: TypeAlias = Literal["image", "text"]
Metric: TypeAlias = Literal["cosine", "dot"]
Similarity: TypeAlias = Callable[[Any, Any], Any]

# Larger tables of a model's similarities go to a temporary file.
_IN_MEMORY = 256 << 20


class Problem:
    """What a strategy of yours is asked. Items are rows of the pool, pairs rows of `images` and `texts`."""

    seed: int
    """What draws should depend on."""
    pool_side: str
    """What the pool holds: "image" or "text"."""

    def __init__(self, given: _engine.Given, how: _engine.How) -> None:
        self._engine = _engine.Problem(given, how)
        self._given = given
        self._how = how
        self.seed = given["settings"]["seed"]
        self.pool_side = given["pool_side"]

    @property
    def pool(self) -> int:
        """Items in the pool, duplicates included."""
        return self._engine.pool

    @property
    def pairs(self) -> int:
        """Pairs that the pool is compared with; 0 if there is nothing to compare."""
        return self._engine.pairs

    @property
    def items(self) -> npt.NDArray[np.int64]:
        """The items to choose from, ascending: all, or those that `dedupe` leaves."""
        kept = self._engine.kept
        return np.arange(self.pool) if kept is None else np.array(kept, dtype=np.int64)

    def similarities(
        self, items: Sequence[int] | Array | None = None, pairs: Sequence[int] | Array | None = None
    ) -> npt.NDArray[np.float64]:
        """Exact similarities of items to the other halves of pairs; all of them unless you name some."""
        rows = [whole("items", item) for item in (self.items if items is None else items)]
        columns = [whole("pairs", pair) for pair in (range(self.pairs) if pairs is None else pairs)]
        values = self._engine.similarities(rows, columns, self._how)
        return np.frombuffer(values, dtype=np.float64).reshape(len(rows), len(columns))

    def thresholds(self) -> npt.NDArray[np.float64]:
        """The threshold of every anchor: how similar its hardest known rival is."""
        return np.array(self._engine.thresholds(self._how), dtype=np.float64)

    @property
    def features(self) -> tuple[Array, Array] | None:
        """One vector for every item of the pool, and for every paired item on its side, if there are any."""
        given = self._given
        own = given["images" if self.pool_side == "image" else "texts"]
        lent = given["features"] or (None if given["pool"] is None or own is None else (given["pool"], own))
        return None if lent is None else (_array(lent[0]), _array(lent[1]))


def _array(lent: Any) -> Array:
    view, rows, vectors, dim, dtype = lent
    shape = (rows, dim) if vectors == 1 else (rows, vectors, dim)
    array: Array = view.view(dtype).reshape(shape)
    return array


def state(
    images: Any,
    texts: Any,
    pool: Any,
    settings: _engine.Settings,
    *,
    pool_side: str = "image",
    metric: str = "cosine",
    queries: Any = None,
    similarities: Any = None,
    similarity: Similarity | None = None,
    batch: int = 4096,
    features: Any = None,
    dedupe: Any = None,
    part: tuple[int, int] | None = None,
    device: str = "auto",
    progress: Listener | None = None,
) -> _engine.Given:
    """What the engine takes, of what people give."""
    if pool_side not in ("image", "text"):
        raise SettingError(f"pool_side: {pool_side!r} is neither image nor text")
    if metric not in ("cosine", "dot"):
        raise SettingError(f"metric: {metric!r} is neither cosine nor dot")
    if similarity is not None:
        if similarities is not None:
            raise SettingError("similarity: give the function, or its similarities, not both")
        similarities = _tables(similarity, images, texts, pool, pool_side, batch, progress)
    elif similarities is not None and not (images is texts is pool is None):
        raise SettingError(
            "similarities: images, texts and pool are not read beside them; leave them None. "
            "Vectors for distances are features=(of the pool, of the pairs)"
        )
    arrays = similarities is None
    if arrays and pool is None and features is None and part is None:
        raise InputError("pool: there is none")
    lent = lend(pool, "pool") if arrays and pool is not None else None
    halves = [
        lend(half, name) if arrays and half is not None else None for name, half in (("images", images), ("texts", texts))
    ]
    if lent is not None and not any(halves) and features is None and part is None:
        # Nothing is paired: halves of no pairs, the other one to compare queries with.
        none = (lent[0][:0], 0, *lent[2:])
        halves = [none if side == pool_side or queries is not None else None for side in ("image", "text")]
    return {
        "pool_side": pool_side,
        "metric": metric,
        "images": halves[0],
        "texts": halves[1],
        "pool": lent,
        "similarities": lend_two(similarities, "similarities"),
        "features": lend_two(features, "features", 3),
        "queries": None if queries is None else lend(queries, "queries"),
        "dedupe": _dedupe(dedupe),
        "part": part,
        "device": _device(device),
        "settings": settings,
    }


def settings_of(strategy: Strategy, seed: int, explain: int, groups: Any) -> _engine.Settings:
    """The parameters of a strategy with what belongs to a selection."""
    kinds = [] if groups is None else list(groups) if isinstance(groups, tuple) else [groups]
    return strategy._settings(seed=seed, explain=explain, groups=[_numbered(kind) for kind in kinds])


def _numbered(labels: Any) -> list[int]:
    """Numbers for labels of any kind; equal labels have equal numbers."""
    known: dict[Any, int] = {}
    labels = labels.tolist() if hasattr(labels, "tolist") else labels
    try:
        return [known.setdefault(label, len(known)) for label in labels]
    except TypeError:
        raise InputError("groups: one label per pair is needed, or a tuple of several such lists") from None


def _device(given: Any) -> str:
    if not isinstance(given, str) or not re.fullmatch("auto|cpu|cuda(:[0-9]+)?", given):
        raise SettingError(f"device: {given!r} is none of auto, cpu, cuda, cuda:N")
    return given


def _dedupe(given: Any) -> str | None:
    if given is None or given is False:
        return None
    if given is True or given == "exact":
        return "exact"
    try:
        return repr(float(given))
    except (TypeError, ValueError):
        raise SettingError(f'dedupe: "exact" or a cosine is needed, not {given!r}') from None


def _tables(
    similarity: Similarity, images: Any, texts: Any, pool: Any, side: str, batch: int, progress: Listener | None
) -> tuple[Array, Array]:
    """Asks a model once about every item of the pool and about every pair."""
    for name, items in (("images", images), ("texts", texts), ("pool", pool)):
        if not hasattr(items, "__len__"):
            raise InputError(f"{name}: similarity is called with slices of it; a sequence is needed")
    if len(images) != len(texts):
        raise InputError(f"images, texts: {len(images)} images but {len(texts)} texts; item j of both is pair j")
    at_once = whole("batch", batch)
    if at_once == 0:
        raise SettingError("batch: 0 pairs at once are none")
    anchors, own = (texts, images) if side == "image" else (images, texts)
    steps = (len(pool) + len(own)) * len(anchors)
    before = len(pool) * len(anchors)
    of_pool = _table(similarity, pool, anchors, side, at_once, progress, 0, steps)
    return (of_pool, _table(similarity, own, anchors, side, at_once, progress, before, steps))


def _table(
    similarity: Similarity,
    rows: Any,
    columns: Any,
    side: str,
    at_once: int,
    progress: Listener | None,
    done: int,
    steps: int,
) -> Array:
    wide = max(1, min(len(columns), at_once))
    high = max(1, at_once // wide)
    table: Array | None = None
    for top in range(0, len(rows), high):
        for left in range(0, len(columns), wide):
            own, other = rows[top : top + high], columns[left : left + wide]
            answer = similarity(own, other) if side == "image" else similarity(other, own)
            block = readable(as_array(answer, "similarity"), "similarity")
            block = block if side == "image" else block.T
            if block.shape != (len(own), len(other)):
                shape = block.shape if side == "image" else block.T.shape
                wanted = (len(own), len(other)) if side == "image" else (len(other), len(own))
                raise InputError(f"similarity: it returned shape {shape} for {wanted[0]} images and {wanted[1]} texts")
            if table is None:
                table = _room((len(rows), len(columns)), block.dtype)
            table[top : top + high, left : left + wide] = block
            done += block.size
            if progress is not None:
                progress("similarities", done, steps)
    return np.empty((0, max(1, len(columns))), np.float32) if table is None else table


def _room(shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    if shape[0] * shape[1] * dtype.itemsize <= _IN_MEMORY:
        return np.empty(shape, dtype)
    with tempfile.TemporaryFile(prefix="nextpair-") as file:  # the map outlives the name
        return np.memmap(file, dtype, "w+", shape=shape)
