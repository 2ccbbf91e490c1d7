"""The engine, as the modules beside this file call it. Nothing here is for others."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

from ._arrays import ArrayView

# Threads, and who hears how far the work is.
How: TypeAlias = tuple[int | None, Callable[[str, int, int], object] | None]
# Names of pool items and of pairs.
Names: TypeAlias = tuple[
    Sequence[Any] | Mapping[int, Any] | None, Sequence[Any] | Mapping[int, Any] | None
]
Reason: TypeAlias = tuple[int, float, float, float, float]
Direction: TypeAlias = tuple[float, float, float, float, float, float, float, list[int]]

class Settings(TypedDict):
    strategy: tuple[str, list[tuple[str, str]]]
    anchors: list[int] | None
    rivals: list[int] | None
    seed: int
    explain: int
    groups: list[list[int]]

class Given(TypedDict):
    pool_side: str
    metric: str
    images: ArrayView | None
    texts: ArrayView | None
    pool: ArrayView | None
    similarities: tuple[ArrayView, ArrayView] | None
    features: tuple[ArrayView, ArrayView] | None
    queries: ArrayView | None
    dedupe: str | None
    part: tuple[int, int] | None
    device: str
    settings: Settings

class RawPicks(TypedDict):
    picks: list[
        tuple[
            int,
            float,
            int | None,
            list[Reason],
            list[tuple[str, float]],
            list[tuple[bool, int, float]],
        ]
    ]
    pool: int
    hard_negatives: int | None
    duplicates: int | None
    thresholds: list[float]
    effect: tuple[str, float, float, float] | None
    warnings: list[tuple[str, str, str]]

class Problem:
    def __new__(cls, given: Given, how: How) -> Problem: ...
    @property
    def pool(self) -> int: ...
    @property
    def pairs(self) -> int: ...
    @property
    def kept(self) -> list[int] | None: ...
    def select(self, budget: int, names: Names, guarded: bool, how: How) -> RawPicks: ...
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
    def score(self, budget: int, thresholds: bytes | None, how: How) -> bytes: ...

def predicted_peak(
    strategy: str, pool: int, pairs: int, dim: int, budget: int, threads: int
) -> int: ...
def default_strategy() -> str: ...
# Name, whether it needs similarities, vectors, and looks at queries; and of its parameters name, kind, choices, default.
def strategies() -> list[tuple[str, bool, bool, bool, list[tuple[str, str, list[str], str]]]]: ...
def finish(
    parts: list[bytes], budget: int, given: Given, names: Names, how: How
) -> RawPicks: ...
def join(parts: list[bytes]) -> bytes: ...
def candidates(part: bytes) -> list[int]: ...
def items_of(part: bytes) -> list[tuple[int, int]]: ...
def recall(
    embeddings: tuple[ArrayView, ArrayView] | None,
    similarities: ArrayView | None,
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
            list[tuple[bool, int, str, float]],
        ]
    ],
) -> None: ...
class GivenSource(TypedDict):
    kind: str
    source: Path
    out: Path
    skip_bad: bool
    images_optional: bool
    image_dir: Path | None
    image: str | None
    caption: str | None
    id: str | None
    split_column: str | None
    split: str
    side: str
    other: Path | None
    ids: Path | None
    captions: Path | None
    max_captions: int
    dev: float
    test: float

class GivenEncoder(TypedDict):
    side: str
    model: Path
    name: str
    dtype: str
    components: int | None
    replace: bool
    output: str | None
    preprocess: str | None
    regions: int | None
    tokenizer: Path | None
    cls: bool
    l2: bool

class Dataset:
    def __new__(cls, folder: Path) -> Dataset: ...
    @property
    def folder(self) -> Path: ...
    @property
    def name(self) -> str: ...
    @property
    def synthetic(self) -> bool: ...
    @property
    def len(self) -> int: ...
    @property
    def captions(self) -> int: ...
    @property
    def feature_sets(self) -> list[tuple[str, str]]: ...
    def items(
        self, first: int, last: int
    ) -> list[tuple[str, str | None, str | None, Path | None, list[str]]]: ...
    def features(
        self, side: str, name: str | None
    ) -> tuple[bytes, int, int, int, str, list[int | None]]: ...
    def add_features(
        self, about: tuple[str, str, str], array: ArrayView, rows: list[int] | None, replace: bool, how: How
    ) -> None: ...
    def embed(self, encoder: GivenEncoder, how: How) -> tuple[int, int, int]: ...
    def enlarge(
        self, answers: list[Path], pool_side: str, images: list[Path], place: tuple[Path, float, float], how: How
    ) -> tuple[int, int, int, int, list[tuple[str, int]], int]: ...

def import_dataset(given: GivenSource, how: How) -> list[str]: ...
def import_scenes(out: Path, images: int, seed: int, how: How) -> None: ...
def to_toml(json: str) -> str: ...
def run_experiment(
    given: tuple[str, Path],
    place: tuple[Path, int | None, str],
    resume: bool,
    how: How,
) -> tuple[int, int, int, Path] | None: ...
def read_experiments(folders: list[Path], price: float | None) -> tuple[str, str, str]: ...
def write_report(folders: list[Path], out: Path, how: How) -> Path: ...
def rehearse(
    given: tuple[str, Path],
    budget: int,
    seeds: int,
    dev: float | None,
    place: tuple[Path, int | None, str],
    how: How,
) -> tuple[str, str, str, str]: ...

class GivenApp(TypedDict):
    target: Path
    dataset: Path | None
    pool_side: str
    address: str
    public_url: str | None
    database: str | None
    sign_in: bool
    invite: list[str]
    reviewers: list[str]
    review: float | None
    captions: int
    annotators: int
    language: str | None
    guidelines: str | None
    price: float | None
    grace: float | None
    images: Path | None

class App:
    def __new__(cls, given: GivenApp, how: How) -> App: ...
    @property
    def address(self) -> str: ...
    @property
    def invitations(self) -> list[tuple[str, str]]: ...
    @property
    def answers(self) -> Path: ...
    @property
    def is_running(self) -> bool: ...
    def answered(self) -> tuple[int, int]: ...
    def stop(self) -> None: ...

def run_command(arguments: list[str]) -> int: ...
def panic_on_purpose(how: How) -> None: ...
