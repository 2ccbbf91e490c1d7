"""Datasets, made of what people have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import nextpair

FIXTURES = Path(__file__).parent.parent.parent / "crates/encode/tests/fixtures"


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: Any) -> nextpair.Dataset:
    return nextpair.Dataset.scenes(tmp_path_factory.mktemp("data") / "scenes", 60, seed=1)


def png(colour: int) -> bytes:
    """A picture of one colour."""
    import struct
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes([colour, 128, 7] * 16) for _ in range(16))
    head = struct.pack(">IIBBBBB", 16, 16, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def test_items_tables_and_features(scenes: nextpair.Dataset) -> None:
    assert len(scenes) == 60 and scenes.synthetic
    item = scenes[0]
    assert item == next(iter(scenes)) and scenes[-1] == list(scenes)[59]
    assert item.file is not None and item.file.is_file() and item.captions
    frame, table = scenes.to_pandas(), scenes.to_arrow()
    assert frame["id"].tolist() == table["id"].to_pylist() == [one.id for one in scenes]
    assert table["captions"].to_pylist()[0] == item.captions
    array = scenes.features("image")
    assert array.shape[0] == 60 and np.isfinite(array).all()
    assert "60 items" in repr(scenes) and "synthetic" in repr(scenes)
    with pytest.raises(IndexError):
        scenes[60]
    with pytest.raises(nextpair.FileError, match="no text features"):
        scenes.features("text")
    with pytest.raises(nextpair.FileError, match="nowhere"):
        nextpair.Dataset.open("nowhere")


def test_from_and_to_pandas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(4):
        (tmp_path / f"{number}.png").write_bytes(png(number))
    frame = pd.DataFrame(
        {
            "file_name": [f"{number}.png" for number in range(4)],
            "caption": [["a red square", "a square"], ["a dog"], [], ["two dogs"]],
            "name": list("wxyz"),
        }
    )
    dataset = nextpair.Dataset.from_pandas(frame, "made", id="name")
    assert [item.id for item in dataset] == list("wxyz")
    assert dataset[0].captions == ["a red square", "a square"]
    assert dataset[2].captions == [] and dataset[2].file is not None
    again = nextpair.Dataset.from_arrow(dataset.to_arrow().drop_columns("split"), "again", id="id", image="image")
    assert [(item.id, item.captions) for item in again] == [(item.id, item.captions) for item in dataset]
    with pytest.raises(nextpair.FileError):
        nextpair.Dataset.from_pandas(frame, "made", id="name")  # there is one already
    with pytest.raises(nextpair.FileError, match="colour"):
        nextpair.Dataset.from_pandas(frame, "other", caption="colour")
    assert not Path("other").exists()
    with pytest.raises(nextpair.SettingError, match="^kind: 'zip'"):
        nextpair.Dataset.import_from("zip", "x", "y")  # type: ignore[arg-type]


@pytest.mark.filterwarnings("default")
def test_hugging_face(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    pytest.importorskip("PIL")
    rows = {"image": [{"bytes": png(number), "path": None} for number in range(3)], "text": ["a", "b", "c"]}
    given = datasets.Dataset.from_dict(rows, features=datasets.Features({"image": datasets.Image(), "text": datasets.Value("string")}))
    dataset = nextpair.Dataset.from_hugging_face(given, tmp_path / "made")
    assert [item.captions for item in dataset] == [["a"], ["b"], ["c"]]
    back = dataset.to_hugging_face()
    assert back[1]["captions"] == ["b"]
    assert back[1]["image"].size == (16, 16)


def test_features_of_yours(tmp_path: Path) -> None:
    dataset = nextpair.Dataset.scenes(tmp_path / "scenes", 20)
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(20, 8)).astype(np.float32)
    dataset.add_features("clip", numbers)
    assert (dataset.features("image", "clip") == numbers).all()
    captions = sum(len(item.captions) for item in dataset)
    texts = rng.normal(size=(captions, 8))
    texts[3] = np.nan
    dataset.add_features("clip", texts, "text")
    np.testing.assert_array_equal(nextpair.Dataset(dataset.folder).features("text"), texts)
    assert ("clip", "text") in dataset.feature_sets
    with pytest.raises(nextpair.FileError, match="19 rows of features for 20"):
        dataset.add_features("clip", numbers[1:], replace=True)
    assert (dataset.features("image", "clip") == numbers).all(), "what was there is still there"
    for wrong in ("../clip", "", ".clip"):
        with pytest.raises(nextpair.SettingError, match="^name: "):
            dataset.add_features(wrong, numbers)
    picks = nextpair.select(numbers[:10], numbers[:10], numbers[10:], 3, ids=[item.id for item in dataset][10:], guard="off")
    assert all(pick.id in {item.id for item in dataset} for pick in picks)


def test_features_are_replaced_only_on_request(tmp_path: Path) -> None:
    dataset = nextpair.Dataset.scenes(tmp_path / "scenes", 20)
    one, other = np.zeros((20, 4), np.float32), np.ones((20, 4), np.float32)
    dataset.add_features("clip", one)
    with pytest.raises(nextpair.FileError, match="image features clip exist already; give another name, or replace=True"):
        dataset.add_features("clip", other)
    assert (dataset.features("image", "clip") == one).all()
    dataset.add_features("clip", other, replace=True)
    assert (nextpair.Dataset(dataset.folder).features("image", "clip") == other).all()
    captions = sum(len(item.captions) for item in dataset)
    dataset.add_features("clip", np.ones((captions, 4), np.float32), "text")


def test_embed(tmp_path: Path) -> None:
    dataset = nextpair.Dataset.scenes(tmp_path / "scenes", 12)
    told: list[Any] = []
    (tmp_path / "small.toml").write_text('size = 8\nresize = "squash"\n')
    small = str(tmp_path / "small.toml")
    made = dataset.embed(
        image_model=FIXTURES / "image.onnx", name="tiny", preprocess=small, progress=lambda *now: told.append(now)
    )
    assert made.rows == 12 and made.bad == 0
    assert dataset.features("image", "tiny").shape[0] == 12
    texts = dataset.embed(text_model=FIXTURES / "text.onnx", name="tiny")
    assert texts.rows == sum(len(item.captions) for item in dataset)
    with pytest.raises(nextpair.SettingError, match="^image_model, text_model: give one"):
        dataset.embed()
    with pytest.raises(nextpair.FileError, match="nothing.onnx"):
        dataset.embed(image_model="nothing.onnx", preprocess="clip")
    with pytest.raises(nextpair.SettingError, match="^preprocess: "):
        dataset.embed(image_model=tmp_path / "other.onnx")


def test_errors_have_no_control_characters(tmp_path: Path) -> None:
    with pytest.raises(nextpair.FileError) as raised:
        nextpair.Dataset(tmp_path / "no\x1b]0;such\x07")
    assert "no\\u001b]0;such\\u0007: " in str(raised.value)


def test_enlarge(tmp_path: Path) -> None:
    dataset = nextpair.Dataset.scenes(tmp_path / "scenes", 20)
    said = f"id,caption,skip\n{dataset[0].id},A walrus with a lantern .,\n{dataset[1].id},,dark\n"
    (tmp_path / "answers.csv").write_text(said)
    larger = dataset.enlarge(tmp_path / "answers.csv", tmp_path / "larger")
    assert (larger.captions, larger.images, larger.known) == (1, 0, 0)
    assert (larger.refused, larger.skipped) == ({"dark": 1}, 0)
    assert "A walrus with a lantern ." in larger.dataset[0].captions
    (tmp_path / "wrong.jsonl").write_text(json.dumps({"id": "nobody", "caption": "x"}) + "\n")
    with pytest.raises(nextpair.FileError, match="wrong.jsonl"):
        dataset.enlarge([tmp_path / "wrong.jsonl"], tmp_path / "never")
    with pytest.raises(nextpair.NextpairError, match="test: 1.5 is not a share"):
        dataset.enlarge(tmp_path / "answers.csv", tmp_path / "never", test=1.5)
    assert not (tmp_path / "never").exists()
