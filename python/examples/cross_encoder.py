"""Select with a model that has no embeddings: it looks at an image and a text together.

`similarity` gets a few images and a few texts and returns a table. Here it is a made-up formula on words
and tags; in PyTorch it would be

    @torch.inference_mode()
    def similarity(images, texts):
        pairs = [(image, text) for image in images for text in texts]
        return model.score(pairs).reshape(len(images), len(texts)).float().cpu()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import nextpair

WORDS = ["dog", "cat", "beach", "snow", "ball", "car", "child", "tree", "red", "two", "runs", "sleeps"]
rng = np.random.default_rng(3)


def scenes(count: int) -> list[frozenset[str]]:
    """What is on some photographs."""
    return [frozenset(rng.choice(WORDS, size=4, replace=False).tolist()) for _ in range(count)]


def similarity(images: Sequence[frozenset[str]], texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """How well every text describes every image: the words they share, less those that are wrong."""
    said = [set(text.split()) for text in texts]
    return np.array([[len(i & t) - 0.5 * len(t - i) for t in said] for i in images], dtype=np.float32)


images = scenes(60)
texts = [" ".join(sorted(scene)[:3]) for scene in images]
pool = scenes(300)

# Every pair is asked about once, at most 512 at a time. Lists will do: they are only sliced. The default strategy needs
# vectors, which there are none of here; this one compares.
picks = nextpair.select(
    images, texts, pool, budget=5, strategy="hard-negative", similarity=similarity, batch=512, pair_ids=texts, guard="off"
)
for pick in picks:
    confused = ", ".join(repr(reason.anchor_id) for reason in pick.why)
    print(f"{pick.rank}. {' '.join(sorted(pool[pick.index]))}: would be confused with {confused}")


class Rarest:
    """A strategy of your own sees the problem and returns items, with scores if it has any."""

    def query(self, problem: nextpair.Problem, budget: int) -> Any:
        counts = {word: sum(word in scene for scene in images) for word in WORDS}
        scores = np.array([1 / min(counts[word] + 1 for word in scene) for scene in pool])
        best = np.argsort(-scores, kind="stable")[:budget]
        return best, scores[best]


print(nextpair.select(images, texts, pool, budget=5, strategy=Rarest(), similarity=similarity, guard="off"))
