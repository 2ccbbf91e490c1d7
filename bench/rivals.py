"""The rivals, one at a time, on data that is loaded once: python rivals.py FOLDER BUDGET THREADS

Speaks JSON lines. Once the data is in memory it says {"versions": ...}. Each request
{"run": NAME, "chunk": ROWS, "rows": POOL-ROWS} is answered by {"seconds": ..., "picks": [...]},
timed from arrays in memory to a list of picks; {"replay": PICKS} by {"shortfall": ...}. With MAP=1 in the environment the files are mapped
rather than read, which is the least memory a rival can do with. Packages are imported when first
needed, outside the time, so that a rival's memory is its own.
"""

import functools
import heapq
import importlib
import importlib.metadata
import json
import math
import os
import platform
import sys
import time
import warnings

import numpy as np

FOLDER, BUDGET, THREADS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
warnings.filterwarnings("ignore", message="The given NumPy array is not writable")


@functools.cache
def load(name):
    mode = "r" if os.environ.get("MAP") == "1" else None
    return np.load(os.path.join(FOLDER, name + ".npy"), mmap_mode=mode)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def numpy_select(chunk, rows):
    """Thresholds, then scores: one product per chunk, into one buffer, finished in place."""
    images, anchors, pool = load("images"), unit(load("texts")).T, load("pool")[:rows]
    buffer = np.empty((chunk, anchors.shape[1]), np.float32)

    def similarities(items):
        return np.matmul(unit(items), anchors, out=buffer[: len(items)])

    thresholds = np.full(anchors.shape[1], -np.inf, np.float32)
    for start in range(0, len(images), chunk):
        block = similarities(images[start : start + chunk])
        own = np.arange(len(block))
        block[own, own + start] = -np.inf
        np.maximum(thresholds, block.max(0), out=thresholds)
    scores = np.empty(len(pool), np.float32)
    for start in range(0, len(pool), chunk):
        block = similarities(pool[start : start + chunk])
        block -= thresholds
        np.maximum(block, 0, out=block)
        block.sum(1, out=scores[start : start + chunk])
    best = np.argpartition(-scores, BUDGET - 1)[:BUDGET]
    return best[np.lexsort((best, -scores[best]))].tolist()


def torch_select(chunk, rows):
    """The same; the threshold is subtracted by the product itself (addmm)."""
    import torch

    with torch.inference_mode():
        unit = torch.nn.functional.normalize
        images, texts, pool = (torch.from_numpy(load(n)) for n in ("images", "texts", "pool"))
        anchors, pool = unit(texts).T, pool[:rows]
        buffer = torch.empty(chunk, anchors.shape[1])
        thresholds = torch.full((anchors.shape[1],), -torch.inf)
        for start in range(0, len(images), chunk):
            items = images[start : start + chunk]
            block = torch.mm(unit(items), anchors, out=buffer[: len(items)])
            own = torch.arange(len(block))
            block[own, own + start] = -torch.inf
            torch.maximum(thresholds, block.amax(0), out=thresholds)
        scores = torch.empty(len(pool))
        for start in range(0, len(pool), chunk):
            items = pool[start : start + chunk]
            block = torch.addmm(-thresholds, unit(items), anchors, out=buffer[: len(items)])
            scores[start : start + chunk] = block.clamp_(min=0).sum(1)
        return torch.topk(scores, BUDGET).indices.tolist()


def numpy_core_set(chunk, rows):
    """Squared distances by |x|^2 + |c|^2 - 2 x c: a product per chunk, then one per pick."""
    centres, pool = load("images"), load("pool")
    norms = np.einsum("ij,ij->i", pool, pool)
    centre_norms = np.einsum("ij,ij->i", centres, centres)
    nearest = np.empty(len(pool), np.float32)
    for start in range(0, len(pool), chunk):
        block = pool[start : start + chunk] @ centres.T
        block *= -2
        block += centre_norms
        nearest[start : start + chunk] = block.min(1) + norms[start : start + chunk]
    picks = []
    for _ in range(BUDGET):
        pick = int(nearest.argmax())
        picks.append(pick)
        distances = pool @ pool[pick]
        distances *= -2
        distances += norms
        distances += norms[pick]
        np.minimum(nearest, distances, out=nearest)
    return picks


