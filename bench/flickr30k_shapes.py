"""A dataset of Flickr30K's shapes, for times of experiments where Flickr30K cannot be had.

    python flickr30k_shapes.py OUT [--train 29000] [--dev 1014] [--test 1000] [--seed 1]

Writes OUT, a `*_precomp` folder as SCAN and IMRAM read them (`nextpair import scan OUT DATASET`): 36 x 2,048 features
of single precision per image and five captions of about twelve words with both markers, of a vocabulary of about 8,000
words. Images have a handful of subjects each; a subject has a direction among the features, which some regions show,
and words of its own, so that there is something to learn. Uses a GPU through PyTorch if there is one.
"""

import argparse
import pathlib

import numpy as np

REGIONS, FEATURES, SUBJECTS, WORDS = 36, 2048, 400, 20


def captions(rng, subjects):
    """Five captions of an image: words of its subjects among common ones."""
    lines = []
    for _ in range(5):
        length = int(np.clip(rng.normal(10, 3), 4, 26))
        own = rng.choice(subjects, length)
        words = [
            f"w{s}x{rng.integers(WORDS)}" if rng.random() < 0.7 else f"c{int(abs(rng.normal(0, 12)))}"
            for s in own
        ]
        lines.append(" ".join(words))
    return lines


def features(seed, subjects, directions):
    try:
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
    except ImportError:
        torch = None
    chosen = subjects[:, np.random.default_rng(seed).integers(0, subjects.shape[1], REGIONS)]
    if torch is None:
        noise = np.random.default_rng(seed).standard_normal((*chosen.shape, FEATURES), np.float32)
        return np.maximum(directions[chosen] + 0.5 * noise, 0)
    torch.manual_seed(seed)
    rows = torch.tensor(directions, device=device)[torch.tensor(chosen, device=device)]
    rows += 0.5 * torch.randn(rows.shape, device=device)
    return rows.clamp_(min=0).cpu().numpy()


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("out", type=pathlib.Path)
    for name, count in [("train", 29_000), ("dev", 1_014), ("test", 1_000), ("seed", 1)]:
        arguments.add_argument(f"--{name}", type=int, default=count)
    args = arguments.parse_args()
    args.out.mkdir(parents=True)
    rng = np.random.default_rng(args.seed)
    directions = rng.standard_normal((SUBJECTS, FEATURES), np.float32)
    for part, (name, count) in enumerate([("train", args.train), ("dev", args.dev), ("test", args.test)]):
        subjects = rng.integers(0, SUBJECTS, (count, 5))
        shape = (count, REGIONS, FEATURES)
        out = np.lib.format.open_memmap(args.out / f"{name}_ims.npy", "w+", np.float32, shape)
        for at in range(0, count, 1000):
            out[at : at + 1000] = features(1000 * part + at, subjects[at : at + 1000], directions)
        out.flush()
        lines = [line for own in subjects for line in captions(rng, own)]
        (args.out / f"{name}_caps.txt").write_text("\n".join(lines) + "\n")
        (args.out / f"{name}_ids.txt").write_text("".join(f"{name}{i}\n" for i in range(count)))


if __name__ == "__main__":
    main()
