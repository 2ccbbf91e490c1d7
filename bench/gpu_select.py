"""The PyTorch rivals of selection on embeddings, on a GPU: top-1, surplus, cosine, full batch.

    python gpu_select.py [--pool 10000000] [--anchors 100000] [--dim 512] [--out FILE]
    python gpu_select.py --folder DIR        images.npy, texts.npy, pool.npy as of generate.py
    python gpu_select.py --device cpu --pool 4000 --anchors 300 --dim 32 --check 1000 --slice 2000

The anchors are the texts of pairs. The threshold of an anchor is its similarity to the nearest
image of another pair; the score of a pool item is the sum over anchors of max(0, similarity -
threshold); the picks are the items with the highest scores. Everything is on the device and of
length one before the clock starts: the pool as bfloat16 for bf16, as float32 for tf32 and fp32.
Timed are the scores of the whole pool and the picks; thresholds apart.

eager      chunks of the pool: threshold subtracted inside the product (addmm), clamped in place
           and summed
compiled   chunks of the pool: a product, then one fused kernel for threshold, hinge and sum
wide       as compiled, with bfloat16 inputs and float32 similarities (bf16 alone)
triton     one kernel, as Triton's own matrix product with a hinge and a sum instead of a store:
           similarities stay on chip (bf16 and tf32, CUDA alone)

Data of a seed: images z ~ N(0, I), texts 0.7 z + sqrt(1 - 0.7^2) z', pool like images, as `select
isotropic`, from PyTorch's generator on the device.

Answers first: on the first `--check` pool items, scores are compared with those of float32 data in
fp32, and these, for 64 items, with float64. A form is off by the largest difference over the mean
score; `picks` is the share of the top hundredth that is the same. A form above its tolerance is
reported and not timed. Then every form with every chunk runs on `--slice` items, and the fastest of
each precision on the whole pool. fp32 would take 20 s: it runs on a quarter of the slice, and its
time for the whole pool is extrapolated. Times are of CUDA events: the median, the least and the
most of the repeats.
"""

import argparse
import itertools
import json
import math
import os
import platform
import statistics
import time

import numpy as np
import torch
import torch._dynamo

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

BEGAN = time.perf_counter()
# Largest difference of a score over the mean score.
TOLERANCES = {"fp32": 1e-3, "tf32": 5e-2, "bf16": 0.5}


def options():
    parser = argparse.ArgumentParser(description="See the top of the script.")
    many = lambda kind: lambda text: [kind(part) for part in text.split(",")]
    add = parser.add_argument
    add("--device", default="cuda")
    add("--pool", type=int, default=10_000_000)
    add("--anchors", type=int, default=100_000)
    add("--dim", type=int, default=512)
    add("--picks", type=int, default=1000)
    add("--folder")
    add("--seed", type=int, default=1)
    add("--precisions", type=many(str), default=["bf16", "tf32", "fp32"])
    add("--forms", type=many(str), default=["eager", "compiled", "wide", "triton"])
    add("--chunks", type=many(int), default=[8192], help="pool items at a time")
    add("--slice", type=int, default=262_144, help="pool items of the trials")
    add("--check", type=int, default=32_768, help="pool items of the checks")
    add("--seconds", type=float, default=40, help="start nothing new after this time")
    add("--out")
    return parser.parse_args()


def use(precision):
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"


def unit(rows):
    return torch.nn.functional.normalize(rows)


def load(given):
    """Images, texts and pool, float32, rows of length one, on the device."""
    if given.folder:
        path = lambda name: os.path.join(given.folder, name + ".npy")
        read = lambda name: unit(torch.from_numpy(np.load(path(name))).to(given.device))
        return read("images"), read("texts"), read("pool")
    random = torch.Generator(given.device).manual_seed(given.seed)
    draw = lambda rows: torch.randn(rows, given.dim, device=given.device, generator=random)
    images = draw(given.anchors)
    texts = 0.7 * images + math.sqrt(1 - 0.7**2) * draw(given.anchors)
    pool = torch.empty(given.pool, given.dim, device=given.device)
    for rows in pool.split(1 << 20):
        rows.copy_(unit(draw(len(rows))))
    return unit(images), unit(texts), pool


def thresholds(images, anchors, chunk=4096):
    found = torch.full((len(anchors),), -torch.inf, device=anchors.device)
    for start in range(0, len(images), chunk):
        block = images[start : start + chunk] @ anchors.T
        own = torch.arange(len(block), device=anchors.device)
        block[own, own + start] = -torch.inf
        torch.maximum(found, block.amax(0).float(), out=found)
    return found


def hinge_sums(pool, anchors, thresholds):
    return (pool @ anchors.T - thresholds).clamp(min=0).sum(1, dtype=torch.float)


def wide_hinge_sums(pool, anchors, thresholds):
    similarities = torch.mm(pool, anchors.T, out_dtype=torch.float)
    return (similarities - thresholds).clamp(min=0).sum(1)


