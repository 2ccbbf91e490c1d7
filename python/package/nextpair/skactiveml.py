"""Strategies for scikit-activeml's pool loops. See `nextpair.as_skactiveml`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from skactiveml.base import SingleAnnotatorPoolQueryStrategy
from skactiveml.utils import MISSING_LABEL, is_labeled

from ._select import select
from ._strategies import Strategy, seed_of
from .errors import InputError, SettingError


class PoolStrategy(SingleAnnotatorPoolQueryStrategy):  # type: ignore[misc, unused-ignore]
    """A strategy of nextpair with the signature of scikit-activeml's."""

    def __init__(
        self,
        strategy: Strategy,
        texts: Any = None,
        pool_side: str = "image",
        metric: str = "cosine",
        missing_label: Any = MISSING_LABEL,
        random_state: Any = None,
    ) -> None:
        super().__init__(missing_label=missing_label, random_state=random_state)
        self.strategy = strategy
        self.texts = texts
        self.pool_side = pool_side
        self.metric = metric

    def query(
        self,
        X: Any,
        y: Any,
        candidates: Any = None,
        batch_size: int = 1,
        return_utilities: bool = False,
    ) -> Any:
        """The samples to label next.

        `X` are embeddings of all samples on the side of the pool, `y` says which of them are paired: the
        row of `texts` that a sample is paired with, or the missing label. Without `texts`, any label
        will do. `candidates` are the samples to choose from, all that are missing by default, or
        embeddings of others.

        With `return_utilities`, row b has the scores that the picks from b on had when they were picked,
        and NaN for all others: a strategy that looks at a batch as a whole has no other.
        """
        X, y, candidates, batch_size, return_utilities = self._validate_data(
            X, y, candidates, batch_size, return_utilities, reset=True
        )
        X_candidates, mapping = self._transform_candidates(candidates, X, y)
        labelled = is_labeled(y, missing_label=self.missing_label)
        places = np.arange(len(X_candidates)) if mapping is None else np.asarray(mapping)
        pool = X_candidates if mapping is None else X[mapping]
        own, other = X[labelled], self._other(y[labelled])
        images, texts = (own, other) if self.pool_side == "image" else (other, own)
        seed = None if self.random_state is None else seed_of(self.random_state_)
        options: Any = {"pool_side": self.pool_side, "metric": self.metric, "seed": seed}
        picks = select(images, texts, pool, int(batch_size), self.strategy, guard="off", explain=0, **options)
        chosen = places[picks.indices]
        if not return_utilities:
            return chosen
        utilities = np.full((len(chosen), len(X_candidates) if mapping is None else len(X)), np.nan)
        for at in range(len(chosen)):
            utilities[at, chosen[at:]] = picks.scores[at:]
        return chosen, utilities

    def _other(self, labels: npt.NDArray[Any]) -> Any:
        """The paired halves on the other side."""
        if self.texts is None:
            return None
        rows = np.asarray(labels, dtype=np.float64)
        texts = np.asarray(self.texts)
        if not np.array_equal(rows, np.floor(rows)) or rows.min(initial=0) < 0 or rows.max(initial=0) >= len(texts):
            raise InputError(f"y: a label is the row of texts that a sample is paired with, of {len(texts)}")
        return texts[rows.astype(np.int64)]


def as_skactiveml(strategy: Strategy, texts: Any = None, **options: Any) -> PoolStrategy:
    """See `nextpair.as_skactiveml`."""
    if not isinstance(strategy, Strategy):
        raise SettingError(f"strategy: an object such as HardNegative() is needed, not {strategy!r}")
    return PoolStrategy(strategy, texts, **options)
