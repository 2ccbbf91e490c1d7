"""Which unpaired item should we pay to pair next?

You have some pairs of images and texts, many images (or texts) without the other half, and a budget for
people who pair. `select` picks the items that would teach a retrieval model most, exactly and at any
size, and says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._annotate import Annotation, annotate
from ._dataset import Dataset
from ._experiment import Experiment, Rehearsal, Results, load, rehearse
from ._parts import Partial, merge, score
from ._picks import Effect, Finding, Near, Pick, Picks, Reason
from ._plan import Plan, Rates, measure, plan
from ._problem import Problem
from ._recall import Direction, Recall, recall
from ._select import CustomStrategy, select, thresholds
from ._strategies import (
    STRATEGIES,
    CoreSet,
    CoreSetMargin,
    Coverage,
    Entropy,
    HardNegative,
    Herding,
    Hybrid,
    LeastSimilar,
    Margin,
    Novelty,
    Random,
    Strategy,
    Stratified,
    Typical,
    VOptimal,
)
from .errors import (
    ArrayTypeError,
    FileError,
    GuardError,
    InputError,
    InternalError,
    NextpairError,
    PartsError,
    SelectionWarning,
    SettingError,
    StrategyError,
)

if TYPE_CHECKING:
    from .skactiveml import PoolStrategy

__all__ = [
    "STRATEGIES",
    "Annotation",
    "ArrayTypeError",
    "CoreSet",
    "CoreSetMargin",
    "Coverage",
    "CustomStrategy",
    "Dataset",
    "Direction",
    "Effect",
    "Entropy",
    "Experiment",
    "FileError",
    "Finding",
    "GuardError",
    "HardNegative",
    "Herding",
    "Hybrid",
    "InputError",
    "InternalError",
    "LeastSimilar",
    "Margin",
    "Near",
    "NextpairError",
    "Novelty",
    "Partial",
    "PartsError",
    "Pick",
    "Picks",
    "Plan",
    "Problem",
    "Random",
    "Rates",
    "Reason",
    "Recall",
    "Rehearsal",
    "Results",
    "SelectionWarning",
    "SettingError",
    "Strategy",
    "StrategyError",
    "Stratified",
    "Typical",
    "VOptimal",
    "annotate",
    "as_skactiveml",
    "load",
    "measure",
    "merge",
    "plan",
    "recall",
    "rehearse",
    "score",
    "select",
    "thresholds",
]


def as_skactiveml(strategy: Strategy, texts: Any = None, **options: Any) -> PoolStrategy:
    """The strategy with the signature of scikit-activeml's pool strategies, which must be installed.

    In `query(X, y, ...)`, `X` are embeddings of all samples on the side of the pool, and `y[i]` is the row
    of `texts` that sample i is paired with, or the missing label. Strategies that compare no images with
    texts (`Random`, `CoreSet`, ...) need no `texts`, and take any label. Options are `pool_side`,
    `metric`, `missing_label` and `random_state`; without the last, the strategy's own counts.
    """
    from .skactiveml import as_skactiveml

    return as_skactiveml(strategy, texts, **options)
