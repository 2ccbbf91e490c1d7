"""The answer: the items to pair next, and why."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from . import _engine

if TYPE_CHECKING:
    import pandas
    import pyarrow


Names: TypeAlias = Sequence[Any] | Mapping[int, Any]
"""Names of items: of all, or of those that may be asked for."""


@dataclasses.dataclass(frozen=True, slots=True)
class Reason:
    """One hit of a pick: the anchor that it would be confused with."""

    anchor: int
    """The pair whose anchor it is."""
    anchor_id: Any
    """Its id, or its index as text."""
    similarity: float
    """The pick's similarity to the anchor."""
    threshold: float
    """How similar the hardest known rivals are."""
    surplus: float
    """How far the similarity exceeds that."""
    own: float
    """The similarity of the anchor's own pair; a pick that comes near it may be described by the anchor."""


@dataclasses.dataclass(frozen=True, slots=True)
class Near:
    """An item near a pick."""

    paired: bool
    """Whether it is the paired item most like the pick, or one of the pool that learns from the pick's pair."""
    index: int
    """Its pair, or its row in the pool."""
    id: Any
    """The id of the pair or the item, or `index` as text."""
    value: float
    """Of a paired item its cosine with the pick; of one of the pool the share of its uncertainty that goes away."""

    def _fields(self) -> dict[str, Any]:
        if self.paired:
            return {"pair": self.index, "pair_id": self.id, "cosine": self.value}
        return {"index": self.index, "id": self.id, "share": self.value}