def compiled(function, chunk):
    """`function` over chunks of the pool; a last, smaller chunk takes items before it along."""
    function = torch.compile(function, dynamic=False, fullgraph=True)

    def scores(pool, anchors, thresholds):
        found = torch.empty(len(pool), device=pool.device)
        for start in range(0, len(pool), chunk):
            start = min(start, len(pool) - chunk)
            of = slice(start, start + chunk)
            found[of] = function(pool[of], anchors, thresholds)
        return found

    return scores


def eager(chunk):
    def scores(pool, anchors, thresholds):
        found = torch.empty(len(pool), device=pool.device)
        buffer = torch.empty(chunk, len(anchors), device=pool.device, dtype=pool.dtype)
        below = -thresholds.to(pool.dtype)
        for start in range(0, len(pool), chunk):
            rows = pool[start : start + chunk]
            block = torch.addmm(below, rows, anchors.T, out=buffer[: len(rows)])
            found[start : start + chunk] = block.clamp_(min=0).sum(1, dtype=torch.float)
        return found

    return scores


if triton is not None:

    @triton.jit
    def hinge_kernel(
        pool, anchors, thresholds, out, items, others,
        DIM: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
    ):  # fmt: skip
        rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        # Rows of 512 numbers and 10 million items: more than 32 bits.
        at_rows = pool + (rows % items).to(tl.int64)[:, None] * DIM
        depth = tl.arange(0, DEPTH)
        total = tl.zeros((ROWS,), tl.float32)
        for first in range(0, others, COLUMNS):
            columns = first + tl.arange(0, COLUMNS)
            at_columns = anchors + (columns % others)[None, :] * DIM
            product = tl.zeros((ROWS, COLUMNS), tl.float32)
            for k in range(0, DIM, DEPTH):
                a = tl.load(at_rows + (k + depth)[None, :])
                b = tl.load(at_columns + (k + depth)[:, None])
                product = tl.dot(a, b, product)
            least = tl.load(thresholds + columns, mask=columns < others, other=float("inf"))
            total += tl.sum(tl.maximum(product - least[None, :], 0.0), 1)
        tl.store(out + rows, total, mask=rows < items)


def fused(shape):
    rows, columns, depth, warps, stages = shape

    def scores(pool, anchors, thresholds):
        assert pool.shape[1] % depth == 0, f"the dimensions must be a multiple of {depth}"
        found = torch.empty(len(pool), device=pool.device)
        sizes = {"DIM": pool.shape[1], "ROWS": rows, "COLUMNS": columns, "DEPTH": depth}
        sizes |= {"num_warps": warps, "num_stages": stages}
        grid = (triton.cdiv(len(pool), rows),)
        hinge_kernel[grid](pool, anchors, thresholds, found, len(pool), len(anchors), **sizes)
        return found

    return scores


# Rows, columns, depth, warps and stages of a block, by precision.
BLOCKS = {
    "bf16": [(128, 256, 64, 8, 3), (128, 128, 64, 4, 4)],
    "tf32": [(128, 128, 32, 8, 3)],
}


def contestants(given, precision):
    """Name and function of everything to try."""
    chunks = [chunk for chunk in given.chunks if 4 * chunk <= given.slice and chunk <= given.check]
    for chunk in chunks:
        if "eager" in given.forms:
            yield f"eager, chunks of {chunk}", eager(chunk)
        if "compiled" in given.forms:
            yield f"compiled, chunks of {chunk}", compiled(hinge_sums, chunk)
        if "wide" in given.forms and precision == "bf16" and given.device == "cuda":
            yield f"wide, chunks of {chunk}", compiled(wide_hinge_sums, chunk)
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if "triton" in given.forms and triton and (given.device == "cuda" or interpreted):
        for shape in BLOCKS.get(precision, []):
            yield f"triton, blocks of {'x'.join(map(str, shape))}", fused(shape)


