"""Datasets: images, captions, their features, and what people said about them."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from . import _engine
from ._arrays import Array, lend
from ._progress import Listener, listening
from ._select import thread_count
from ._strategies import whole
from .errors import InputError, SettingError

if TYPE_CHECKING:
    import datasets
    import pandas
    import pyarrow

Place: TypeAlias = str | PathLike[str]
Side: TypeAlias = Literal["image", "text"]
Kind: TypeAlias = Literal["parquet", "table", "folder", "webdataset", "coco", "flickr", "karpathy", "embeddings"]

_KINDS = ("parquet", "table", "folder", "webdataset", "coco", "flickr", "karpathy", "embeddings")
_AT_ONCE = 10_000


class Item(NamedTuple):
    """An image with its captions. Without captions it is an unpaired image, without an image an unpaired text."""

    id: str
    split: str | None
    image: str | None
    """The name of its image."""
    file: Path | None
    """The file of it, if it is at hand."""
    captions: list[str]


class Embedded(NamedTuple):
    """What encoders made."""

    rows: int
    """Rows of the features."""
    resumed: int
    """Rows that an earlier call had made before it was stopped."""
    bad: int
    """Items that could not be encoded."""


class Enlarged(NamedTuple):
    """A dataset with what people said."""

    dataset: Dataset
    captions: int
    """New captions."""
    images: int
    """New images."""
    paired: int
    """Items that were not paired before."""
    known: int
    """Answers that the dataset had already."""
    refused: dict[str, int]
    """Items that people refused, by reason."""
    skipped: int
    """Items that people skipped without a reason."""


class Dataset:
    """A dataset of nextpair: a folder with items, features and a manifest."""

    def __init__(self, folder: Place) -> None:
        """Opens it. Items are read when they are asked for, so it may be larger than memory."""
        self._engine = _engine.Dataset(Path(folder))

    @classmethod
    def open(cls, folder: Place) -> Dataset:
        """Opens a dataset."""
        return cls(folder)

    @classmethod
    def import_from(
        cls,
        kind: Kind,
        source: Place,
        out: Place,
        *,
        image: str | None = None,
        caption: str | None = None,
        id: str | None = None,
        split_column: str | None = None,
        split: str = "train",
        image_dir: Place | None = None,
        side: Side = "image",
        other: Place | None = None,
        ids: Place | None = None,
        captions: Place | None = None,
        max_captions: int = 5,
        dev: float = 0.0,
        test: float = 0.0,
        skip_bad: bool = False,
        images_optional: bool = False,
        progress: bool | Listener | None = None,
        threads: int | None = None,
    ) -> Dataset:
        """Makes a dataset in the new folder `out`, as `nextpair import KIND SOURCE OUT` does.

        `image`, `caption`, `id` and `split_column` name columns, `split` is that of rows without one, and
        `image_dir` is where images lie that are named and not held. `other`, `ids` and `captions` are files
        beside embeddings, of the `side` they are of. `dev` and `test` are the shares of the paired training items
        that become these splits, drawn by their ids.
        """
        if kind not in _KINDS:
            raise SettingError(f"kind: {kind!r} is none of {', '.join(_KINDS)}")
        given: _engine.GivenSource = {
            "kind": kind,
            "source": Path(source),
            "out": Path(out),
            "skip_bad": skip_bad,
            "images_optional": images_optional,
            "image_dir": _path(image_dir),
            "image": image,
            "caption": caption,
            "id": id,
            "split_column": split_column,
            "split": split,
            "side": _side("side", side),
            "other": _path(other),
            "ids": _path(ids),
            "captions": _path(captions),
            "max_captions": whole("max_captions", max_captions),
            "dev": dev,
            "test": test,
        }
        with listening(progress) as listener:
            findings = _engine.import_dataset(given, (thread_count(threads), listener))
        dataset = cls(out)
        dataset.findings = findings
        return dataset

    findings: Sequence[str] = ()
    """What was odd about the source, in words, after an import. `import.jsonl` in the folder has all of it."""

    @classmethod
    def from_arrow(cls, table: pyarrow.Table, out: Place, **options: Any) -> Dataset:
        """Makes a dataset of a table. The options are those of `import_from`, kind parquet: images are paths,
        bytes, or Hugging Face's structures of both; captions are texts or lists of texts."""
        import pyarrow.parquet

        table, place = _below_one_folder(table, options.get("image"))
        with tempfile.TemporaryDirectory(prefix="nextpair-") as folder:
            file = Path(folder) / "table.parquet"
            pyarrow.parquet.write_table(table, file)
            options.setdefault("image_dir", place)
            return cls.import_from("parquet", file, out, **options)

    @classmethod
    def from_pandas(cls, frame: pandas.DataFrame, out: Place, **options: Any) -> Dataset:
        """Makes a dataset of a frame; see `from_arrow`."""
        import pyarrow

        return cls.from_arrow(pyarrow.Table.from_pandas(frame, preserve_index=False), out, **options)

    @classmethod
    def from_hugging_face(cls, dataset: datasets.Dataset, out: Place, **options: Any) -> Dataset:
        """Makes a dataset of one of Hugging Face's library `datasets`; see `from_arrow`. Images in it are
        unpacked into the new folder."""
        with tempfile.TemporaryDirectory(prefix="nextpair-") as folder:
            file = Path(folder) / "table.parquet"
            dataset.to_parquet(str(file))
            return cls.import_from("parquet", file, out, **options)

    @classmethod
    def scenes(
        cls,
        out: Place,
        images: int = 1000,
        seed: int = 0,
        *,
        progress: bool | Listener | None = None,
        threads: int | None = None,
    ) -> Dataset:
        """Makes a generated world of simple scenes with true captions: synthetic, for trying things out."""
        with listening(progress) as listener:
            how: _engine.How = (thread_count(threads), listener)
            _engine.import_scenes(Path(out), whole("images", images), whole("seed", seed), how)
        return cls(out)

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self._engine.folder

    @property
    def name(self) -> str:
        """What it is called."""
        return self._engine.name

    @property
    def synthetic(self) -> bool:
        """Whether a program generated it."""
        return self._engine.synthetic

    @property
    def feature_sets(self) -> list[tuple[str, str]]:
        """Names and sides of the features, in the order in which they were added."""
        return self._engine.feature_sets

    def __len__(self) -> int:
        return self._engine.len

    def __iter__(self) -> Iterator[Item]:
        for first in range(0, len(self), _AT_ONCE):
            yield from (Item(*raw) for raw in self._engine.items(first, first + _AT_ONCE))

    def __getitem__(self, place: int) -> Item:
        index = range(len(self))[place]
        return Item(*self._engine.items(index, index + 1)[0])

    def to_arrow(self) -> pyarrow.Table:
        """A row per item: id, split, image (the path of its file, or its name) and captions. It needs pyarrow."""
        import pyarrow

        text = pyarrow.string()
        schema = pyarrow.schema([("id", text), ("split", text), ("image", text), ("captions", pyarrow.list_(text))])
        rows = [
            {"id": item.id, "split": item.split, "image": _named(item), "captions": item.captions} for item in self
        ]
        return pyarrow.Table.from_pylist(rows, schema=schema)

    def to_pandas(self) -> pandas.DataFrame:
        """The same as a frame. It needs pandas."""
        import pandas

        rows = [(item.id, item.split, _named(item), item.captions) for item in self]
        return pandas.DataFrame(rows, columns=["id", "split", "image", "captions"])

    def to_hugging_face(self) -> datasets.Dataset:
        """The same as one of Hugging Face's library `datasets`; images are opened where all have files."""
        import datasets

        dataset = datasets.Dataset(self.to_arrow())
        if all(item.file is not None for item in self):
            return dataset.cast_column("image", datasets.Image())
        return dataset

    def features(self, side: Side = "image", name: str | None = None) -> Array:
        """Features of a side, those of a name or the last that were added: a row per item, or per caption of
        all items in their order; NaN where there are none."""
        data, rows, vectors, dim, dtype, owners = self._engine.features(_side("side", side), name)
        array: Array = np.frombuffer(data, dtype).reshape((rows, dim) if vectors == 1 else (rows, vectors, dim))
        if owners == list(range(rows)):
            return array
        missing = [owner is None for owner in owners]
        found = array[[0 if owner is None else owner for owner in owners]]
        found[missing] = np.nan
        return found

    def add_features(self, name: str, array: Any, side: Side = "image", *, per: Literal["item", "caption"] | None = None, replace: bool = False) -> None:
        """Adds features that were made elsewhere: a row per item (or per caption, which is usual for texts);
        a row of NaN is one that there is not. A name that is taken is refused, unless `replace` is set."""
        if not re.fullmatch(r"[\w.-]+", name) or name.startswith("."):
            raise SettingError(f"name: {name!r} is not made of letters, digits, - _ and .")
        wanted = per or ("caption" if _side("side", side) == "text" else "item")
        if wanted not in ("item", "caption"):
            raise SettingError(f"per: {wanted!r} is neither item nor caption")
        numbers = np.asarray(array)
        if numbers.ndim < 2:
            raise InputError(f"array: one row per {wanted} is needed, not an array of shape {numbers.shape}")
        rows = None
        missing = np.isnan(numbers).all(axis=tuple(range(1, numbers.ndim))) if numbers.dtype.kind == "f" else None
        if missing is not None and missing.any():
            rows = np.where(missing, -1, np.cumsum(~missing) - 1).tolist()
            numbers = numbers[~missing]
        self._engine.add_features((name, side, wanted), lend(numbers, "array", 3), rows, replace, (None, None))
        self._engine = _engine.Dataset(self.folder)

    def embed(
        self,
        *,
        image_model: Place | None = None,
        text_model: Place | None = None,
        name: str | None = None,
        preprocess: str | None = None,
        regions: int | None = None,
        tokenizer: Place | None = None,
        pooling: Literal["mean", "cls"] = "mean",
        l2: bool = True,
        output: str | None = None,
        pca: int | None = None,
        dtype: Literal["float16", "float32"] = "float16",
        replace: bool = False,
        progress: bool | Listener | None = None,
        threads: int | None = None,
    ) -> Embedded:
        """Makes features with an ONNX encoder of images or of texts, as `nextpair embed` does.

        Images are prepared as `preprocess` says (imagenet, clip, siglip, efficientnet-lite, or a TOML file),
        and get one vector, or `regions`. A job that was stopped goes on where it stopped.
        """
        if (image_model is None) == (text_model is None):
            raise SettingError("image_model, text_model: give one of them")
        model = Path(image_model if text_model is None else text_model)  # type: ignore[arg-type]
        given: _engine.GivenEncoder = {
            "side": "image" if text_model is None else "text",
            "model": model,
            "name": name or re.sub(r"[^\w.-]", "-", model.stem),
            "dtype": dtype,
            "components": None if pca is None else whole("pca", pca),
            "replace": replace,
            "output": output,
            "preprocess": preprocess,
            "regions": None if regions is None else whole("regions", regions),
            "tokenizer": _path(tokenizer),
            "cls": pooling == "cls",
            "l2": l2,
        }
        with listening(progress) as listener:
            made = self._engine.embed(given, (thread_count(threads), listener))
        self._engine = _engine.Dataset(self.folder)
        return Embedded(*made)

    def enlarge(
        self,
        answers: Place | Sequence[Place],
        out: Place,
        pool_side: Side = "image",
        *,
        images: Place | None = None,
        dev: float = 0.0,
        test: float = 0.0,
        progress: bool | Listener | None = None,
        threads: int | None = None,
    ) -> Enlarged:
        """Makes a larger dataset, in the new folder `out`, with what people said; this one stays as it is.

        `answers` are files as `nextpair add` takes them. New captions get features from the encoder that made
        the others, if the dataset knows it. `dev` and `test` are shares of the items that get their first caption,
        drawn by their ids.
        """
        files = [answers] if isinstance(answers, (str, PathLike)) else list(answers)
        folders = [] if images is None else [Path(images)]
        with listening(progress) as listener:
            how: _engine.How = (thread_count(threads), listener)
            side = _side("pool_side", pool_side)
            added = self._engine.enlarge([Path(file) for file in files], side, folders, (Path(out), dev, test), how)
        return Enlarged(Dataset(out), *added[:4], dict(added[4]), added[5])

    def __repr__(self) -> str:
        made = ", ".join(f"{name} ({side})" for name, side in self.feature_sets)
        about = f"{len(self)} items, {self._engine.captions} captions"
        return f"Dataset({str(self.folder)!r}): {about}{', synthetic' if self.synthetic else ''}; features: {made or 'none'}"


def _below_one_folder(table: pyarrow.Table, image: str | None) -> tuple[pyarrow.Table, Path]:
    """The table with paths of images relative to a folder that holds them all, and that folder."""
    name = image or next((name for name in ("image", "file_name") if name in table.column_names), None)
    if name is None or name not in table.column_names or str(table.schema.field(name).type) not in ("string", "large_string"):
        return (table, Path.cwd())
    paths = table.column(name).to_pylist()
    if not any(path and os.path.isabs(path) for path in paths):
        return (table, Path.cwd())
    whole_paths = [path and os.path.abspath(path) for path in paths]
    folder = os.path.commonpath([os.path.dirname(path) for path in whole_paths if path])
    below = [path and Path(path).relative_to(folder).as_posix() for path in whole_paths]
    place = table.column_names.index(name)
    return (table.set_column(place, name, [below]), Path(folder))


def _named(item: Item) -> str | None:
    return item.image if item.file is None else str(item.file)


def _path(given: Place | None) -> Path | None:
    return None if given is None else Path(given)


def _side(name: str, side: str) -> str:
    if side not in ("image", "text"):
        raise SettingError(f"{name}: {side!r} is neither image nor text")
    return side
