"""How long a selection from a very large pool takes, and what it needs, before anybody rents machines."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any, Literal, TypeAlias

import numpy as np

from . import _engine
from ._parts import Partial, score
from ._strategies import Strategy, whole
from .errors import SettingError

Dtype: TypeAlias = Literal["float16", "float32", "float64"]

# Ray cuts what it reads into blocks of this size.
_BLOCK = 128 << 20
# How many items a selection can number.
_MOST_ITEMS = 2**32 - 1
# A measurement takes about this long.
_SECONDS = 0.2


@dataclasses.dataclass(frozen=True)
class Rates:
    """What was measured on one core of one machine, for some dimensions and anchors."""

    rows: float
    """Rows of a pool scored in a second, by one core."""
    thresholds: float
    """Seconds for all thresholds, by one core."""
    join: float
    """Seconds to join two parts."""
    part: int
    """Bytes of a part."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a selection needs. Times are in seconds, sizes in bytes. `nextpair.plan` has the formulas."""

    parts: int
    """Blocks that are scored one by one."""
    selections: int
    """A selection numbers at most 4,294,967,295 rows; so many of them are needed."""
    seconds: float
    """From the beginning to the picks."""
    phases: dict[str, float]
    """Seconds of the thresholds and of joining, on the driver, and of reading and scoring, which overlap."""
    memory: int
    """Peak on a node, without what the reader needs."""
    transfer: dict[str, int]
    """Bytes that are read from storage, sent to all nodes, and sent back by them."""

    def __str__(self) -> str:
        phases = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.phases.items())
        transfer = ", ".join(f"{name} {size / 1e9:.2f} GB" for name, size in self.transfer.items())
        again = "" if self.selections == 1 else f", in {self.selections} selections"
        return (
            f"{self.seconds:.1f} s ({phases}){again}; {self.parts} parts; "
            f"{self.memory / 1e9:.2f} GB on a node; {transfer}"
        )


def plan(
    pool_rows: int,
    dim: int,
    anchors: int,
    nodes: int = 1,
    *,
    cores: int = 1,
    budget: int = 1000,
    dtype: Dtype = "float32",
    read_rate: float = 200e6,
    rates: Rates | None = None,
) -> Plan:
    """Predicts time, memory and transfer of a selection of hard negatives on `nodes` machines of `cores` each.

    `rates` are those of `measure`, best with rows of your own on a machine of the cluster; without them,
    numbers of this shape are made up and measured here, which takes seconds. `read_rate` is how many bytes
    a node reads in a second.

    With n rows of b bytes, m anchors, k nodes of c cores, p = n b / 128 MiB parts:

    - thresholds = rates.thresholds / c, and joining = p rates.join, on the driver;
    - reading = n b / (k read_rate), scoring = n / (k c rates.rows); the slower of the two counts;
    - memory of a node: the pairs, 2 m b, once, and for every core a block and what scoring it needs;
    - transfer: n b from storage; (k - 1) (2 m b + 20 m) to the nodes; p rates.part back.

    Cores are yours alone, and the work of Ray itself is not counted: expect more.
    """
    rows, nodes, cores = (whole(*given) for given in (("pool_rows", pool_rows), ("nodes", nodes), ("cores", cores)))
    dim, anchors, budget = (whole(*given) for given in (("dim", dim), ("anchors", anchors), ("budget", budget)))
    if 0 in (rows, nodes, cores, dim, anchors, budget):
        raise SettingError("pool_rows, dim, anchors, nodes, cores, budget: at least 1 of each is needed")
    if rates is None:
        rates = _measure_made_up(dim, anchors, budget, dtype)
    row = dim * np.dtype(dtype).itemsize
    parts = math.ceil(rows * row / _BLOCK)
    phases = {
        "thresholds": rates.thresholds / cores,
        "reading": rows * row / (nodes * read_rate),
        "scoring": rows / (nodes * cores * rates.rows),
        "joining": parts * rates.join,
    }
    in_block = min(rows, _BLOCK // row)
    working = _engine.predicted_peak("hard-negative", in_block, anchors, dim, min(budget, in_block), 1)
    pairs = 2 * anchors * row
    return Plan(
        parts=parts,
        selections=math.ceil(rows / _MOST_ITEMS),
        seconds=phases["thresholds"] + max(phases["reading"], phases["scoring"]) + phases["joining"],
        phases=phases,
        memory=pairs + cores * (min(_BLOCK, rows * row) + working),
        transfer={
            "read": rows * row,
            "sent": (nodes - 1) * (pairs + 20 * anchors),
            "returned": parts * rates.part,
        },
    )


def measure(
    images: Any,
    texts: Any,
    pool: Any,
    budget: int = 1000,
    strategy: str | Strategy = "hard-negative",
    **options: Any,
) -> Rates:
    """Measures one core on some rows of a pool, for `plan`. The options are those of `score`."""
    few = min(whole("budget", budget), len(pool))

    def scored(some: Any, thresholds: Partial | None = None) -> tuple[Partial, float]:
        began = time.perf_counter()
        part = score(
            images, texts, some, few, strategy, of=2 * len(pool), thresholds=thresholds, threads=1, progress=False, **options
        )
        return (part, time.perf_counter() - began)

    nothing, thresholds = scored(pool[:0])
    # The fastest of three: what slows a machine down comes and goes.
    part, seconds = min((scored(pool, nothing) for _ in range(3)), key=lambda timed: timed[1])
    _, without = min((scored(pool[:0], nothing) for _ in range(3)), key=lambda timed: timed[1])
    began = time.perf_counter()
    _engine.join([nothing.data, part.data])
    join = time.perf_counter() - began
    # A block bears the cost of a call too, but blocks are larger than this.
    return Rates(len(pool) / max(seconds - without, 1e-9), thresholds, join, len(part.data))


def _measure_made_up(dim: int, anchors: int, budget: int, dtype: str) -> Rates:
    """Measures on numbers that are made up: pairs that find each other, and a pool of the same kind."""
    rng = np.random.default_rng(0)

    def made(rows: int) -> Any:
        return rng.standard_normal((rows, dim), dtype=np.float32)

    few = min(anchors, 2000)
    images = made(few)
    texts = (images + 0.5 * made(few)).astype(dtype)
    images = images.astype(dtype)
    rows, rates = 1000, None
    while rates is None or (rows / rates.rows < _SECONDS and rows * dim < 2**27):
        rows *= 2
        rates = measure(images, texts, made(rows).astype(dtype), budget)
    # Work grows with the anchors, that of the thresholds with their square.
    times = anchors / few
    part = rates.part + 20 * (anchors - few)
    return Rates(rates.rows / times, rates.thresholds * times**2, rates.join, part)
