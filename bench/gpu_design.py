"""V-optimal design on a GPU, ours and PyTorch's in one run: python gpu_design.py NEXTPAIR FOLDER

    [--pool 1000000] [--paired 10000] [--dim 512] [--picks 1000] [--repeats 3] [--device cuda] [--no-cpu]

Makes data in FOLDER: z ~ N(0, diag(1/i)), rotated. Both know the directions before the clock starts: of nextpair, the time of
one pick is subtracted from that of four times `--picks` and one more, and the rest divided by four, since reading the files takes
longer than the picks; PyTorch has the pool on the device in single precision, and its
loop (a product with two vectors and an update a pick) is captured as a CUDA graph where there is one.

Answers first: nextpair's picks on the GPU are compared with those on the CPU, byte by byte, and PyTorch's with ours.
"""

import argparse
import json
import os
import statistics
import subprocess
import time

import numpy as np
import torch


def options():
    parser = argparse.ArgumentParser(description="See the top of the script.")
    add = parser.add_argument
    add("nextpair")
    add("folder")
    add("--pool", type=int, default=1_000_000)
    add("--paired", type=int, default=10_000)
    add("--dim", type=int, default=512)
    add("--picks", type=int, default=1000)
    add("--repeats", type=int, default=3)
    add("--device", default="cuda")
    add("--no-cpu", action="store_true", help="do not compare with the CPU")
    return parser.parse_args()


def make(given):
    draws = torch.Generator(given.device).manual_seed(1)
    normal = lambda *shape: torch.randn(*shape, generator=draws, device=given.device)
    rotation = torch.linalg.qr(normal(given.dim, given.dim))[0]
    scale = torch.arange(1, given.dim + 1, device=given.device) ** -0.5
    os.makedirs(given.folder, exist_ok=True)
    for name, rows in [("pool", given.pool), ("paired", given.paired)]:
        np.save(f"{given.folder}/{name}.npy", ((normal(rows, given.dim) * scale) @ rotation).cpu().numpy())


def ours(given, device, picks):
    """The seconds of a selection, and what it wrote."""
    out = f"{given.folder}/{device}-{picks}.jsonl"
    words = ["select", "--paired-images", "paired.npy", "--paired-texts", "paired.npy", "--pool", "pool.npy", "--pool-side", "image"]
    words += ["--strategy", "v-optimal", "--budget", str(picks), "--device", device, "--out", out, "--json"]
    done = subprocess.run([os.path.abspath(given.nextpair), *words], cwd=given.folder, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)["seconds"], open(out, "rb").read()


def unit(rows, mean):
    rows = rows - mean
    return rows / rows.norm(dim=1, keepdim=True)


class Rival:
    """Greedy V-optimal design in PyTorch: directions in single precision, small matrices in double precision."""

    def __init__(self, given):
        load = lambda name: torch.from_numpy(np.load(f"{given.folder}/{name}.npy")).to(given.device)
        pool, paired = load("pool"), load("paired")
        mean = torch.cat([pool, paired]).double().mean(0).float()
        self.pool, paired = unit(pool, mean), unit(paired, mean)
        square = lambda rows: sum((block.double().T @ block.double()) for block in rows.split(1 << 17))
        known, count = square(paired), len(self.pool) + len(paired)
        self.targets = (square(self.pool) + known) / count
        self.inverse = torch.linalg.inv(torch.eye(given.dim, device=given.device, dtype=torch.float64) + known)
        state = lambda matrix: torch.cat([((x.double() @ matrix) * x.double()).sum(1) for x in self.pool.split(1 << 17)])
        self.a, self.b = state(self.inverse).float(), state(self.inverse @ self.targets @ self.inverse).float()
        self.left = torch.zeros(len(self.pool), device=given.device)
        self.item = torch.zeros(1, dtype=torch.long, device=given.device)

    def pick(self):
        self.item.copy_(((self.b.clamp(min=0) / (1 + self.a)) + self.left).argmax().view(1))
        self.left.index_fill_(0, self.item, -torch.inf)
        x = self.pool[self.item][0].double()
        u = self.inverse @ x
        weighted = self.targets @ u
        h, k, s = self.inverse @ weighted, u @ weighted, 1 / (1 + x @ u)
        c, e = (self.pool @ torch.stack([u, h], 1).float()).T
        k, single = k.float(), s.float()
        self.a.sub_(single * c * c)
        self.b.add_(single * single * k * c * c - 2 * single * c * e)
        self.inverse.sub_(s * torch.outer(u, u))

    def run(self, picks):
        pick = self.pick
        if self.pool.is_cuda:
            kept = [tensor.clone() for tensor in (self.a, self.b, self.left, self.inverse)]
            beside = torch.cuda.Stream()
            beside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(beside):
                self.pick()
            torch.cuda.current_stream().wait_stream(beside)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.pick()
            for tensor, before in zip((self.a, self.b, self.left, self.inverse), kept):
                tensor.copy_(before)
            pick = graph.replay
            torch.cuda.synchronize()
        began, items = time.perf_counter(), []
        for _ in range(picks):
            pick()
            items.append(self.item.clone())
        items = torch.cat(items).tolist()
        return time.perf_counter() - began, items


def reading(given):
    """Bytes a second that a sum over as many numbers reads."""
    numbers, seconds = torch.ones(given.pool * given.dim, device=given.device), []
    for _ in range(10):
        began = time.perf_counter()
        float(numbers.sum())
        seconds.append(time.perf_counter() - began)
    return 4 * len(numbers) / min(seconds)


def main():
    given = options()
    given.folder = os.path.abspath(given.folder)
    make(given)
    print(f"{given.pool} x {given.dim}, {given.paired} paired, {given.picks} picks on {given.device}")
    times = {"nextpair": [], "whole": [], "PyTorch": []}
    ours(given, given.device, 1)
    for repeat in range(given.repeats):
        one, _ = ours(given, given.device, 1)
        times["nextpair"].append((ours(given, given.device, 4 * given.picks + 1)[0] - one) / 4)
        whole, found = ours(given, given.device, given.picks)
        times["whole"].append(whole)
        if repeat == 0 and not given.no_cpu:
            seconds, here = ours(given, "cpu", given.picks)
            assert here == found, "the CPU's picks have other bytes"
            print(f"the same bytes as on the CPU, which took {seconds:.2f} s")
        seconds, items = Rival(given).run(given.picks)
        times["PyTorch"].append(seconds)
        if repeat == 0:
            picked = [json.loads(line)["index"] for line in found.splitlines()]
            same = len(set(picked) & set(items))
            print(f"PyTorch, in single precision, has {same} of the same {given.picks} picks")
            assert same >= 0.9 * given.picks, "PyTorch computes something else"
    for name, seconds in times.items():
        print(f"{name:<9} {statistics.median(seconds):8.3f} s ({min(seconds):.3f}..{max(seconds):.3f})")
    moved = given.pool * given.dim * 4 * given.picks
    ours_moves, all_moves = moved / statistics.median(times["nextpair"]) / 1e12, reading(given) / 1e12
    print(f"nextpair reads {ours_moves:.2f} TB/s of directions, {100 * ours_moves / all_moves:.0f} % of the {all_moves:.2f} TB/s of a sum")


main()
