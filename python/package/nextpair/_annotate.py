"""The annotation app, beside a notebook."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from html import escape
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from . import _engine
from ._dataset import Dataset
from ._experiment import Results
from ._picks import Picks
from ._strategies import whole
from .errors import FileError, SettingError

Place: TypeAlias = str | PathLike[str]

# Seconds between looks at the answers.
_PAUSE = 0.2


class Invitation(NamedTuple):
    """A link that signs a person in."""

    name: str
    link: str


class Annotation:
    """The app while it runs. Its links are `invitations`, the first is yours; a notebook shows them."""

    def __init__(self, app: _engine.App) -> None:
        self._app = app
        self.invitations = [Invitation(*one) for one in app.invitations]

    @property
    def url(self) -> str:
        """Where you begin: your link, or the address if nobody signs in."""
        return self.invitations[0].link if self.invitations else f"http://{self._app.address}/"

    @property
    def running(self) -> bool:
        """Whether people can reach it."""
        return self._app.is_running

    @property
    def answered(self) -> tuple[int, int]:
        """Answers that were handed over, and items asked about. They are handed over when a round closes."""
        return self._app.answered()

    @property
    def answers_file(self) -> Path:
        """Where answers go, for `Dataset.enlarge` and `nextpair add`."""
        return self._app.answers

    @property
    def answers(self) -> list[dict[str, Any]]:
        """The answers that were handed over so far."""
        try:
            lines = self.answers_file.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines if line]

    def wait(self, timeout: float | None = None) -> list[dict[str, Any]]:
        """Waits until every item has an answer or the lead closed the round, and returns all answers. The app goes on.

        After `timeout` seconds, or Ctrl-C, it only stops waiting.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            answered, asked = self.answered
            if answered >= asked:
                return self.answers
            if not self.running:
                raise FileError(f"the app has ended, and {answered} of {asked} items have an answer")
            if end is not None and time.monotonic() > end:
                raise TimeoutError(f"{answered} of {asked} items have an answer")
            time.sleep(_PAUSE)

    def stop(self) -> None:
        """Stops the app. Everything is kept, and `annotate` goes on with it."""
        self._app.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "at" if self.running else "was at"
        return f"the annotation app {state} {self.url}"

    def _repr_html_(self) -> str:
        if not self.running:
            return "<p>the annotation app has ended</p>"
        links = self.invitations or [Invitation("the annotation app", self.url)]
        return "<br>".join(f'<a href="{escape(one.link)}" target="_blank">{escape(one.name)}</a>' for one in links)


def annotate(
    target: Picks | Results | Place,
    dataset: Dataset | Place | None = None,
    pool_side: Literal["image", "text"] = "image",
    *,
    out: Place = "picks.jsonl",
    host: str = "127.0.0.1",
    port: int = 0,
    public_url: str | None = None,
    sign_in: bool = True,
    invite: Sequence[str] = (),
    reviewers: Sequence[str] = (),
    review: float | None = None,
    captions: int = 1,
    annotators: int = 1,
    language: str | None = None,
    guidelines: str | None = None,
    price: float | None = None,
    grace: float | None = 60.0,
    images: Place | None = None,
    database: str | None = None,
) -> Annotation:
    """Starts the app in which people pair, and returns at once; `.wait()` returns their answers.

    `target` are picks whose ids are those of `dataset`, or a file of them, or an experiment that waits for
    people. Picks are written to `out`; the app's database and the answers lie beside it, and the same call
    goes on with them. A complete round stays open for second thoughts for `grace` seconds; with `None`,
    the lead closes it. The other settings are those of `nextpair annotate`.
    """
    if pool_side not in ("image", "text"):
        raise SettingError(f"pool_side: {pool_side!r} is neither image nor text")
    if grace is not None and not 0 <= grace < 1e9:
        raise SettingError(f"grace: {grace!r} is no number of seconds")
    given: _engine.GivenApp = {
        "target": _place(target, Path(out)),
        "dataset": dataset.folder if isinstance(dataset, Dataset) else None if dataset is None else Path(dataset),
        "pool_side": pool_side,
        "address": f"[{host}]:{port}" if ":" in host else f"{host}:{whole('port', port)}",
        "public_url": public_url,
        "database": database,
        "sign_in": sign_in,
        "invite": list(invite),
        "reviewers": list(reviewers),
        "review": review,
        "captions": whole("captions", captions),
        "annotators": whole("annotators", annotators),
        "language": language,
        "guidelines": guidelines,
        "price": price,
        "grace": None if grace is None else float(grace),
        "images": None if images is None else Path(images),
    }
    return Annotation(_engine.App(given, (None, None)))


def _place(target: Picks | Results | Place, out: Path) -> Path:
    """The file of picks, or the folder of an experiment."""
    if isinstance(target, Results):
        return target.folders[0]
    if not isinstance(target, Picks):
        return Path(target)
    if out.exists():
        with out.open(encoding="utf-8") as lines:
            there = [json.loads(line)["id"] for line in lines]
        if there != [str(name) for name in target.ids]:
            raise FileError(f"{out}: there are other picks in it; give another file as out")
    else:
        target.to_jsonl(out)
    return out
