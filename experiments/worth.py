"""What a chosen caption is worth in per-seed results: python experiments/worth.py experiments/results/CSV...

The same as `nextpair report` computes, written a second time, with NumPy: random captions lower the mean log rank along
a line over the logarithm of the paired items, with one slope for all seeds; a strategy is worth as many random captions
as the line needs to get where it got. By both directions, and by each. Intervals are 95 % simultaneous over the
strategies: a jackknife over seeds for the worth, standard errors for the R@1-sum, both times the largest of all t
statistics, drawn with the correlation of the differences.
"""

import csv
import sys

import numpy as np


def read(path):
    rows = list(csv.DictReader(open(path)))
    seeds = sorted({int(row["seed"]) for row in rows})
    last = max(int(row["round"]) for row in rows)
    names = sorted({row["strategy"] for row in rows} - {""})
    at = {(int(row["seed"]), row["strategy"], int(row["round"])): row for row in rows}
    lane = lambda seed, name: [at[seed, "" if r == 0 else name, r] for r in range(last + 1)]
    return seeds, {name: [lane(seed, name) for seed in seeds] for name in names}


def critical(differences):
    """The 95 % point of the largest t statistic."""
    count, seeds = differences.shape
    rho = 0.0
    if count > 1:
        pairs = np.corrcoef(differences)[np.triu_indices(count, 1)]
        rho = max(0.0, pairs.mean() - np.sqrt((1 - pairs.mean() ** 2) / (seeds - 2)) / np.sqrt(len(pairs)))
    draws = np.random.default_rng(1)
    noise = np.sqrt(rho) * draws.normal(size=(20_000, 1, seeds)) + np.sqrt(1 - rho) * draws.normal(size=(20_000, count, seeds))
    t = noise.mean(2) / (noise.std(2, ddof=1) / np.sqrt(seeds))
    return np.quantile(np.abs(t).max(1), 0.95)


def worth(lanes, random, values, half):
    """The worth of captions, with its interval; `half` is the critical value."""
    number = lambda lane: np.array([[float(row["paired"]) for row in seed] for seed in lane])
    own, base = values(lanes), np.mean([values(lane) for lane in random], 0)
    difference = own[:, -1] - base[:, -1]
    points = [(np.concatenate([number(lane)[s][(at > 0):] for at, lane in enumerate(random)]),
               np.concatenate([values(lane)[s][(at > 0):] for at, lane in enumerate(random)])) for s in range(len(lanes))]

    def growth(keep):
        products = squares = 0.0
        for s in keep:
            x = np.log(points[s][0]) - np.log(points[s][0]).mean()
            products, squares = products + x @ points[s][1], squares + x @ x
        return difference[keep].mean() / (products / squares)

    every = np.arange(len(lanes))
    left = np.array([growth(np.delete(every, s)) for s in every])
    error = np.sqrt(((left - left.mean()) ** 2).sum() * (len(left) - 1) / len(left))
    start, end = number(lanes)[:, 0].mean(), number(lanes)[:, -1].mean()
    captions = lambda g: (end * np.exp(g) - start) / (end - start)
    g = growth(every)
    return [captions(g + side * half * error) for side in (0, -1, 1)], difference


def main(paths):
    ranks = lambda names: lambda lanes: np.array([[np.mean([float(row[n]) for n in names]) for row in s] for s in lanes])
    measures = {"both": ranks(["text_log_rank", "image_log_rank"]), "image": ranks(["image_log_rank"]), "text": ranks(["text_log_rank"])}
    r1 = lambda lanes: np.array([sum(float(row["text_r1"]) + float(row["image_r1"]) for row in s) for s in lanes])
    for path in paths:
        seeds, arms = read(path)
        random = [arms[name] for name in arms if name.startswith("random")]
        others = [name for name in arms if not name.startswith("random")]
        print(f"{path}: {len(seeds)} seeds, against the mean of {len(random)} random strategies")
        table = {name: [] for name in others}
        for values in measures.values():
            base = np.mean([values(lane)[:, -1] for lane in random], 0)
            half = critical(np.array([values(arms[name])[:, -1] - base for name in others]))
            for name in others:
                (mean, low, high), _ = worth(arms[name], random, values, half)
                table[name].append(f"{mean:.2f} [{low:.2f}, {high:.2f}]")
        base = np.mean([r1(lane) for lane in random], 0)
        half = critical(np.array([r1(arms[name]) - base for name in others]))
        for name in others:
            less = r1(arms[name]) - base
            error = half * less.std(ddof=1) / np.sqrt(len(seeds))
            table[name].append(f"{less.mean():+.1f} [{less.mean() - error:+.1f}, {less.mean() + error:+.1f}]")
        print(f"  {'':20} {'worth, both':20} {'worth, image':20} {'worth, text':20} R@1-sum less random")
        for name, cells in table.items():
            print(f"  {name:20} " + " ".join(f"{cell:20}" for cell in cells))


main(sys.argv[1:])
