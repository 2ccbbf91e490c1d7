"""Selections from pools that outgrow one machine, on Ray. It needs `pip install nextpair[ray]`.

The driver computes the thresholds once and sends them to all. Blocks of the dataset stay where Ray has
them; each is scored there, and what comes back is small. Merging does not depend on the order in which
parts come back, so the picks are those of `nextpair.select`, to the bit.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, Unpack

import ray

from . import _engine
from ._arrays import as_array, readable
from ._parts import finish, score
from ._picks import Picks
from ._problem import Metric, Problem, Side, settings_of, state
from ._progress import Listener, listening
from ._select import Guard, names_of, strategy_of
from ._strategies import Parameters, Strategy, needs_vectors, seed_of, whole
from .errors import GuardError, InputError, NextpairError, SettingError

if TYPE_CHECKING:
    import ray.data

__all__ = ["select"]

# How many items a selection can number.
_MOST_ITEMS = 2**32 - 1
# Smaller blocks are scored together with their neighbours.
_FEWEST_ROWS = 65_536
# A worker that dies is replaced this often for one part.
_RETRIES = 10


# Id and picture of items.
_Named: TypeAlias = dict[int, tuple[Any, Any]]


class _Block(NamedTuple):
    """Consecutive items of the pool: some rows of a block of Ray's."""

    ref: Any
    rows: int
    start: int


@dataclasses.dataclass(frozen=True)
class _Question:
    """What every worker must know. Ray keeps one copy on each machine, and workers read it there."""

    images: Any
    texts: Any
    options: dict[str, Any]
    column: str
    names: tuple[str | None, str | None]


def select(
    dataset: ray.data.Dataset,
    images: Any,
    texts: Any,
    budget: int,
    strategy: str | Strategy,
    pool_side: Side = "image",
    *,
    column: str = "embedding",
    id_column: str | None = None,
    picture_column: str | None = None,
    pair_ids: Sequence[Any] | None = None,
    metric: Metric = "cosine",
    groups: Any = None,
    seed: int | None = None,
    explain: int = 3,
    guard: Guard = "warn",
    progress: bool | Listener | None = None,
    gpus: int | None = None,
    threads: int = 1,
    **parameters: Unpack[Parameters],
) -> Picks:
    """Picks `budget` items of a pool that Ray reads, as `nextpair.select` would from all of it at once.

    `dataset` is read by Ray's own readers (`read_parquet`, `read_lance`, `read_webdataset`, ...), in the
    order of its rows, as a stream: the pool need not fit into the memory of the cluster. `column` has the
    embeddings: tensors, or lists of numbers; `id_column` and `picture_column` have names and paths of
    pictures. `images` and `texts` are embeddings of the pairs, which every machine gets once.

    - `gpus`: how many GPUs score, by default all of the cluster. Where there are none, every part is a
      task of `threads` CPUs, and Ray runs it where the rows are.
    - `progress`: a function of a phase, the rows scored and the rows seen so far.

    A worker or a machine that dies is replaced, and what it had is scored again.

    The other arguments are those of `nextpair.select`. Strategies that look at the whole pool at once
    cannot be split, and say so; the default of `nextpair.select` is one of them, so that a strategy is to be named here, such as
    "hard-negative". The guards look at the pairs, and for picks without a hit; not for what
    needs the whole pool at once, such as duplicates.
    """
    chosen, custom = strategy_of(strategy, parameters)
    if custom is not None:
        raise SettingError("strategy: one of Python cannot be split")
    if needs_vectors(chosen.name):
        raise SettingError(f"strategy: {chosen.name} looks at vectors of the whole pool; Ray has it in blocks")
    if whole("threads", threads) == 0:
        raise SettingError("threads: at least 1 is needed")
    seed = seed_of(chosen.random_state if seed is None else seed)
    chosen = type(chosen)(**{**chosen.get_params(), "random_state": seed})
    images, texts = readable(images, "images"), readable(texts, "texts")
    options: dict[str, Any] = {
        "strategy": chosen,
        "pool_side": pool_side,
        "metric": metric,
        "groups": groups,
        "explain": explain,
        "of": _MOST_ITEMS,
        "budget": whole("budget", budget),
        "threads": threads,
    }
    named = None if pair_ids is None else names_of("pair_ids", pair_ids, len(images))
    with listening(progress) as listener:
        told = listener or False
        # A part of no items has the thresholds. Whatever is wrong with the pairs is said here.
        nothing = score(images, texts, images[:0], **{**options, "threads": None}, progress=told)
        found = [] if guard == "off" else _wrong_with_pairs(images, texts, options, named)
        if guard == "raise" and found:
            raise GuardError("; ".join(f"{text}; {fix}" for _, text, fix in found))
        options["thresholds"] = nothing
        question = _Question(images, texts, options, column, (id_column, picture_column))
        with _in_order(dataset):
            joined, pool = _Parts(question, _workers(gpus, threads)).score_all(_runs(dataset), listener)
        part = dataclasses.replace(nothing, data=joined.data, pool=pool)
        ids, pictures = (
            {item: names[at] for item, names in joined.names.items()} if name else None
            for at, name in enumerate(question.names)
        )
        return finish([part], (ids, named), pictures, None, guard, told, None, found)


