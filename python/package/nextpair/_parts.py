"""A selection in parts, for those who split the pool themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Unpack

from . import _engine
from ._picks import Names, Picks
from ._problem import Metric, Problem, Side, settings_of, state
from ._progress import Listener, listening
from ._select import Guard, strategy_of, guarded, names_of, thread_count
from ._strategies import Parameters, Strategy, seed_of, whole
from .errors import PartsError, SettingError


@dataclasses.dataclass(frozen=True, eq=False)
class Partial:
    """What some items of a pool contribute to a selection. It can be pickled and sent anywhere."""

    data: bytes
    """Every number, to the bit."""
    strategy: Strategy
    """Who scored, with the seed that was used."""
    budget: int
    """How many items are to be picked."""
    pool: int
    """Items in the whole pool."""
    explain: int
    """How many reasons each pick has."""

    @property
    def items(self) -> list[tuple[int, int]]:
        """The items covered, as ranges: the first, and the one after the last."""
        return _engine.items_of(self.data)

    def _selection(self) -> tuple[Any, ...]:
        """What parts of one selection share."""
        return (self.strategy.name, self.strategy.get_params(), self.budget, self.pool, self.explain)


def score(
    images: Any,
    texts: Any,
    pool: Any,
    budget: int,
    strategy: str | Strategy,
    pool_side: Side = "image",
    *,
    first: int = 0,
    of: int | None = None,
    thresholds: Partial | None = None,
    similarities: Any = None,
    metric: Metric = "cosine",
    groups: Any = None,
    seed: int | None = None,
    explain: int = 3,
    progress: bool | Listener | None = None,
    device: str = "auto",
    threads: int | None = None,
    **parameters: Unpack[Parameters],
) -> Partial:
    """Scores a part of a pool, for `merge`: the rows `first` and following of a pool of `of` items.

    `strategy` is one that can be split, such as "hard-negative"; the default of `select` cannot.

    `pool` (or the first of `similarities`) holds these rows alone, so that nobody needs the whole pool.
    `thresholds` is another part of the same selection, one of no rows will do (`pool[:0]`): its
    thresholds are taken and not computed again.
    """
    chosen, custom = strategy_of(strategy, parameters)
    if custom is not None:
        raise SettingError("strategy: one of Python cannot be split")
    seed = seed_of(chosen.random_state if seed is None else seed)
    chosen = type(chosen)(**{**chosen.get_params(), "random_state": seed})
    settings = settings_of(chosen, seed, explain, groups)
    rows = len(pool if similarities is None else similarities[0])
    first = whole("first", first)
    of = first + rows if of is None else whole("of", of)
    part = Partial(b"", chosen, whole("budget", budget), of, whole("explain", explain))
    if thresholds is not None and thresholds._selection() != part._selection():
        raise PartsError("thresholds: they are of another selection")
    with listening(progress) as listener:
        how: _engine.How = (thread_count(threads), listener)
        given = state(
            images,
            texts,
            pool,
            settings,
            pool_side=pool_side,
            metric=metric,
            similarities=similarities,
            part=(first, of),
            device=device,
        )
        known = None if thresholds is None else thresholds.data
        data = Problem(given, how)._engine.score(part.budget, known, how)
    return dataclasses.replace(part, data=data)


def merge(
    parts: Iterable[Partial],
    *,
    features: tuple[Any, Any] | None = None,
    ids: Sequence[Any] | None = None,
    pair_ids: Sequence[Any] | None = None,
    pictures: Sequence[Any] | None = None,
    guard: Guard = "warn",
    progress: bool | Listener | None = None,
    threads: int | None = None,
) -> Picks:
    """Picks from parts that cover a pool, in any order: what `select` would have picked from all of it.

    `features` are the vectors of the whole pool and of the pairs' half on its side: `hybrid` needs them,
    and the guards look for near duplicates in them.
    """
    every = list(parts)
    pool = every[0].pool if every else 0
    names = (names_of("ids", ids, pool), None if pair_ids is None else list(pair_ids))
    return finish(every, names, names_of("pictures", pictures, pool), features, guard, progress, threads)


def finish(
    every: list[Partial],
    names: tuple[Names | None, Names | None],
    pictures: Names | None,
    features: tuple[Any, Any] | None,
    guard: Guard,
    progress: bool | Listener | None,
    threads: int | None,
    found: Sequence[tuple[str, str, str]] = (),
) -> Picks:
    """Picks from parts; names are by item and by pair, and `found` is what looked wrong before."""
    if not every:
        raise PartsError("there are no parts")
    chosen, budget, pool, explain = every[0].strategy, every[0].budget, every[0].pool, every[0].explain
    for at, part in enumerate(every):
        if part._selection() != every[0]._selection():
            raise PartsError(f"part {at} is of another selection than part 0")
    settings = settings_of(chosen, seed_of(chosen.random_state), explain, None)
    with listening(progress) as listener:
        how: _engine.How = (thread_count(threads), listener)
        given = state(None, None, None, settings, features=features, part=(0, pool))
        raw = _engine.finish([part.data for part in every], budget, given, names, how)
    raw["warnings"] = [*found, *raw["warnings"]]
    return guarded(Picks(raw, chosen.name, *names, pictures), guard, 4)
