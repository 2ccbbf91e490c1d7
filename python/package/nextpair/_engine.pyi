"""The engine, as the modules beside this file call it. Nothing here is for others."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, TypeAlias, TypedDict

from ._arrays import Lent

# Threads, and who hears how far the work is.
How: TypeAlias = tuple[int | None, Callable[[str, int, int], object] | None]
# Names of pool items and of pairs.
Names: TypeAlias = tuple[
    Sequence[Any] | Mapping[int, Any] | None, Sequence[Any] | Mapping[int, Any] | None
]
Reason: TypeAlias = tuple[int, float, float, float, float]
Direction: TypeAlias = tuple[float, float, float, float, float, float, float, list[int]]

class Settings(TypedDict):
    sample: int | None
    anchors: list[int] | None
    rivals: list[int] | None
    top_k: int
    weight: str
    fill: str
    max_score: float | None
    absolute_margin: float | None
    relative_margin: float | None
    points: int
    bandwidth: float | None
    temperature: float | None
    seed: int
    explain: int
    groups: list[list[int]]

class Given(TypedDict):
    pool_side: str
    metric: str
    images: Lent | None
    texts: Lent | None
    pool: Lent | None
    similarities: tuple[Lent, Lent] | None
    features: tuple[Lent, Lent] | None
    queries: Lent | None
    dedupe: str | None
    part: tuple[int, int] | None
    device: str
    settings: Settings

class RawPicks(TypedDict):
    picks: list[tuple[int, float, int | None, list[Reason], list[tuple[str, float]]]]
    pool: int
    hard_negatives: int | None
    duplicates: int | None
    thresholds: list[float]
    warnings: list[tuple[str, str, str]]

class Problem:
    def __new__(cls, given: Given, how: How) -> Problem: ...
    @property
    def pool(self) -> int: ...
    @property
    def pairs(self) -> int: ...
    @property
    def kept(self) -> list[int] | None: ...
    def select(
        self, strategy: str, budget: int, names: Names, guarded: bool, how: How
    ) -> RawPicks: ...
    def check(
        self,
        chosen: list[tuple[int, float]],
        budget: int,
        names: Names,
        guarded: bool,
        how: How,
    ) -> RawPicks: ...
    def similarities(self, items: list[int], pairs: list[int], how: How) -> bytes: ...
    def thresholds(self, how: How) -> list[float]: ...
    def inspect(self, names: Names, how: How) -> list[tuple[str, str, str]]: ...
    def score(
        self, strategy: str, budget: int, thresholds: bytes | None, how: How
    ) -> bytes: ...

def predicted_peak(
    strategy: str, pool: int, pairs: int, dim: int, budget: int, threads: int
) -> int: ...
def strategies() -> list[tuple[str, bool, bool, bool]]: ...
def finish(
    parts: list[bytes], strategy: str, budget: int, given: Given, names: Names, how: How
) -> RawPicks: ...
def join(parts: list[bytes]) -> bytes: ...
def candidates(part: bytes) -> list[int]: ...
def items_of(part: bytes) -> list[tuple[int, int]]: ...
def recall(
    embeddings: tuple[Lent, Lent] | None,
    similarities: Lent | None,
    image_of: list[int],
    metric: str,
    how: How,
) -> tuple[Direction, Direction]: ...
def write_jsonl(
    path: str | PathLike[str],
    picks: list[
        tuple[
            int,
            str,
            float,
            int | None,
            list[tuple[int, str, float, float, float, float]],
            list[tuple[str, float]],
        ]
    ],
) -> None: ...
def run_command(arguments: list[str]) -> int: ...
def panic_on_purpose(how: How) -> None: ...
