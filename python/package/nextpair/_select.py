"""The one call, and the thresholds alone."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias, Unpack

import numpy as np
import numpy.typing as npt

from . import _engine
from ._picks import Picks
from ._problem import Metric, Problem, Side, Similarity, settings_of, state
from ._progress import Listener, listening
from ._strategies import (
    DEFAULT,
    STRATEGIES,
    HardNegative,
    Parameters,
    Strategy,
    needs_vectors,
    seed_of,
    whole,
)
from .errors import GuardError, InputError, SelectionWarning, SettingError, StrategyError

Guard: TypeAlias = Literal["warn", "raise", "off"]


class CustomStrategy(Protocol):
    """A strategy of yours: any object with this method."""

    def query(self, problem: Problem, budget: int) -> Any:
        """Returns `budget` distinct items, most wanted first, or such items and their scores."""


def select(
    images: Any = None,
    texts: Any = None,
    pool: Any = None,
    budget: int = 0,
    strategy: str | Strategy | CustomStrategy = DEFAULT,
    pool_side: Side = "image",
    *,
    ids: Sequence[Any] | None = None,
    pair_ids: Sequence[Any] | None = None,
    pictures: Sequence[Any] | None = None,
    queries: Any = None,
    similarities: tuple[Any, Any] | None = None,
    similarity: Similarity | None = None,
    batch: int = 4096,
    features: tuple[Any, Any] | None = None,
    metric: Metric = "cosine",
    groups: Any = None,
    dedupe: bool | float | Literal["exact"] | None = None,
    seed: int | None = None,
    explain: int = 3,
    guard: Guard = "warn",
    progress: bool | Listener | None = None,
    device: str = "auto",
    threads: int | None = None,
    **parameters: Unpack[Parameters],
) -> Picks:
    """Picks the `budget` items of the pool that are most worth pairing next, and says why.

    `images` and `texts` are embeddings of the pairs, row j of both for pair j; `pool` are embeddings of
    what lacks its other half, images or texts as `pool_side` says. Arrays of NumPy, PyTorch, Arrow and
    whoever else shares memory are read where they lie; do not write to them meanwhile.

    Before anything is paired, `select(pool=pool, budget=100)` is enough, for every
    strategy that compares nothing with pairs.

    `strategy` is a name, an object such as `HardNegative(top_k=5)`, or an object of yours with a method
    `query(problem, budget)`. With a name, or none, the parameters of the strategy may be given too. The default,
    `v-optimal`, looks at vectors alone and needs no `texts`; with `similarities` or `similarity` it needs `features`.

    - `ids`, `pair_ids`: names of the pool items and of the pairs; `pictures`: paths, for notebooks.
    - `queries`: embeddings of what people search for; `v-optimal`, `herding` and `novelty` look at them.
    - `similarities`: those of any model in the place of embeddings, of the pool and of the pairs: rows
      are items on the side of the pool, columns are pairs.
    - `similarity`: such a model itself. It is called with slices of `images` (or `pool`) and of `texts`,
      of at most `batch` pairs, and returns a row per image and a column per text. These need not be
      arrays then: any sequence that can be sliced will do.
    - `features`: vectors for distances in the place of embeddings, of the pool and of the pairs' half on
      its side. Several vectors per item (three dimensions) count by their mean.
    - `groups`: a label per pair; pairs with equal labels are never rivals. A tuple of several such lists
      makes a group of all pairs that share a label of any.
    - `dedupe`: "exact", or a cosine such as 0.98, leaves duplicates out of the pool.
    - `seed`: of every draw; 0, or the `random_state` of a strategy, unless it is given.
    - `explain`: how many of each pick's strongest hits to tell.
    - `guard`: what to do where something looks wrong: "warn", "raise", or do not look ("off"). What was
      found is in `Picks.warnings` too.
    - `progress`: a function of phase, steps done and all steps; `True` or `False` for a bar of tqdm, which
      is shown where somebody can see it by default.
    - `device`: "auto" takes a GPU where there is one and the work is worth it; or "cpu", "cuda", "cuda:N".
      The picks are the same.
    - `threads`: all cores by default.
    """
    chosen, custom = strategy_of(strategy, parameters)
    seed = seed_of(chosen.random_state if seed is None else seed)
    if guard not in ("warn", "raise", "off"):
        raise SettingError(f"guard: {guard!r} is none of warn, raise, off")
    if custom is None and similarity is not None and features is None and needs_vectors(chosen.name):
        # Before the model is asked about every pair.
        raise SettingError(
            f"features: {chosen.name} needs a vector for every item of the pool and of the paired set, beside similarity; "
            'or name a strategy that needs none, such as "hard-negative"'
        )
    with listening(progress) as listener:
        how: _engine.How = (thread_count(threads), listener)
        given = state(
            images,
            texts,
            pool,
            settings_of(chosen, seed, explain, groups),
            pool_side=pool_side,
            metric=metric,
            queries=queries,
            similarities=similarities,
            similarity=similarity,
            batch=batch,
            features=features,
            dedupe=dedupe,
            device=device,
            progress=listener,
        )
        problem = Problem(given, how)
        names = (names_of("ids", ids, problem.pool), names_of("pair_ids", pair_ids, _pairs(given)))
        seen = names_of("pictures", pictures, problem.pool)
        budget, look = whole("budget", budget), guard != "off"
        if custom is None:
            raw = problem._engine.select(budget, names, look, how)
        else:
            raw = problem._engine.check(_chosen(custom, problem, budget), budget, names, look, how)
    name = chosen.name if custom is None else type(custom).__name__
    return guarded(Picks(raw, name, *names, seen), guard)


def strategy_of(given: Any, parameters: Any) -> tuple[Strategy, CustomStrategy | None]:
    """The strategy with its parameters; for one of yours, those that a problem has anyway, and itself."""
    if isinstance(given, str):
        if given not in STRATEGIES:
            raise SettingError(f"strategy: no strategy {given!r}; there are {', '.join(STRATEGIES)}")
        return (STRATEGIES[given]().set_params(**parameters), None)
    if isinstance(given, type):
        raise SettingError(f"strategy: {given.__name__} is a class; give {given.__name__}()")
    if isinstance(given, Strategy):
        if parameters:
            raise SettingError(f"{next(iter(parameters))}: give it to {type(given).__name__}, which is given already")
        if type(given).query is not Strategy.query:
            # The engine would pick by the built-in strategy, and `query` would never be called.
            raise SettingError(
                f"strategy: {type(given).__name__} is a built-in strategy with a query of its own, which would not be "
                "called; for a strategy of yours, define query(problem, budget) in a class that has none of them as its base"
            )
        return (given, None)
    if not callable(getattr(given, "query", None)):
        raise SettingError(f"strategy: {given!r} is no name, and has no method query(problem, budget)")
    return (HardNegative().set_params(**parameters), given)


def _chosen(custom: CustomStrategy, problem: Problem, budget: int) -> list[tuple[int, float]]:
    """Asks a strategy of Python, on this thread."""
    answer = custom.query(problem, budget)
    items, scores = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
    name = type(custom).__name__
    try:
        items = [whole("items", item) for item in items]
        scores = [0.0] * len(items) if scores is None else [float(score) for score in scores]
    except (TypeError, ValueError) as error:
        raise StrategyError(f"{name} returned neither items nor items and scores: {error}") from error
    if len(items) != len(scores):
        raise StrategyError(f"{name} returned {len(items)} items and {len(scores)} scores")
    if any(item >= problem.pool for item in items):
        raise StrategyError(f"{name} picked item {max(items)} of a pool of {problem.pool}")
    return list(zip(items, scores, strict=True))


def guarded(picks: Picks, guard: Guard, depth: int = 3) -> Picks:
    """Warns of what was found, at the caller of whoever people call."""
    if guard == "raise" and picks.warnings:
        raise GuardError("; ".join(map(str, picks.warnings)))
    if guard == "warn":
        for finding in picks.warnings:
            warnings.warn(str(finding), SelectionWarning, stacklevel=depth)
    return picks


def thread_count(threads: int | None) -> int | None:
    return None if threads is None else whole("threads", threads)


def names_of(name: str, given: Any, count: int) -> list[Any] | None:
    if given is None:
        return None
    names = given.tolist() if hasattr(given, "tolist") else list(given)
    if len(names) != count:
        raise InputError(f"{name}: {len(names)} of them for {count} items")
    return names


def _pairs(given: _engine.Given) -> int:
    """Pairs, also where nothing is compared with them."""
    if given["similarities"] is not None:
        return given["similarities"][1][1]
    lent = given["images"] or given["texts"]
    if lent is None and given["features"] is not None:
        lent = given["features"][1]
    return 0 if lent is None else lent[1]


def thresholds(
    images: Any,
    texts: Any,
    pool_side: Side = "image",
    *,
    strategy: HardNegative | None = None,
    similarities: Any = None,
    metric: Metric = "cosine",
    groups: Any = None,
    progress: bool | Listener | None = None,
    threads: int | None = None,
) -> npt.NDArray[np.float64]:
    """How similar the hardest known rival of every anchor is: what an item must exceed to be a hit.

    `similarities`, in the place of embeddings, are those of the pairs alone.
    """
    chosen = HardNegative() if strategy is None else strategy
    settings = settings_of(chosen, seed_of(chosen.random_state), 0, groups)
    with listening(progress) as listener:
        # Any pool will do; this one is there.
        if similarities is None:
            own = images if pool_side == "image" else texts
            given = state(images, texts, own, settings, pool_side=pool_side, metric=metric)
        else:
            given = state(images, texts, None, settings, similarities=(similarities, similarities))
        return Problem(given, (thread_count(threads), listener)).thresholds()
