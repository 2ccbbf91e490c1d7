"""Experiments and rehearsals: what a strategy buys, measured before money is spent."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias

from . import _engine
from ._dataset import Dataset
from ._progress import Listener, listening
from ._select import thread_count
from ._strategies import whole
from .errors import FileError, InputError, SettingError

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas
    import pyarrow

Place: TypeAlias = str | PathLike[str]
Measure: TypeAlias = Literal["r1", "r5", "r10", "log_rank"]

_DEPTHS = {"r1": 1, "r5": 5, "r10": 10}


class Waiting(NamedTuple):
    """An experiment whose annotators are people, and waits for them. See `nextpair.annotate`."""

    round: int
    picked: int
    answered: int
    queue: Path


class Experiment:
    """Rounds of training, selecting and pairing, for several strategies and seeds.

    Settings have the names of the files that `nextpair run` takes: `dataset`, `strategies`, `rounds`,
    `seeds`, ..., and the tables `model` and `training`.
    """

    settings: dict[str, Any]
    """The settings as given."""

    def __init__(self, **settings: Any) -> None:
        self.settings = _plain(settings)
        self._source: tuple[str, Path] | None = None
        self._name: str | None = None

    @classmethod
    def from_toml(cls, path: Place, **changes: Any) -> Self:
        """The experiment of a file, with some settings changed; in the tables `model` and `training`, one by one."""
        place = Path(path)
        try:
            text = place.read_text(encoding="utf-8")
            settings = tomllib.loads(text)
        except OSError as error:
            raise FileError(f"{place}: {error.strerror}") from error
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise FileError(f"{place}: {error}") from error
        for table in ("model", "training"):
            if isinstance(changes.get(table), dict):
                changes[table] = {**settings.get(table, {}), **changes[table]}
        experiment = cls(**{**settings, **changes})
        experiment._name = place.stem
        if not changes:
            # As it stands, so that errors know the line.
            experiment._source = (text, place)
        return experiment

    def run(
        self,
        out: Place | None = None,
        *,
        resume: bool = False,
        jobs: int | None = None,
        device: str = "auto",
        progress: bool | Listener | None = None,
        threads: int | None = None,
    ) -> Results:
        """Runs all rounds in the folder `out` (runs/NAME of NAME.toml by default) and returns what was found.

        With `resume`, an experiment that was stopped goes on, to the same results; strategies, seeds and
        rounds may have been added. Ctrl-C stops it and keeps what is done. Where people annotate, it
        returns when they are waited for (`Results.waiting`).
        """
        if out is None and self._name is None:
            raise SettingError("out: the folder of the experiment")
        folder = Path(out if out is not None else Path("runs") / (self._name or ""))
        with listening(progress) as listener:
            how: _engine.How = (thread_count(threads), listener)
            number = None if jobs is None else _at_least_one("jobs", jobs)
            waiting = _engine.run_experiment(self._toml(), (folder, number, device), resume, how)
        results = load(folder)
        results.waiting = None if waiting is None else Waiting(*waiting)
        return results

    def _toml(self) -> tuple[str, Path]:
        return self._source or (_engine.to_toml(json.dumps(self.settings)), Path("the experiment"))

    def __repr__(self) -> str:
        return f"Experiment({', '.join(f'{name}={value!r}' for name, value in self.settings.items())})"


class Results:
    """What experiments found so far."""

    folders: list[Path]
    """Their folders."""
    rounds: list[dict[str, Any]]
    """Every finished round, as `rounds.jsonl` has it."""
    evidence: dict[str, Any]
    """The analysis, as `results.json` of a report has it."""
    waiting: Waiting | None
    """The people that an experiment waits for, after `Experiment.run`."""

    def __init__(self, folders: Sequence[Path], price: float | None) -> None:
        rounds, runs, self._text = _engine.read_experiments(list(folders), price)
        self.folders = list(folders)
        self.rounds = json.loads(rounds)
        self.evidence = json.loads(runs)[0]
        self.waiting = None

    def to_dicts(self) -> list[dict[str, Any]]:
        """A row per seed, strategy and round: what was paired, and the recalls on the test."""
        return [_row(one) for one in self.rounds]

    def to_pandas(self) -> pandas.DataFrame:
        """The same as a frame. It needs pandas."""
        import pandas

        return pandas.DataFrame(self.to_dicts())

    def to_arrow(self) -> pyarrow.Table:
        """The same as a table. It needs pyarrow."""
        import pyarrow

        return pyarrow.Table.from_pylist(self.to_dicts())

    @property
    def advice(self) -> str:
        """What to buy next, and why, as the first screen of the report says. Empty while no round is finished."""
        found = self.evidence["recommendation"]
        return found["advice"] if found else ""

    def report(self, out: Place, *, progress: bool | Listener | None = None, threads: int | None = None) -> Path:
        """Writes the report of `nextpair report` into a folder and returns its page."""
        with listening(progress) as listener:
            return _engine.write_report(self.folders, Path(out), (thread_count(threads), listener))

    def figure(self, measure: Measure = "r1") -> matplotlib.figure.Figure:
        """Curves of all strategies: recall in both directions, or the mean log rank of both, over
        what was paid for, with intervals over seeds. It needs matplotlib."""
        if measure not in (*_DEPTHS, "log_rank"):
            raise SettingError(f"measure: {measure!r} is none of {', '.join(_DEPTHS)}, log_rank")
        from matplotlib.figure import Figure

        figure = Figure(layout="constrained")
        axes = figure.subplots()
        for arm in self.evidence["arms"]:
            curve = _curve(arm, measure)
            paid = arm["bought"][: len(curve)]
            axes.plot(paid, [one["mean"] for one in curve], marker="o", label=arm["strategy"])
            if all(one["low"] is not None for one in curve):
                axes.fill_between(paid, [one["low"] for one in curve], [one["high"] for one in curve], alpha=0.15)
        axes.set_xlabel("items paid for")
        depth = _DEPTHS.get(measure)
        axes.set_ylabel("mean log rank, text and image" if depth is None else f"R@{depth}, text + image (%)")
        made_up = ", synthetic" if self.evidence["synthetic"] else ""
        axes.set_title(f"{self.evidence['dataset']}{made_up}: {self.evidence['model']}")
        if self.evidence["arms"]:
            axes.legend()
        return figure

    def __repr__(self) -> str:
        return self._text.rstrip("\n")


def _curve(arm: dict[str, Any], measure: Measure) -> list[dict[str, Any]]:
    """The recall of both directions, added, or the mean of their log ranks, by round."""
    if measure == "log_rank":
        both = [one["both"] for one in arm["log_rank"]]
        return [{end: None if one[end] is None else one[end] / 2 for end in ("mean", "low", "high")} for one in both]
    rounds: list[dict[str, Any]] = next((recall["rounds"] for recall in arm["recall"] if recall["k"] == _DEPTHS[measure]), [])
    return [one["both"] for one in rounds]


def _row(one: dict[str, Any]) -> dict[str, Any]:
    row = {name: one.get(name) for name in ("seed", "strategy", "round", "paired", "bought", "pairs", "pool")}
    row["bought"] = one["paired"] if row["bought"] is None else row["bought"]
    test = one["test"][0]
    for side in ("text", "image"):
        row.update({f"{side}_{name}": value for name, value in test[side].items() if not isinstance(value, (list, dict))})
    row["rsum"] = test["rsum"]
    row["seconds"] = sum(phase["seconds"] for phase in one["phases"])
    return row


def load(folder: Place, *others: Place, price: float | None = None) -> Results:
    """The results of an experiment, finished or not; of several with the same settings, pooled."""
    return Results([Path(one) for one in (folder, *others)], price)


class Rehearsal:
    """What a rehearsal advises."""

    strategy: str
    """The strategy to use: one that is better for certain, else one that is expected to be, else random."""
    sentence: str
    """What was found, in a sentence."""
    advice: dict[str, Any]
    """Every number, as `rehearsal.json` has it."""
    page: Path
    """The page about it."""

    def __init__(self, raw: tuple[str, str, str, str], page: Path) -> None:
        advice, self.strategy, self.sentence, self._text = raw
        self.advice = json.loads(advice)
        self.page = page

    def to_dicts(self) -> list[dict[str, Any]]:
        """A row per strategy, for the start that decides: what one of its captions is worth in random ones."""
        return [
            {
                "strategy": one["strategy"],
                **{f"worth_{name}": (one["worth"] or {}).get(name) for name in ("captions", "low", "high")},
                **{f"log_rank_{name}": one["log_rank"][name] for name in ("mean", "low", "high")},
                "r1": one["r1"]["mean"],
                "seeds_needed": one["seeds_needed"],
                "null_control": one["null_control"],
            }
            for one in self.advice["scales"][-1]["strategies"]
        ]

    def to_pandas(self) -> pandas.DataFrame:
        """The same as a frame. It needs pandas."""
        import pandas

        return pandas.DataFrame(self.to_dicts())

    def figure(self) -> matplotlib.figure.Figure:
        """What a caption of each strategy is worth, with intervals. It needs matplotlib."""
        from matplotlib.figure import Figure

        figure = Figure(layout="constrained")
        axes = figure.subplots()
        rows = [row for row in self.to_dicts() if row["worth_captions"] is not None]
        for place, row in enumerate(rows):
            low, high = row["worth_low"], row["worth_high"]
            if low is not None and high is not None:
                axes.plot([low, high], [place, place], color="C0")
            axes.plot([row["worth_captions"]], [place], "o", color="C0")
        axes.axvline(1.0, color="grey", linestyle=":")
        axes.set_yticks(range(len(rows)), [row["strategy"] for row in rows])
        axes.set_xlabel("random captions that one of its captions replaces")
        axes.set_title(self.advice["dataset"])
        return figure

    def __repr__(self) -> str:
        return self._text.rstrip("\n")


def rehearse(
    dataset: Dataset | Place,
    budget: int,
    model: str | dict[str, Any] = "vse++",
    *,
    strategies: Sequence[str] | None = None,
    seeds: int = 16,
    price: float | None = None,
    pool_side: Literal["image", "text"] = "image",
    paired: Sequence[str] | None = None,
    dev: float | None = None,
    training: dict[str, Any] | None = None,
    features: str | None = None,
    text_features: str | None = None,
    out: Place = "rehearsal",
    jobs: int | None = None,
    device: str = "auto",
    progress: bool | Listener | None = None,
    threads: int | None = None,
) -> Rehearsal:
    """Buys on paper what is paired already, to find out which strategy pays before money is spent.

    `model` is the name of a published one, or its table of settings, with `architecture`; `training` are
    settings of its training. The rehearsal is kept in the folder `out`; one that was stopped goes on.
    `paired` are the ids of the only items that count as paired. `dev` is the share of them to test on, if the
    dataset has no split dev. Everything else as `nextpair rehearse` does,
    which also says what is compared unless `strategies` are named.
    """
    if pool_side not in ("image", "text"):
        raise SettingError(f"pool_side: {pool_side!r} is neither image nor text")
    settings = {
        "dataset": dataset.folder if isinstance(dataset, Dataset) else dataset,
        "pool": pool_side,
        "strategies": None if strategies is None else list(strategies),
        "price": price,
        "features": features,
        "text_features": text_features,
        "only": None if paired is None else list(paired),
        "model": {"architecture": model} if isinstance(model, str) else model,
        "training": training,
    }
    given = Experiment(**{name: value for name, value in settings.items() if value is not None})._toml()
    folder = Path(out)
    with listening(progress) as listener:
        how: _engine.How = (thread_count(threads), listener)
        number = None if jobs is None else _at_least_one("jobs", jobs)
        numbers = (whole("budget", budget), whole("seeds", seeds))
        raw = _engine.rehearse(given, *numbers, dev, (folder, number, device), how)
    return Rehearsal(raw, folder / "rehearsal.html")


def _at_least_one(name: str, value: int) -> int:
    number = whole(name, value)
    if number == 0:
        raise SettingError(f"{name}: at least 1 is needed")
    return number


def _plain(settings: Any) -> Any:
    """Settings as JSON has them."""
    if isinstance(settings, dict):
        return {str(name): _plain(value) for name, value in settings.items() if value is not None}
    if isinstance(settings, (list, tuple)):
        return [_plain(value) for value in settings]
    if isinstance(settings, Dataset):
        return str(settings.folder)
    if isinstance(settings, PathLike):
        return str(settings)
    if hasattr(settings, "item") and not isinstance(settings, (str, bytes)):
        return settings.item()  # a number of NumPy
    if not isinstance(settings, (str, int, float, bool)):
        raise InputError(f"settings: {settings!r} is no setting")
    return settings