def _wrong_with_pairs(images: Any, texts: Any, options: dict[str, Any], named: Any) -> list[tuple[str, str, str]]:
    """What looks wrong about the pairs."""
    settings = settings_of(options["strategy"], 0, 0, options["groups"])
    own = images if options["pool_side"] == "image" else texts
    given = state(images, texts, own, settings, pool_side=options["pool_side"], metric=options["metric"])
    how: _engine.How = (None, None)
    found = Problem(given, how)._engine.inspect((None, named), how)
    # The pool is not this one.
    return [finding for finding in found if finding[0] == "near-chance"]


@contextmanager
def _in_order(dataset: ray.data.Dataset) -> Iterator[None]:
    """Rows come in their order: their numbers are what picks are told by."""
    options = dataset.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        yield
    finally:
        options.preserve_order = before


def _runs(dataset: ray.data.Dataset) -> Iterator[list[_Block]]:
    """The dataset in runs of consecutive blocks, each worth a task."""
    run: list[_Block] = []
    for bundle in dataset.iter_internal_ref_bundles():
        slices = getattr(bundle, "slices", None) or [None] * len(bundle.blocks)
        for entry, part in zip(bundle.blocks, slices, strict=True):
            ref, metadata = (entry.ref, entry.metadata) if hasattr(entry, "ref") else entry
            start = 0 if part is None else part.start_offset
            rows = metadata.num_rows if part is None else part.num_rows
            if rows is None:
                rows = ray.get(_rows_of.remote(ref))
            run.append(_Block(ref, rows, start))
        if sum(block.rows for block in run) >= _FEWEST_ROWS:
            yield run
            run = []
    if run:
        yield run


@ray.remote(num_cpus=0, max_retries=_RETRIES)  # type: ignore[misc, unused-ignore]
def _rows_of(block: Any) -> int:
    from ray.data.block import BlockAccessor

    return int(BlockAccessor.for_block(block).num_rows())


def _score(question: _Question, first: int, slices: list[tuple[int, int]], *blocks: Any) -> tuple[bytes, _Named]:
    """Scores consecutive blocks, the first of which begins with the item `first`."""
    from ray.data.block import BlockAccessor

    data = question.options["thresholds"].data
    names: _Named = {}
    for block, (start, rows) in zip(blocks, slices, strict=True):
        table = BlockAccessor.for_block(block).to_arrow().slice(start, rows)
        if question.column not in table.column_names:
            there = ", ".join(table.column_names)
            raise InputError(f"column: there is no {question.column!r} in the dataset; there are {there}")
        if rows == 0:
            continue
        pool = as_array(table.column(question.column), question.column)
        part = score(question.images, question.texts, pool, first=first, progress=False, **question.options)
        items = _engine.candidates(part.data)
        if any(question.names):
            columns = [_values(table, name, items, first) for name in question.names]
            names.update(zip(items, zip(*columns, strict=True), strict=True))
        data = _engine.join([data, part.data])
        first += rows
    return data, names


def _values(table: Any, name: str | None, items: list[int], first: int) -> list[Any]:
    if name is None:
        return [None] * len(items)
    if name not in table.column_names:
        raise InputError(f"id_column, picture_column: there is no {name!r} in the dataset")
    values: list[Any] = table.column(name).take([item - first for item in items]).to_pylist()
    return values


