"""Strategies as objects, in scikit-learn's manner: constructors store, `get_params` and `set_params` do
what they do there, and `sklearn.base.clone` copies them.

What they pick and how is on the page "Strategies" of the book. Parameters that several of them have:

- `scope`: "full" takes all pairs as anchors and rivals, "mini" a draw of `sample` pairs: a count (`500`), or a share (`0.3`).
- `anchors`, `rivals`: the pairs that take part, by index, where you want to choose them yourself.
- `random_state`: the seed of every draw; a NumPy generator draws one, `None` takes any.
"""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, TypedDict

from . import _engine
from .errors import SettingError

if TYPE_CHECKING:
    from ._picks import Picks

RandomState: TypeAlias = Any
Scope: TypeAlias = Literal["full", "mini"]
Weight: TypeAlias = Literal["surplus", "count"]
Fill: TypeAlias = Literal["nearest-miss", "index"]


class Parameters(TypedDict, total=False):
    """Parameters of the strategies, for those who call them by name."""

    top_k: int
    weight: Weight
    scope: Scope
    sample: int | float | None
    anchors: Sequence[int] | None
    rivals: Sequence[int] | None
    max_score: float | None
    absolute_margin: float | None
    relative_margin: float | None
    fill: Fill
    dimensions: int
    prior: float | None
    points: int
    bandwidth: float | None
    temperature: float | None


class Strategy:
    """A strategy of the engine. See `nextpair.STRATEGIES` for all of them."""

    name: ClassVar[str]
    """What the command line calls it."""

    random_state: RandomState

    def query(
        self, images: Any = None, texts: Any = None, pool: Any = None, budget: int = 0, **options: Any
    ) -> Picks:
        """Picks `budget` items of the pool. The options are those of `nextpair.select`."""
        from ._select import select

        return select(images, texts, pool, budget, self, **options)

    @classmethod
    def _parameters(cls) -> list[str]:
        return [name for name in inspect.signature(cls).parameters]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name. None of them has parameters of its own, so that `deep` changes nothing."""
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self, **parameters: Any) -> Self:
        """Sets parameters by name."""
        known = self._parameters()
        for name, value in parameters.items():
            if name not in known:
                raise SettingError(f"{name}: {self.name} has no such parameter; it has {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        usual = inspect.signature(type(self)).parameters
        changed = {name: value for name, value in self.get_params().items() if value is not usual[name].default}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def _settings(self, *, seed: int, explain: int, groups: list[list[int]]) -> _engine.Settings:
        """What the engine takes, checked as far as the engine could not say what is wrong."""
        given = self.get_params()
        scope, sample = given.get("scope", "full"), given.get("sample")
        if scope not in ("full", "mini"):
            raise SettingError(f"scope: {scope!r} is none of full, mini")
        if scope == "mini" and sample is None and given.get("anchors") is None:
            raise SettingError('sample: scope="mini" needs how many pairs to draw')
        if scope == "full" and sample is not None:
            raise SettingError('sample: pairs are drawn with scope="mini" only')
        if sample is not None and (given.get("anchors") is not None or given.get("rivals") is not None):
            raise SettingError("sample: pairs are drawn, or given by anchors and rivals, not both")
        declared = ((name, _text(name, kind, words, given.get(name))) for name, kind, words, _ in parameters_of(self.name))
        return {
            "strategy": (self.name, [(name, text) for name, text in declared if text is not None]),
            "anchors": _indices("anchors", given.get("anchors")),
            "rivals": _indices("rivals", given.get("rivals")),
            "seed": seed,
            "explain": whole("explain", explain),
            "groups": groups,
        }


def parameters_of(strategy: str) -> list[tuple[str, str, list[str], str]]:
    """What the engine declares of the parameters of a strategy: name, kind, choices and default."""
    return next(row[4] for row in _engine.strategies() if row[0] == strategy)


def needs_vectors(strategy: str) -> bool:
    """Whether it looks at vectors of the items."""
    return next(row[2] for row in _engine.strategies() if row[0] == strategy)


def _text(name: str, kind: str, choices: list[str], value: Any) -> str | None:
    """A value as the engine reads it, or nothing where it is unset."""
    if value is None:
        return None
    if kind == "whole" or kind == "amount" and hasattr(value, "__index__"):
        return str(whole(name, value))
    if kind == "choice":
        if value not in choices:
            raise SettingError(f"{name}: {value!r} is none of {', '.join(choices)}")
        return str(value)
    try:
        return repr(float(value))
    except (TypeError, ValueError):
        raise SettingError(f"{name}: a number is needed, not {value!r}") from None


def whole(name: str, value: Any) -> int:
    """A whole number that is not negative."""
    if not hasattr(value, "__index__") or isinstance(value, bool) or value.__index__() < 0:
        raise SettingError(f"{name}: a whole number from 0 on is needed, not {value!r}")
    number: int = value.__index__()
    return number


def _indices(name: str, values: Any) -> list[int] | None:
    return None if values is None else [whole(name, value) for value in values]


def seed_of(random_state: RandomState) -> int:
    """The seed that a `random_state` of scikit-learn's kinds stands for."""
    if random_state is None:
        return secrets.randbits(63)
    if hasattr(random_state, "integers"):
        return int(random_state.integers(2**63 - 1))
    if hasattr(random_state, "randint"):
        return int(random_state.randint(2**31 - 1))
    return whole("random_state", random_state)


