"""The rivals of `bench train` and `bench score`: Text-IMRAM in PyTorch, see imram.py.

    python matching.py serve FILE THREADS     answers requests on standard input
    python matching.py check ORACLE...        both rivals against oracle files and each other

FILE is a safetensors file like those of the oracle. Its metadata has "config", JSON as imram.py
says. Its tensors are float32, in.captions and in.lengths int64:

    train   in.images [B, R, F]; in.captions [B, longest], words with both markers, 0 after the
            end; in.lengths [B]; the parameters param.img_fc.{weight, bias}, param.embed.weight,
            param.gru.{weight, bias}_{ih, hh}_l0[_reverse], param.mem_t2i.{linear, gate}.{weight,
            bias}; param.mem_i2t.* is not read. Pair i is image i and caption i.
    score   in.image_emb [N, R, d] and in.caption_emb [M, longest, d], rows of length one;
            in.lengths [M]; param.mem_t2i.*

It says {"versions": ...} and then speaks JSON lines, one answer for a request:

    {"run": "step", "rival": NAME, "tile": [IMAGES, CAPTIONS]}
        One training step from the encoders to Adam, on parameters of the rival's own, which go on
        from step to step: {"seconds": ..., "loss": ..., "grad_norm": ...}, the norm before
        clipping.
    {"run": "reset", "rival": NAME}
        Back to the parameters of the file and to an Adam that has seen nothing: {}
    {"run": "score", "rival": NAME, "tile": [IMAGES, CAPTIONS], "out": PATH}
        All similarities from the embeddings, tables included: {"seconds": ...}. Then, unless PATH
        is null, they are written there: N x M, .npy.

`tile` matters to `rearranged` alone.
"""

import importlib.metadata
import json
import platform
import sys
import time

import numpy as np
import torch
from imram import RIVALS, Memory, Training
from safetensors import safe_open

RANDOM = {"img_dim": 512, "embed_size": 256, "vocab_size": 1000, "word_dim": 300, "margin": 0.2}
RANDOM |= {"lambda_softmax": 9.0, "iteration_step": 3, "no_IMRAM_norm": True}


def load(path):
    """The tensors by group ("in", "param", ...) and name, and the configuration. The memory of
    images that read captions is left out: Text-IMRAM has no use for it."""
    groups = {}
    with safe_open(path, "pt") as file:
        for key in (key for key in file.keys() if "mem_i2t" not in key):
            group, name = key.split(".", 1)
            groups.setdefault(group, {})[name] = file.get_tensor(key)
        return groups, json.loads(file.metadata()["config"])


class Work:
    """What the file asks for, and the rivals at it."""

    def __init__(self, path):
        groups, self.config = load(path)
        self.given, self.parameters, self.trainings = groups["in"], groups["param"], {}

    def training(self, rival):
        if rival not in self.trainings:
            self.trainings[rival] = Training(rival, self.config, self.parameters)
        return self.trainings[rival]

    def step(self, rival, tile):
        training = self.training(rival)
        training.rival.tile = tile
        began = time.perf_counter()
        said = training.step(*(self.given[name] for name in ("images", "captions", "lengths")))
        return {"seconds": time.perf_counter() - began, **said}

    @torch.inference_mode()
    def score(self, rival, tile, out):
        memory = Memory(self.config["embed_size"])
        names = {f"mem_t2i.{name}": name for name in memory.state_dict()}
        memory.load_state_dict({short: self.parameters[name] for name, short in names.items()})
        rival = RIVALS[rival](self.config, memory)
        rival.tile = tile
        given = [self.given[name] for name in ("image_emb", "caption_emb", "lengths")]
        began = time.perf_counter()
        scores = rival.scores(*given)
        seconds = time.perf_counter() - began
        if out is not None:
            np.save(out, scores.numpy())
        return {"seconds": seconds}

    def answer(self, run, rival, tile=(8, 8), out=None):
        if run == "reset":
            self.training(rival).reset()
            return {}
        return self.step(rival, tile) if run == "step" else self.score(rival, tile, out)


