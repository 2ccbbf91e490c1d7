"""Seeded data of one case: python generate.py FOLDER JSON-PARAMETERS

select    images.npy, texts.npy (the pairs), pool.npy: images z ~ N(0, diag(i^-decay)), texts
          rho z + sqrt(1 - rho^2) z' with z' like z, pool like the images; all of them rotated by
          one random orthogonal matrix when decay > 0.
herding   as select.
core-set  images.npy (the centres), pool.npy: N(0, 1), or, with a decay, the non-negative
          features max(0, s (N + 0.3)) with s_i = i^-decay.
"""

import json
import math
import os
import sys

import numpy as np


def select(rng, pool, pairs, dim, decay, rho):
    scale = (np.arange(1, dim + 1) ** (-decay / 2)).astype(np.float32)
    latent = lambda rows: rng.standard_normal((rows, dim), dtype=np.float32) * scale
    images = latent(pairs)
    texts = np.float32(rho) * images + np.float32(math.sqrt(1 - rho * rho)) * latent(pairs)
    files = {"images": images, "texts": texts, "pool": latent(pool)}
    if decay > 0:
        rotation = np.linalg.qr(rng.standard_normal((dim, dim)))[0].astype(np.float32)
        files = {name: rows @ rotation for name, rows in files.items()}
    return files


def core_set(rng, pool, pairs, dim, decay):
    def features(rows):
        values = rng.standard_normal((rows, dim), dtype=np.float32)
        if decay > 0:
            values += np.float32(0.3)
            values *= (np.arange(1, dim + 1) ** -decay).astype(np.float32)
            np.maximum(values, 0, out=values)
        return values

    return {"images": features(pairs), "pool": features(pool)}


folder, given = sys.argv[1], json.loads(sys.argv[2])
make = {"select": select, "core-set": core_set, "herding": select, "design": select}[given.pop("bench")]
for name, rows in make(np.random.default_rng(given.pop("seed")), **given).items():
    np.save(os.path.join(folder, name + ".npy"), np.ascontiguousarray(rows, dtype=np.float32))