@dataclass(eq=False, repr=False)
class HardNegative(Strategy):
    """Items that would be the hardest negatives for the paired set (the paper). With heads on frozen encoders such a
    caption was worth 0.23 to 0.83 random ones: see the page "When it pays to choose" of the book."""

    name = "hard-negative"

    top_k: int = 1
    weight: Weight = "surplus"
    scope: Scope = "full"
    sample: int | float | None = None
    anchors: Sequence[int] | None = None
    rivals: Sequence[int] | None = None
    max_score: float | None = None
    absolute_margin: float | None = None
    relative_margin: float | None = None
    fill: Fill = "nearest-miss"
    random_state: RandomState = 0


class Coverage(HardNegative):
    """Items that are hard negatives together: each anchor counts only what is new."""

    name = "coverage"


@dataclass(eq=False, repr=False)
class Hybrid(Strategy):
    """Hard negatives that are far from each other."""

    name = "hybrid"

    top_k: int = 1
    scope: Scope = "full"
    sample: int | float | None = None
    anchors: Sequence[int] | None = None
    rivals: Sequence[int] | None = None
    max_score: float | None = None
    absolute_margin: float | None = None
    relative_margin: float | None = None
    fill: Fill = "nearest-miss"
    random_state: RandomState = 0


@dataclass(eq=False, repr=False)
class VOptimal(Strategy):
    """Items whose pairs make predictions for all items least uncertain (V-optimal design)."""

    name = "v-optimal"

    dimensions: int = 512
    prior: float | None = None
    random_state: RandomState = 0


@dataclass(eq=False, repr=False)
class _Drawing(Strategy):
    random_state: RandomState = 0


class Random(_Drawing):
    """Any items."""

    name = "random"


class CoreSet(_Drawing):
    """Items far from everything paired and from each other (k-center greedy)."""

    name = "core-set"


class Stratified(_Drawing):
    """One item at random of each cluster."""

    name = "stratified"


class Typical(_Drawing):
    """The item in the densest place of each cluster without a pair (TypiClust)."""

    name = "typical"


@dataclass(eq=False, repr=False)
class Herding(Strategy):
    """Items that represent many others that no paired item represents."""

    name = "herding"

    points: int = 2000
    bandwidth: float | None = None
    random_state: RandomState = 0


@dataclass(eq=False, repr=False)
class Novelty(Strategy):
    """The same, where items count more that the model cannot place."""

    name = "novelty"

    points: int = 2000
    bandwidth: float | None = None
    temperature: float | None = None
    scope: Scope = "full"
    sample: int | float | None = None
    anchors: Sequence[int] | None = None
    random_state: RandomState = 0


@dataclass(eq=False, repr=False)
class Entropy(Strategy):
    """Items that the model finds similar to many anchors alike."""

    name = "entropy"

    temperature: float | None = None
    scope: Scope = "full"
    sample: int | float | None = None
    anchors: Sequence[int] | None = None
    random_state: RandomState = 0


@dataclass(eq=False, repr=False)
class _Comparing(Strategy):
    scope: Scope = "full"
    sample: int | float | None = None
    anchors: Sequence[int] | None = None
    random_state: RandomState = 0


class Margin(_Comparing):
    """Items whose two most similar anchors are nearly as similar."""

    name = "margin"


class LeastSimilar(_Comparing):
    """Items unlike every anchor."""

    name = "least-similar"


class CoreSetMargin(_Comparing):
    """The smallest margins among items far from each other."""

    name = "core-set-margin"


STRATEGIES: dict[str, type[Strategy]] = {
    kind.name: kind
    for kind in (
        HardNegative,
        Random,
        CoreSet,
        Coverage,
        Hybrid,
        Herding,
        Novelty,
        Entropy,
        Margin,
        LeastSimilar,
        Stratified,
        Typical,
        CoreSetMargin,
        VOptimal,
    )
}
"""Every strategy of the engine by name."""

DEFAULT: str = _engine.default_strategy()
"""The strategy of `select` where none is named."""
