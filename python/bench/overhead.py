"""What the package costs beyond the engine: 200,000 x 512 items against 10,000 pairs, in turns.

    python python/bench/overhead.py [TURNS]

The program `nextpair` selects from files of the same numbers and says how long its work took, from opening
the files to the written picks. The package selects from arrays, from the call to the table. Both look for
what is wrong, on the same number of threads. The answers are compared first. Where others use the machine
too, processor time tells more than the clock; that of the program is less what it needs to start.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import nextpair

THREADS = 2
BUDGET = 1000


def processor(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    rng = np.random.default_rng(0)
    images = rng.standard_normal((10_000, 512), dtype=np.float32)
    texts = 0.7 * images + np.float32(np.sqrt(1 - 0.7**2)) * rng.standard_normal(images.shape, dtype=np.float32)
    pool = rng.standard_normal((200_000, 512), dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        for name, array in (("images", images), ("texts", texts), ("pool", pool)):
            np.save(Path(folder, f"{name}.npy"), array)
        command = [sys.executable, "-m", "nextpair", "select", "--json", "--pool-side", "image"]
        command += ["--strategy", "hard-negative"]
        command += ["--paired-images", "images.npy", "--paired-texts", "texts.npy", "--pool", "pool.npy"]
        command += ["--budget", str(BUDGET), "--threads", str(THREADS), "--out", "picks.jsonl"]
        ours, theirs, our_work, their_work = [], [], [], []
        for turn in range(turns + 1):
            began, worked = time.perf_counter(), processor(resource.RUSAGE_SELF)
            picks = nextpair.select(images, texts, pool, BUDGET, "hard-negative", threads=THREADS)
            took, worked = time.perf_counter() - began, processor(resource.RUSAGE_SELF) - worked
            before = processor(resource.RUSAGE_CHILDREN)
            subprocess.run([*command[:3], "--version"], check=True, capture_output=True)
            started = processor(resource.RUSAGE_CHILDREN)
            run = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
            work = processor(resource.RUSAGE_CHILDREN) - started - (started - before)
            picks.to_jsonl(Path(folder, "ours.jsonl"))
            same = Path(folder, "ours.jsonl").read_bytes() == Path(folder, "picks.jsonl").read_bytes()
            assert same, "the package and the program picked differently"
            if turn > 0:  # the first turn warms up
                ours.append(took)
                theirs.append(float(json.loads(run.stdout)["seconds"]))
                our_work.append(worked)
                their_work.append(work)
    for name, mine, others in (("clock", ours, theirs), ("processor", our_work, their_work)):
        for who, times in (("package", mine), ("program", others)):
            print(f"{name:9}  {who}  median {statistics.median(times):.3f} s, {min(times):.3f} to {max(times):.3f}")
        ratios = [one / other for one, other in zip(mine, others, strict=True)]
        print(f"{name:9}  package / program  {statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}")


if __name__ == "__main__":
    main()