def sample(purpose, size, count):
    """The same seeded sample as ours, seed 0: the items with the smallest draws."""
    step = np.uint64(0x9E3779B97F4A7C15)

    def mix(z):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))

    with np.errstate(over="ignore"):
        key = mix(mix(np.array([step])) ^ np.uint64(purpose) * step)
        draws = mix(key + np.arange(size, dtype=np.uint64)) + step
    return np.sort(np.argsort(draws, kind="stable")[:count])


def numpy_herding(chunk, rows):
    """Facility location as submodlib and apricot do it: the whole kernel in memory, then lazy greedy."""
    paired, pool = load("images"), load("pool")
    size = len(pool)

    def rows_of(items):
        return np.concatenate([pool[items[items < size]], paired[items[items >= size] - size]])

    points = rows_of(sample(5, size + len(paired), 2000))
    mean = points.mean(0, dtype=np.float64).astype(np.float32)
    directions = unit(points - mean)
    drawn = sample(6, size + len(paired), 1000)
    others, nearest = unit(rows_of(drawn) - mean).T, np.full(len(drawn), -np.inf, np.float32)
    kernel = np.empty((size, len(points)), np.float32)
    covered = np.full(len(points), -np.inf, np.float32)
    for first, matrix in ((0, pool), (size, paired)):
        for start in range(0, len(matrix), 4096):
            block = unit(matrix[start : start + 4096] - mean)
            cosines = block @ others
            here = first + start + np.arange(len(block))
            own = np.isin(drawn, here)
            cosines[drawn[own] - first - start, np.flatnonzero(own)] = -np.inf
            np.maximum(nearest, cosines.max(0), out=nearest)
            if first:
                np.maximum(covered, (block @ directions.T).max(0), out=covered)
            else:
                np.matmul(block, directions.T, out=kernel[start : start + len(block)])
    slope = 2 / max(np.sort(2 - 2 * nearest.astype(np.float64))[len(drawn) // 2], 0.05)
    for block in (kernel, covered):
        block -= 1
        np.minimum(block, 0, out=block)
        block *= np.float32(slope)
        np.exp(block, out=block)
    gains = np.empty(size)
    for start in range(0, size, 4096):
        block = kernel[start : start + 4096] - covered
        gains[start : start + 4096] = np.maximum(block, 0, out=block).sum(1, dtype=np.float64)
    heap = [(-gain, item, 0) for item, gain in enumerate(gains.tolist())]
    heapq.heapify(heap)
    picks = []
    while len(picks) < BUDGET:
        bound, item, seen = heapq.heappop(heap)
        if seen == len(picks):
            picks.append(item)
            np.maximum(covered, kernel[item], out=covered)
            continue
        gain = np.maximum(kernel[item] - covered, 0).sum(dtype=np.float64)
        heapq.heappush(heap, (-float(gain), item, len(picks)))
    return picks


def directions(axes):
    """Unit rows of pool and pairs, less their mean, along so many principal axes."""
    pool, paired = load("pool"), load("images")
    mean = (pool.sum(0, dtype=np.float64) + paired.sum(0, dtype=np.float64)) / (len(pool) + len(paired))
    both = [matrix - mean.astype(np.float32) for matrix in (pool, paired)]
    if axes < pool.shape[1]:
        covariance = sum((matrix.T @ matrix).astype(np.float64) for matrix in both)
        kept = np.linalg.eigh(covariance)[1][:, ::-1][:, :axes].astype(np.float32)
        both = [matrix @ kept for matrix in both]
    return [unit(matrix) for matrix in both]


def design(pool, paired, times, square, state):
    """Greedy V-optimal design: rank-one updates of all items by one product with two vectors a pick."""
    count = len(pool) + len(paired)
    targets = (square(pool) + square(paired)) / count
    inverse = np.linalg.inv(np.eye(len(targets)) + square(paired))
    a, b = state(pool, inverse), state(pool, inverse @ targets @ inverse)
    picks, left = [], np.zeros(len(pool), np.float32)
    while len(picks) < BUDGET:
        item = int(np.argmax(np.maximum(b, 0) / (1 + a) + left))
        picks.append(item)
        left[item] = -np.inf
        x = np.asarray(pool[item], dtype=np.float64)
        u = inverse @ x
        h, k, s = inverse @ (targets @ u), u @ targets @ u, 1 / (1 + x @ u)
        c, e = times(pool, np.stack([u, h], 1).astype(np.float32))
        a -= s * c * c
        b += s * s * k * c * c - 2 * s * c * e
        inverse -= s * np.outer(u, u)
    return picks


def numpy_design(axes, chunk, rows):
    def state(pool, matrix):
        matrix = matrix.astype(np.float32)
        blocks = (pool[at : at + chunk] for at in range(0, len(pool), chunk))
        return np.concatenate([np.einsum("ij,ij->i", block @ matrix, block) for block in blocks])

    square = lambda matrix: (matrix.T @ matrix).astype(np.float64)
    return design(*directions(axes), lambda pool, pair: (pool @ pair).T, square, state)


def torch_design(axes, chunk, rows):
    import torch

    def state(pool, matrix):
        matrix = torch.from_numpy(matrix.astype(np.float32))
        return torch.cat([((block @ matrix) * block).sum(1) for block in pool.split(chunk)]).numpy()

    square = lambda matrix: (matrix.T @ matrix).numpy().astype(np.float64)
    times = lambda pool, pair: (pool @ torch.from_numpy(pair)).T.contiguous().numpy()
    pool, paired = (torch.from_numpy(matrix) for matrix in directions(axes))
    return design(pool, paired, times, square, state)


@functools.cache
def centres_then_pool():
    return np.concatenate([load("images"), load("pool")])


def skactiveml_core_set(chunk, rows):
    from skactiveml.pool import CoreSet

    centres, items = len(load("images")), centres_then_pool()
    labels = np.full(len(items), np.nan)
    labels[:centres] = 0
    picks = CoreSet(random_state=0).query(items, labels, batch_size=BUDGET)
    return (picks - centres).tolist()


def mundig_core_set(chunk, rows):
    from lightly_mundig import Selection

    centres, items = len(load("images")), centres_then_pool()
    selection = Selection()
    selection.add_diversifying_strategy(items, 1.0)
    chosen = selection.run_selection(list(range(centres)), len(items), centres + BUDGET)
    return [index - centres for index in chosen[centres:]]


def shortfall(picks):
    """The most, relative, by which a pick was nearer to the centres and picks before it than the
    farthest item was; in double precision."""
    centres, pool = load("images").astype(np.float64), load("pool").astype(np.float64)
    norms = (pool * pool).sum(1)
    nearest = np.full(len(pool), np.inf)
    for start in range(0, len(centres), 256):
        block = centres[start : start + 256]
        distances = norms[:, None] + (block * block).sum(1) - 2 * (pool @ block.T)
        np.minimum(nearest, distances.min(1), out=nearest)
    worst = 0.0
    for pick in picks:
        worst = max(worst, 1 - math.sqrt(max(nearest[pick], 0) / nearest.max()))
        np.minimum(nearest, norms + norms[pick] - 2 * (pool @ pool[pick]), out=nearest)
    return worst


# Name -> (package, what it must have loaded before the clock starts, the rival).
SELECT = ("images", "texts", "pool")
RIVALS = {
    "numpy": ("numpy", SELECT, numpy_select),
    "torch": ("torch", SELECT, torch_select),
    "numpy-greedy": ("numpy", ("images", "pool"), numpy_core_set),
    "numpy-herding": ("numpy", ("images", "pool"), numpy_herding),
    "numpy-512": ("numpy", ("images", "pool"), functools.partial(numpy_design, 512)),
    "torch-512": ("torch", ("images", "pool"), functools.partial(torch_design, 512)),
    "numpy-128": ("numpy", ("images", "pool"), functools.partial(numpy_design, 128)),
    "torch-128": ("torch", ("images", "pool"), functools.partial(torch_design, 128)),
    "scikit-activeml": ("skactiveml.pool", (), skactiveml_core_set),
    "lightly-mundig": ("lightly_mundig", (), mundig_core_set),
}


def answer(request):
    if "replay" in request:
        return {"shortfall": shortfall(request["replay"])}
    package, files, rival = RIVALS[request["run"]]
    module = importlib.import_module(package)
    if package == "torch":
        module.set_num_threads(THREADS)
    for name in files:
        load(name)
    if not files:
        centres_then_pool()
    began = time.perf_counter()
    picks = rival(request["chunk"], request.get("rows"))
    return {"seconds": time.perf_counter() - began, "picks": picks}


def say(message):
    print(json.dumps(message), flush=True)


packages = ("numpy", "scikit-activeml", "scikit-learn", "lightly-mundig", "torch")
versions = {package: importlib.metadata.version(package) for package in packages}
say({"versions": {"python": platform.python_version(), **versions}})
for line in sys.stdin:
    try:
        say(answer(json.loads(line)))
    except Exception as error:
        say({"error": f"{type(error).__name__}: {error}"})