@dataclasses.dataclass(frozen=True, slots=True)
class Effect:
    """What picks change together: less is better."""

    measure: str
    """What is measured, such as `uncertainty`."""
    before: float
    """Its value before."""
    after: float
    """Its value once the picks are paired."""
    random: float
    """Its value if as many random items were paired instead."""

    def __str__(self) -> str:
        return (
            f"{self.measure} {self.before:.3g} before, {self.after:.3g} after; "
            f"a random batch of the same size leaves {self.random:.3g}"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Pick:
    """One picked item."""

    rank: int
    """Its place among the picks, from 1."""
    index: int
    """Its row in the pool, from 0."""
    id: Any
    """Its id, or its index as text."""
    score: float
    """What the strategy gave it."""
    hits: int | None
    """How many anchors it is a hit of, for strategies that look at hits."""
    why: tuple[Reason, ...]
    """Its strongest hits."""
    facts: dict[str, float]
    """More numbers about it, for strategies that have any."""
    near: tuple[Near, ...] = ()
    """The paired item most like it and the pool items that learn most from it, for strategies that look for them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """Something that looks wrong about the data or the picks, and what helps."""

    kind: str
    text: str
    fix: str

    def __str__(self) -> str:
        return f"{self.text}; {self.fix}"


class Picks(Sequence[Pick]):
    """A table of picks, most wanted first. It can be pickled, and holds nothing of the arrays."""

    strategy: str
    """Who picked."""
    pool: int
    """Items that there were to pick from, duplicates included."""
    hard_negatives: int | None
    """How many of them have a hit, for strategies that look at hits."""
    duplicates: int | None
    """How many of them were left out as duplicates, if that was asked for."""
    thresholds: npt.NDArray[np.float64]
    """The thresholds of the anchors; empty for strategies without hits."""
    effect: Effect | None
    """What the picks change together, for strategies that measure it."""
    warnings: list[Finding]
    """What looks wrong, before anybody is paid."""

    def __init__(
        self,
        raw: _engine.RawPicks,
        strategy: str,
        ids: Names | None = None,
        pair_ids: Names | None = None,
        pictures: Names | None = None,
    ) -> None:
        def reason(raw: _engine.Reason) -> Reason:
            return Reason(raw[0], _name(pair_ids, raw[0]), *raw[1:])

        def neighbour(paired: bool, index: int, value: float) -> Near:
            return Near(paired, index, _name(pair_ids if paired else ids, index), value)

        self._picks = [
            Pick(
                rank,
                index,
                _name(ids, index),
                score,
                hits,
                tuple(map(reason, why)),
                dict(facts),
                tuple(neighbour(*one) for one in near),
            )
            for rank, (index, score, hits, why, facts, near) in enumerate(raw["picks"], 1)
        ]
        self.strategy = strategy
        self.pool = raw["pool"]
        self.hard_negatives = raw["hard_negatives"]
        self.duplicates = raw["duplicates"]
        self.thresholds = np.array(raw["thresholds"], dtype=np.float64)
        self.effect = None if raw["effect"] is None else Effect(*raw["effect"])
        self.warnings = [Finding(*said) for said in raw["warnings"]]
        self._pictures = None if pictures is None else [pictures[pick.index] for pick in self._picks]
        learners = {near.index for pick in self._picks for near in pick.near if not near.paired}
        self._of_learners = {} if pictures is None else {index: pictures[index] for index in learners}

    def __len__(self) -> int:
        return len(self._picks)

    def __iter__(self) -> Iterator[Pick]:
        return iter(self._picks)

    @overload
    def __getitem__(self, place: int) -> Pick: ...
    @overload
    def __getitem__(self, place: slice) -> list[Pick]: ...
    def __getitem__(self, place: int | slice) -> Pick | list[Pick]:
        return self._picks[place]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Picks):
            return NotImplemented
        return self.pool == other.pool and self._picks == other._picks

    __hash__ = None  # type: ignore[assignment]

    @property
    def indices(self) -> npt.NDArray[np.int64]:
        """The rows of the picks in the pool."""
        return np.array([pick.index for pick in self._picks], dtype=np.int64)

    @property
    def ids(self) -> list[Any]:
        """The ids of the picks."""
        return [pick.id for pick in self._picks]

    @property
    def scores(self) -> npt.NDArray[np.float64]:
        """What the strategy gave them."""
        return np.array([pick.score for pick in self._picks], dtype=np.float64)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The picks as plain values, with the fields of the files that `nextpair select` writes."""
        rows = [dataclasses.asdict(pick) for pick in self._picks]
        for row in rows:
            row["why"] = list(row["why"])
            row["near"] = [near._fields() for near in self._picks[row["rank"] - 1].near]
            for name in ("facts", "near"):
                if not row[name]:
                    del row[name]
        return rows

    def to_pandas(self) -> pandas.DataFrame:
        """A frame with a row per pick; `why` holds lists of dictionaries. It needs pandas."""
        import pandas

        columns = ["rank", "index", "id", "score", "hits", "why"]
        rows = self.to_dicts()
        columns.extend(name for name in ("facts", "near") if any(name in row for row in rows))
        frame = pandas.DataFrame(rows, columns=columns)
        return frame.astype({"hits": "Int64"})

    def to_arrow(self) -> pyarrow.Table:
        """A table with the columns of the Parquet files that `nextpair select` writes. It needs pyarrow."""
        import pyarrow

        number, text, score = pyarrow.int64(), pyarrow.string(), pyarrow.float64()
        names = ("similarity", "threshold", "surplus", "own")
        reason = pyarrow.struct([("anchor", number), ("anchor_id", text), *((name, score) for name in names)])
        fields = [("rank", number), ("index", number), ("id", text), ("score", score), ("hits", number)]
        schema = pyarrow.schema([*fields, ("why", pyarrow.list_(reason))])
        rows = self.to_dicts()
        facts = sorted({name for row in rows for name in row.get("facts", {})})
        for name in facts:
            schema = schema.append(pyarrow.field(name, score))
        for row in rows:
            row["id"] = str(row["id"])
            for why in row["why"]:
                why["anchor_id"] = str(why["anchor_id"])
            row.update(row.pop("facts", {}))
        if any("near" in row for row in rows):
            schema = schema.append(pyarrow.field("near", text))
            for row in rows:
                named = [{**near, "id": str(near["id"])} if "id" in near else near for near in row.get("near", [])]
                row["near"] = json.dumps(named, default=str)
        return pyarrow.Table.from_pylist(rows, schema=schema)

    def to_jsonl(self, path: str | PathLike[str]) -> None:
        """Writes the picks as `nextpair select --out picks.jsonl` does, whole or not at all."""
        _engine.write_jsonl(
            path,
            [
                (
                    pick.index,
                    str(pick.id),
                    pick.score,
                    pick.hits,
                    [(w.anchor, str(w.anchor_id), w.similarity, w.threshold, w.surplus, w.own) for w in pick.why],
                    list(pick.facts.items()),
                    [(near.paired, near.index, str(near.id), near.value) for near in pick.near],
                )
                for pick in self._picks
            ],
        )

    def __repr__(self) -> str:
        lines = [f"{len(self)} of {self.pool} items by {self.strategy}"]
        for pick in self._picks[:5]:
            hits = "" if pick.hits is None else f", {pick.hits} hits"
            why = f", like the other half of pair {pick.why[0].anchor_id}" if pick.why else ""
            lines.append(f"  {pick.rank}. {pick.id}: {pick.score:.4g}{hits}{why}")
        if self.effect is not None:
            lines.insert(1, f"  {self.effect}")
        if len(self) > 5:
            lines.append(f"  and {len(self) - 5} more")
        lines.extend(f"  warning: {finding}" for finding in self.warnings)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from ._html import table

        return table(self, self._pictures, self._of_learners)


def _name(ids: Names | None, index: int) -> Any:
    return str(index) if ids is None else ids[index]
