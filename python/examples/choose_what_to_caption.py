"""Choose what to caption next: 5,000 photographs without captions, 800 with one, and money for 20.

The embeddings would come from your model (CLIP, SigLIP, your own); these are made up.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import nextpair

rng = np.random.default_rng(7)


def photographs(count: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Embeddings of photographs of forty subjects."""
    subjects = np.random.default_rng(0).normal(size=(40, 64))
    return (subjects[rng.integers(40, size=count)] + 0.6 * rng.normal(size=(count, 64))).astype(np.float32)


images = photographs(800)  # captioned already: row j of both is pair j
texts = images + 0.3 * rng.normal(size=images.shape).astype(np.float32)
pool = photographs(5000)  # no caption yet
names = [f"photo-{number:04}.jpg" for number in range(5000)]

# The items that would be the hardest negatives of what is captioned, and why.
picks = nextpair.select(images, texts, pool, budget=20, ids=names)
print(picks)
best = picks[0]
print(f"{best.id} is {best.why[0].similarity:.2f} similar to the caption of photograph {best.why[0].anchor}, ")
print(f"whose hardest rival so far has {best.why[0].threshold:.2f} and whose own photograph {best.why[0].own:.2f}.")

# Another strategy, without near duplicates of each other or of what is captioned.
novel = nextpair.select(images, texts, pool, budget=20, strategy=nextpair.Novelty(points=1000), dedupe=0.98)
print(f"{len(set(picks.indices) & set(novel.indices))} of the 20 are picked by novelty too.")

# For whoever captions: the file that `nextpair annotate --picks` serves, too.
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
picks.to_jsonl(folder / "picks.jsonl")
print(f"written to {folder / 'picks.jsonl'}")
