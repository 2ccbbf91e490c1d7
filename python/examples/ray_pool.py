"""A pool in many files, selected from by all CPUs (or GPUs) of a Ray cluster.

Run it as it is and Ray starts on this machine. On a cluster, `ray job submit -- python ray_pool.py` does the same there.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray

import nextpair
import nextpair.ray


def main(folder: Path) -> None:
    rng = np.random.default_rng(0)
    images = rng.standard_normal((500, 64), dtype=np.float32)  # embeddings of your pairs
    texts = images + 0.3 * rng.standard_normal(images.shape, dtype=np.float32)

    for number in range(4):  # files that something else wrote
        rows = rng.standard_normal((5000, 64), dtype=np.float32)
        ids = [f"shard-{number}/{row}.jpg" for row in range(len(rows))]
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])
        pq.write_table(pa.table({"id": ids, "embedding": vectors}), folder / f"pool-{number}.parquet")

    # What would it take? The rates of this machine, for a pool a thousand times as large.
    print(nextpair.plan(20_000_000, 64, 500, nodes=4, cores=16))

    dataset = ray.data.read_parquet(str(folder), include_paths=False)
    picks = nextpair.ray.select(dataset, images, texts, budget=20, strategy="hard-negative", id_column="id")
    print(picks)
    picks.to_jsonl(folder / "picks.jsonl")


if __name__ == "__main__":
    ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
