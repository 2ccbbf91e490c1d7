"""Inputs of `gpu.py`: generated from a seed, or read from a file in the format of matching.py.

Generated numbers come from SplitMix64, in this order:

    train   in.images, uniform in -1..1 with negative numbers set to 0; the words of the captions
            between the markers 1 and 2; then uniform parameters, scaled as in their usual
            initialisation: img_fc.weight (its bias is 0), embed, the GRU, the memories t2i and i2t
    score   in.image_emb and in.caption_emb, uniform in -1..1, every row divided by its norm; the
            memory t2i

which are the numbers of `xtask/src/bench/matching/input.rs` for captions of its length. Lengths are
all WORDS (`exact`); or (`drawn`) sums of four numbers in 0..WORDS/2 from SplitMix64 of seed + 1, at
least 4, longer or shorter by one from the first caption on until their sum is WORDS * captions: a
mean of 12, a deviation of 4, and as many words in all as `exact` has. Captions are sorted, longest
first, images with them.
"""

import json

import torch
from safetensors import safe_open
from safetensors.torch import save_file


def signed(number):
    return number - (1 << 64) if number >= 1 << 63 else number


STEP, FIRST, SECOND = map(signed, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def shifted(numbers, by):
    """A logical shift to the right."""
    return (numbers >> by) & ((1 << (64 - by)) - 1)


class Numbers:
    """SplitMix64, many at a time."""

    def __init__(self, seed, device):
        self.seed, self.device, self.drawn = seed, device, 0

    def draw(self, count):
        z = torch.arange(self.drawn + 1, self.drawn + count + 1, device=self.device) * STEP
        z, self.drawn = z + self.seed, self.drawn + count
        z = (z ^ shifted(z, 30)) * FIRST
        z = (z ^ shifted(z, 27)) * SECOND
        return z ^ shifted(z, 31)

    def below(self, bound, count):
        z = self.draw(count)
        return (shifted(z, 1) % bound * 2 + (z & 1)) % bound

    def uniform(self, shape, scale=1.0):
        unit = shifted(self.draw(torch.Size(shape).numel()), 40).float() / (1 << 23) - 1
        return (scale * unit).view(shape)

    def memory(self, direction, dim):
        for layer in ("linear", "gate"):
            name, scale = f"mem_{direction}.{layer}", (0.5 / dim) ** 0.5
            yield f"{name}.weight", self.uniform((dim, 2 * dim), scale)
            yield f"{name}.bias", self.uniform((dim,), scale)

    def parameters(self, config):
        dim, features, word = (config[name] for name in ("embed_size", "img_dim", "word_dim"))
        scale = (1 / dim) ** 0.5
        yield "img_fc.weight", self.uniform((dim, features), (6 / (features + dim)) ** 0.5)
        yield "img_fc.bias", torch.zeros(dim, device=self.device)
        yield "embed.weight", self.uniform((config["vocab_size"], word), 0.1)
        for direction in ("", "_reverse"):
            for what, size in (("ih", word), ("hh", dim)):
                weight = f"gru.weight_{what}_l0{direction}"
                yield weight, self.uniform((3 * dim, size), scale)
                yield weight.replace("weight", "bias"), self.uniform((3 * dim,), scale)
        yield from self.memory("t2i", dim)
        yield from self.memory("i2t", dim)


def lengths(kind, words, count, seed):
    """Lengths of captions, longest first, on the host."""
    found = torch.full((count,), words)
    if kind == "drawn":
        parts = Numbers(seed + 1, "cpu").below(words // 2 + 1, 4 * count)
        found = parts.view(count, 4).sum(1).clamp(min=4)
        for at in range(8 * words * count):
            missing = words * count - int(found.sum())
            if missing == 0:
                break
            found[at % count] += 1 if missing > 0 else -int(found[at % count] > 4)
    return found.sort(descending=True).values


def training(config, regions, words, kind, pairs, seed, device):
    numbers, found = Numbers(seed, device), lengths(kind, words, pairs, seed)
    images = numbers.uniform((pairs, regions, config["img_dim"])).clamp(min=0)
    longest, vocabulary = int(found[0]), config["vocab_size"]
    captions = torch.zeros(pairs, longest, dtype=torch.long, device=device)
    inner = 4 + numbers.below(vocabulary - 4, pairs * (longest - 2)).view(pairs, -1)
    captions[:, 0], captions[:, 1:-1] = 1, inner
    place, last = torch.arange(longest, device=device), found.to(device)[:, None] - 1
    captions = captions.masked_fill(place == last, 2).masked_fill(place > last, 0)
    return {"images": images, "captions": captions, "lengths": found}, dict(
        numbers.parameters(config)
    )


def embeddings(config, regions, words, kind, pairs, seed, device):
    numbers, found = Numbers(seed, device), lengths(kind, words, pairs, seed)
    given = {"lengths": found}
    for name, rows in (("image_emb", regions), ("caption_emb", int(found[0]))):
        values = numbers.uniform((pairs, rows, config["embed_size"]))
        given[name] = values / values.norm(dim=-1, keepdim=True)
    return given, dict(numbers.memory("t2i", config["embed_size"]))


def read(path, device):
    """The inputs and parameters of a file, longest caption first, and its configuration."""
    with safe_open(path, "pt") as file:
        config = json.loads(file.metadata()["config"])
        of = lambda group: {
            key.removeprefix(group): file.get_tensor(key)
            for key in file.keys()
            if key.startswith(group)
        }
        given, parameters = of("in."), of("param.")
    order = given["lengths"].sort(descending=True, stable=True).indices
    # The images of a tile are no one's pairs.
    stays = {"image_emb"}
    given = {name: v if name in stays else v[order] for name, v in given.items()}
    longest = int(given["lengths"][0])
    for name in {"captions", "caption_emb"} & given.keys():
        given[name] = given[name][:, :longest]
    moved = lambda tensors: {name: values.to(device) for name, values in tensors.items()}
    return moved(given) | {"lengths": given["lengths"]}, moved(parameters), config


def write(path, given, parameters, config):
    tensors = {f"in.{name}": values for name, values in given.items()}
    tensors |= {f"param.{name}": values for name, values in parameters.items()}
    tensors = {name: values.cpu().contiguous() for name, values in tensors.items()}
    save_file(tensors, path, {"config": json.dumps(config)})