class _Tasks:
    """Scores parts in tasks: Ray runs them where the rows are, and again if a worker dies."""

    def __init__(self, threads: int) -> None:
        self._score = ray.remote(num_cpus=threads, max_retries=_RETRIES)(_score)
        # One is scored, one waits, on every CPU.
        self.at_once = 2 * max(1, _there_are("CPU") // threads)

    def score(self, question: Any, *rest: Any) -> Any:
        return self._score.remote(question, *rest)


class _OnGpu:
    """What an actor does. It keeps its GPU, which takes a while to start."""

    def score(self, question: _Question, *rest: Any) -> tuple[bytes, _Named]:
        return _score(question, *rest)


class _Actors:
    """Scores parts by actors with a GPU each."""

    def __init__(self, gpus: int) -> None:
        actor = ray.remote(num_gpus=1, num_cpus=0, max_restarts=-1, max_task_retries=_RETRIES)(_OnGpu)
        self._actors: list[Any] = [actor.remote() for _ in range(gpus)]
        self._next = 0
        self.at_once = 2 * gpus

    def score(self, question: Any, *rest: Any) -> Any:
        self._next += 1
        return self._actors[self._next % len(self._actors)].score.remote(question, *rest)


def _there_are(resource: str) -> int:
    return int(ray.cluster_resources().get(resource, 0))  # type: ignore[no-untyped-call, unused-ignore]


def _workers(gpus: int | None, threads: int) -> _Tasks | _Actors:
    there = _there_are("GPU")
    wanted = there if gpus is None else whole("gpus", gpus)
    if wanted > there:
        raise SettingError(f"gpus: {wanted} of them, but the cluster has {there}")
    return _Actors(wanted) if wanted else _Tasks(threads)


@dataclasses.dataclass(frozen=True)
class _Joined:
    """Parts that were joined, and the names of what may be picked of them."""

    parts: int
    data: bytes
    names: _Named

    def with_other(self, other: _Joined) -> _Joined:
        data = _engine.join([self.data, other.data])
        names = {**self.names, **other.names}
        kept = {item: names[item] for item in _engine.candidates(data)} if names else names
        return _Joined(self.parts + other.parts, data, kept)


class _Parts:
    """Parts on their way, and what came back so far."""

    def __init__(self, question: _Question, workers: _Tasks | _Actors) -> None:
        self._workers = workers
        self._question = ray.put(question)
        self._rows_of: dict[Any, int] = {}
        self._scored = 0
        # Of falling sizes, so that what is large is seldom joined.
        self._back = [_Joined(1, question.options["thresholds"].data, {})]

    def score_all(self, runs: Iterator[list[_Block]], listener: Listener | None) -> tuple[_Joined, int]:
        """Scores everything. Returns it, and the number of items."""
        seen = 0
        try:
            for run in runs:
                rows = sum(block.rows for block in run)
                if seen + rows > _MOST_ITEMS:
                    raise InputError(f"dataset: it has more than {_MOST_ITEMS} rows; select from parts of it")
                slices = [(block.start, block.rows) for block in run]
                part = self._workers.score(self._question, seen, slices, *(block.ref for block in run))
                self._rows_of[part] = rows
                seen += rows
                while len(self._rows_of) >= self._workers.at_once:
                    self._take(listener, seen)
            while self._rows_of:
                self._take(listener, seen)
        finally:
            # Of an error, or of Ctrl-C: nobody waits for the others any more.
            for part in self._rows_of:
                ray.cancel(part)
        return (functools.reduce(_Joined.with_other, reversed(self._back)), seen)

    def _take(self, listener: Listener | None, seen: int) -> None:
        """Waits for a part, whichever is first, and joins it to others."""
        (part, *_), _ = ray.wait(list(self._rows_of))
        self._scored += self._rows_of.pop(part)
        try:
            joined = _Joined(1, *ray.get(part))
        except ray.exceptions.RayTaskError as error:
            # What is wrong was said by us; the traceback of a worker is no help.
            raise (error.cause if isinstance(error.cause, NextpairError) else error) from None
        while self._back and self._back[-1].parts <= joined.parts:
            joined = self._back.pop().with_other(joined)
        self._back.append(joined)
        if listener is not None:
            listener("scores", self._scored, seen)