def serve(path, threads):
    torch.set_num_threads(int(threads))
    work = Work(path)
    packages = ("numpy", "safetensors", "torch")
    versions = {package: importlib.metadata.version(package) for package in packages}
    say({"versions": {"python": platform.python_version(), **versions}})
    for line in sys.stdin:
        try:
            say(work.answer(**json.loads(line)))
        except Exception as error:
            say({"error": f"{type(error).__name__}: {error}"})


def say(message):
    print(json.dumps(message), flush=True)


def results(rival, config, parameters, images, captions, lengths, block):
    """All similarities, and loss and gradients of the first `block` images and captions."""
    training = Training(rival, config, parameters)
    with torch.no_grad():
        scores = training.rival.scores(*training.model.encode(images, captions, lengths), lengths)
    loss = training.gradients(images[:block], captions[:block], lengths[:block]).item()
    return scores, loss, {name: p.grad for name, p in training.model.named_parameters()}


def compare(name, found, wanted):
    """Similarities to 2e-6, the loss to 1e-5 and every parameter's gradient to 1e-4, relative."""
    scores = (found[0] - wanted[0]).abs().max().item()
    loss = abs(found[1] - wanted[1]) / abs(wanted[1])
    zeros = [key for key, grad in found[2].items() if grad is None and key not in wanted[2]]
    distance = lambda key: ((found[2][key] - wanted[2][key]).norm() / wanted[2][key].norm()).item()
    gradient = max((distance(key) for key in wanted[2]), default=0.0)
    assert not wanted[2] or wanted[2].keys() | set(zeros) == found[2].keys(), "other parameters"
    print(f"{name}: similarities {scores:.1e}, loss {loss:.1e}, gradients {gradient:.1e}")
    assert scores < 2e-6 and loss < 1e-5 and gradient < 1e-4, "other answers"


def check_oracle(path):
    groups, config = load(path)
    usual = config["raw_feature_norm"] == "clipped_l2norm" and not config["no_imgnorm"]
    if not usual or "img_fc.weight" not in groups["param"] or config["model_mode"] != "text_IMRAM":
        print(f"{path}: left out, not a case of the bench")
        return
    parameters = groups["param"]
    given = [groups["in"][name] for name in ("images", "captions", "lengths")]
    for rival in RIVALS:
        name, wanted = f"{path}, {rival}", groups["out"]
        if "losses" in wanted:
            compare_steps(name, Training(rival, config, parameters), given, wanted)
        else:
            wanted = wanted["sims"], wanted["loss_max"].item(), groups.get("grad_max", {})
            compare(name, results(rival, config, parameters, *given, config["loss_block"]), wanted)


def compare_steps(name, training, given, wanted):
    """Losses and norms of the gradients, step by step, to 1e-4."""
    said = [training.step(*given) for _ in wanted["losses"]]
    found = torch.tensor([[one["loss"], one["grad_norm"]] for one in said], dtype=torch.double)
    wanted = torch.stack([wanted["losses"], wanted["grad_norms_before_clip"]], 1)
    off = ((found - wanted).abs() / wanted).max().item()
    print(f"{name}: {len(said)} steps, losses and norms {off:.1e}")
    assert off < 1e-4, "other answers"


def check_random():
    """The rivals with each other on captions of many lengths."""
    torch.manual_seed(1)
    batch, longest = 32, 20
    parameters = Training("published", RANDOM, None).model.state_dict()
    images = torch.randn(batch, 36, RANDOM["img_dim"]).clamp(min=0)
    lengths = torch.randint(2, longest + 1, (batch,))
    captions = torch.randint(4, RANDOM["vocab_size"], (batch, longest))
    captions[torch.arange(longest) >= lengths[:, None]] = 0
    both = [
        results(rival, RANDOM, parameters, images, captions, lengths, batch) for rival in RIVALS
    ]
    compare("random, published and rearranged", *both)


if __name__ == "__main__":
    task, *rest = sys.argv[1:]
    if task == "serve":
        serve(*rest)
    else:
        for path in rest:
            check_oracle(path)
        check_random()
