"""Compares the default training of heads with settings tuned for each dataset and number of pairs.

    python experiments/heads_defaults.py FLICKR8K COCO OUT.csv 10

The folders hold `captions.jsonl` ({filename, split, captions}) and, there or in `vectors/`, `images.npy` and `captions.npy` with rows in the same
order. Each of the 10 seeds draws other pairs of train, one caption an image. The tuned settings were the best on dev, with a seed of their own. Both are
tested on the first 1,000 images of test. The variable NEXTPAIR names the program.
"""

import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, stdev

PAIRS = [300, 1000, 3000]
BASE = "--batch 128 --rate 2e-3 --decay-every 1000 --loss info-nce"
TUNED = {
    ("flickr8k", 300): f"{BASE} --loss-temperature 0.07 --dropout-inputs 0.8 --epochs 240 --average-last 120",
    ("flickr8k", 1000): f"{BASE} --loss-temperature 0.07 --dropout-inputs 0.7 --epochs 120 --average-last 60",
    ("flickr8k", 3000): f"{BASE} --loss-temperature 0.03 --dropout-inputs 0.7 --epochs 100 --average-last 50",
    ("coco", 300): f"{BASE} --loss-temperature 0.07 --dropout-inputs 0.6 --dropout-states 0.3 --epochs 120 --average-last 60",
    ("coco", 1000): f"{BASE} --loss-temperature 0.07 --dropout-inputs 0.6 --epochs 60 --average-last 30",
    ("coco", 3000): f"{BASE} --loss-temperature 0.03 --dropout-inputs 0.7 --epochs 90 --average-last 45",
}


def make(source: Path, folder: Path) -> int:
    """Writes the dataset of a folder of vectors. Returns how many items it has to train on."""
    vectors = source / "vectors" if (source / "vectors").is_dir() else source
    items, tests = [], 0
    for line in open(source / "captions.jsonl", encoding="utf-8"):
        row = json.loads(line)
        split = {"val": "dev"}.get(row["split"], row["split"])
        tests += split == "test"
        if split == "test" and tests > 1000:
            split = "rest"
        if split != "extra":
            captions = [caption.strip() for caption in row["captions"]]
            items.append({"id": row["filename"], "split": split, "captions": captions})
    folder.mkdir()
    (folder / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    manifest = f'nextpair_dataset = 1\nname = "{source.name}"\nsource = "vectors"\nsynthetic = false\nitems = {len(items)}\n'
    manifest += f"captions = {sum(len(item['captions']) for item in items)}\n"
    for name, side, per in [("images", "image", "item"), ("captions", "text", "caption")]:
        file = json.dumps(str((vectors / f"{name}.npy").resolve()))
        manifest += f'\n[[features]]\nname = "vectors"\nside = "{side}"\nper = "{per}"\nfiles = [{file}]\n'
    (folder / "dataset.toml").write_text(manifest)
    return sum(item["split"] == "train" for item in items)


def rsum(dataset: Path, share: float, seed: int, flags: str) -> float:
    """Trains heads and returns their rsum on test."""
    program = os.environ.get("NEXTPAIR", "nextpair")
    with tempfile.TemporaryDirectory() as folder:
        model = f"{folder}/model"
        train = f"train {dataset} --model heads --captions random --share {share} --seed {seed} --validate-last 0 {flags}"
        subprocess.run([program, "-q", *train.split(), "--out", model], check=True, stdout=subprocess.DEVNULL)
        tested = subprocess.run([program, "-q", "eval", model, str(dataset), "--json"], check=True, capture_output=True)
    return json.loads(tested.stdout)["rsum"]


def main() -> None:
    sources, out, seeds = [Path(name) for name in sys.argv[1:3]], sys.argv[3], range(1, int(sys.argv[4]) + 1)
    with tempfile.TemporaryDirectory() as folder, open(out, "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["dataset", "pairs", "seed", "default", "tuned"])
        for source in sources:
            dataset = Path(folder) / source.name
            items = make(source, dataset)
            for pairs in PAIRS:
                flags = TUNED[source.name, pairs]
                share = pairs / items
                found = [[rsum(dataset, share, seed, of) for of in ("", flags)] for seed in seeds]
                table.writerows([source.name, pairs, seed, *map("{:.2f}".format, both)] for seed, both in zip(seeds, found))
                file.flush()
                default, tuned = (mean(column) for column in zip(*found))
                error = stdev(100 * (a - b) / tuned for a, b in found) / len(found) ** 0.5
                print(f"| {source.name} | {pairs} | {default:.1f} | {tuned:.1f} | {100 * (default / tuned - 1):+.1f} ± {2 * error:.1f} % | `{flags}` |", flush=True)


main()