class Bench:
    def __init__(self, given):
        self.given, self.cuda = given, given.device == "cuda"
        versions = {"python": platform.python_version(), "torch": torch.__version__}
        versions["triton"] = triton and triton.__version__
        name = torch.cuda.get_device_name() if self.cuda else "cpu"
        self.record = {"device": name, "versions": versions, "options": vars(given)}
        self.record |= {"trials": [], "whole": [], "wrong": [], "left_out": []}

    def say(self, text):
        print(f"{time.perf_counter() - BEGAN:6.1f} s  {text}", flush=True)

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def seconds(self, call, repeats):
        marks = []
        for _ in range(repeats + 1):
            if self.cuda:
                marks.append(torch.cuda.Event(enable_timing=True))
                marks[-1].record()
            else:
                marks.append(time.perf_counter())
            if len(marks) <= repeats:
                call()
        self.wait()
        pairs = itertools.pairwise(marks)
        return [a.elapsed_time(b) / 1e3 if self.cuda else b - a for a, b in pairs]

    def timed(self, call, repeats, items):
        times = self.seconds(call, repeats)
        median = statistics.median(times)
        numbers = {"seconds": median, "least": min(times), "most": max(times)}
        numbers = {name: round(value, 5) for name, value in numbers.items()}
        work = 2 * items * len(self.anchors) * self.anchors.shape[1]
        return numbers | {"items": items, "tflops": round(work / median / 1e12, 1)}

    def late(self, name):
        if time.perf_counter() - BEGAN < self.given.seconds:
            return False
        self.record["left_out"].append(name)
        return True

    def prepare(self):
        images, self.anchors, self.pool = load(self.given)
        use("fp32")
        self.least = thresholds(images, self.anchors)
        self.wait()
        call = lambda: thresholds(images, self.anchors)
        self.record["thresholds_fp32"] = self.timed(call, 1, len(images))
        few = self.pool[:64].double() @ self.anchors.double().T - self.least.double()
        few = few.clamp(min=0).sum(1)
        some = self.pool[: self.given.check]
        chunk = max(1, (1 << 31) // len(self.anchors) // 4)
        parts = [hinge_sums(rows, self.anchors, self.least) for rows in some.split(chunk)]
        self.wanted = torch.cat(parts)
        off = ((self.wanted[:64] - few).abs().max() / self.wanted.mean()).item()
        self.record["fp32_off_float64"] = off
        self.say(f"data and thresholds; fp32 is off float64 by {off:.1e} of the mean score")
        assert off <= TOLERANCES["fp32"], "fp32 is wrong"

    def right(self, name, precision, found):
        off = ((found - self.wanted).abs().max() / self.wanted.mean()).item()
        count = max(1, len(found) // 100)
        top = lambda scores: set(torch.topk(scores, count).indices.tolist())
        same = len(top(found) & top(self.wanted)) / count
        # Written so that NaN fails.
        if not off <= TOLERANCES[precision]:
            self.record["wrong"].append({"name": name, "off": off})
            self.say(f"{name}: WRONG, off by {off:.1e} of the mean score")
            return None
        return {"off": float(f"{off:.2g}"), "picks": round(same, 3)}

    def precision(self, precision):
        use(precision)
        given, kind = self.given, torch.bfloat16 if precision == "bf16" else torch.float
        pool, anchors = self.pool.to(kind), self.anchors.to(kind)
        # float32 units are slow.
        part, best = pool[: given.slice // (4 if precision == "fp32" else 1)], None
        for form, scores in contestants(given, precision):
            name = f"{precision} {form}"
            if self.late(name):
                continue
            try:
                off = self.right(name, precision, scores(pool[: given.check], anchors, self.least))
                if off is None:
                    continue
                call = lambda: scores(part, anchors, self.least)
                call()
                result = {"name": name, **off, **self.timed(call, 3, len(part))}
            except Exception as error:
                self.record["wrong"].append({"name": name, "failed": f"{error}"[:200]})
                self.say(f"{name}: {type(error).__name__}: {str(error)[:200]}")
                continue
            self.record["trials"].append(result)
            self.say(f"{name}: {result}")
            if best is None or result["seconds"] < best[0]["seconds"]:
                best = result, scores
        if best is None:
            return
        result, scores = best
        if precision == "fp32" or self.late(f"whole pool, {result['name']}"):
            seconds = result["seconds"] * len(pool) / result["items"]
            numbers = {"seconds": round(seconds, 3), "extrapolated": True}
        else:
            select = lambda: torch.topk(scores(pool, anchors, self.least), given.picks)
            numbers = self.timed(select, 2 if precision == "bf16" else 1, len(pool))
        whole = {"name": result["name"], "off": result["off"], "picks": result["picks"], **numbers}
        self.record["whole"].append(whole)
        self.say(f"whole pool, {whole}")

    def run(self):
        with torch.inference_mode():
            self.prepare()
            for precision in self.given.precisions:
                self.precision(precision)
                self.write()
        self.record["seconds"] = round(time.perf_counter() - BEGAN, 1)
        self.write()
        print(self.table())
        print(json.dumps(self.record, separators=(",", ":")))

    def write(self):
        if self.given.out:
            with open(self.given.out, "w") as file:
                json.dump(self.record, file, indent=1)

    def table(self):
        lines = ["", "| whole pool | s | TFLOP/s | off | same picks |", "|---|---:|---:|---:|---:|"]
        for one in self.record["whole"]:
            seconds = f"{one['seconds']:.2f}" + (" (extrapolated)" if "extrapolated" in one else "")
            rest = f"{one.get('tflops', '')} | {one['off']:.0e} | {one['picks']:.3f}"
            lines.append(f"| {one['name']} | {seconds} | {rest} |")
        return "\n".join(lines)


if __name__ == "__main__":
    torch._dynamo.config.recompile_limit = 64
    Bench(options()).run()
