"""A training step of the models that the paper cites, against their published formulation in PyTorch.

    python bench/cited.py CONTESTANT [--models sgr,saf,naaf,camp] [--batch N] [--threads N] [--rounds N]

CONTESTANT is `target/release/examples/contestant` (`cargo build --release -p nextpair-models --example
contestant`). Each model is written here from its definition, as it was published and is run: captions one
after the other against all images of the batch (CAMP: all pairs at once, captions padded to 50 words), and
gradients of every pair by autograd. What releases lose by accident is not repeated: a caption is broadcast
over the images, not copied.

Both sides get the same weights and the same batch, with dropout off. Answers come first: the losses of
three steps and the norm of the first gradients have to agree. Then steps are timed in turns.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

EPS = 1e-8
FEATURES, REGIONS, WORDS, VOCABULARY, DIM, WORD_DIM = 2048, 36, 14, 8481, 1024, 300


def l2(rows, dim=-1):
    return rows / (rows.norm(dim=dim, keepdim=True) + EPS)


def xavier(layer):
    nn.init.xavier_uniform_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


class Encoders(nn.Module):
    """Regions and words; parameters have the names of the file."""

    norm = True

    def __init__(self):
        super().__init__()
        self.img_fc = xavier(nn.Linear(FEATURES, DIM))
        self.embed = nn.Embedding(VOCABULARY, WORD_DIM)
        nn.init.uniform_(self.embed.weight, -0.1, 0.1)
        self.gru = nn.GRU(WORD_DIM, DIM, batch_first=True, bidirectional=True)

    def encode(self, images, captions, lengths, total=None):
        packed = pack_padded_sequence(self.embed(captions), lengths, True, enforce_sorted=False)
        states = pad_packed_sequence(self.gru(packed)[0], True, total_length=total)[0]
        forward, backward = states.chunk(2, -1)
        regions, words = self.img_fc(images), (forward + backward) / 2
        return (l2(regions), l2(words)) if self.norm else (regions, words)

    def loss(self, scores):
        own = scores.diag()
        wrong = ~torch.eye(len(scores), dtype=torch.bool)
        by_image = (0.2 + scores - own[:, None]).clamp(min=0) * wrong
        by_text = (0.2 + scores - own[None, :]).clamp(min=0) * wrong
        return by_image.max(1).values.sum() + by_text.max(0).values.sum()


class Global(nn.Module):
    """An image or a caption as a whole."""

    def __init__(self, norms):
        super().__init__()
        self.local, self.common = xavier(nn.Linear(DIM, DIM)), xavier(nn.Linear(DIM, 1))
        setattr(self, "global", xavier(nn.Linear(DIM, DIM)))
        self.norms = norms
        if norms:
            self.local_bn, self.global_bn = nn.BatchNorm1d(REGIONS), nn.BatchNorm1d(DIM)

    def forward(self, rows):
        local, whole = self.local(rows), getattr(self, "global")(rows.mean(1))
        if self.norms:
            local, whole = self.local_bn(local), self.global_bn(whole)
        weights = self.common(torch.tanh(local) * torch.tanh(whole)[:, None]).softmax(1)
        return l2((weights * rows).sum(1))


class GraphStep(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.query, self.key, self.graph = (xavier(nn.Linear(size, size)) for _ in range(3))

    def forward(self, nodes):
        edges = torch.bmm(self.query(nodes), self.key(nodes).transpose(1, 2)).softmax(-1)
        return F.relu(self.graph(torch.bmm(edges, nodes)))


class Filter(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.attn, self.bn = xavier(nn.Linear(size, 1)), nn.BatchNorm1d(1)

    def forward(self, nodes):
        shares = torch.sigmoid(self.bn(self.attn(nodes).transpose(1, 2)))
        shares = shares / (shares.sum(-1, keepdim=True) + EPS)
        return l2(torch.bmm(shares, nodes).squeeze(1))


class Sgraf(Encoders):
    def __init__(self, module):
        super().__init__()
        size, self.module = 256, module
        self.config = {"family": "SGRAF", "module_name": module, "sgr_step": 3, "sim_dim": size}
        self.config["num_region"] = REGIONS
        self.v_sa, self.t_sa = Global(True), Global(False)
        self.sim_loc, self.sim_glo = xavier(nn.Linear(DIM, size)), xavier(nn.Linear(DIM, size))
        self.sim_eval = xavier(nn.Linear(size, 1))
        if module == "SGR":
            self.sgr = nn.ModuleList(GraphStep(size) for _ in range(3))
        else:
            self.saf = Filter(size)

    def scores(self, images, captions, lengths):
        regions, words = self.encode(images, captions, lengths)
        of_images, columns = self.v_sa(regions), []
        for caption, length in zip(words, lengths):
            own = caption[None, :length]
            of_text = self.t_sa(own)
            raw = F.leaky_relu(torch.matmul(regions, own[0].T), 0.1)
            weights = (9 * l2(raw, 2)).transpose(1, 2).softmax(-1)
            local = l2(self.sim_loc((l2(torch.bmm(weights, regions)) - own) ** 2))
            whole = l2(self.sim_glo((of_images - of_text) ** 2))
            nodes = torch.cat([whole[:, None], local], 1)
            if self.module == "SGR":
                for step in self.sgr:
                    nodes = step(nodes)
                vector = nodes[:, 0]
            else:
                vector = self.saf(nodes)
            columns.append(torch.sigmoid(self.sim_eval(vector)))
        return torch.cat(columns, 1)


class Naaf(Encoders):
    def __init__(self):
        super().__init__()
        self.config = {"family": "NAAF", "lambda_softmax": 20.0, "alpha": 2.0}
        self.config |= {"thres_before": 0.0, "thres_safe_before": 0.0}
        self.threshold = self.safe = 0.0

    def moved(self, above, below):
        (m, s), (n, t) = ((x.mean(), x.std()) for x in (torch.cat(above), torch.cat(below)))
        a, b = s**2 - t**2, 2 * (m * t**2 - n * s**2)
        c = (n * s) ** 2 - (m * t) ** 2 + 2 * (s * t) ** 2 * torch.log(t / (2 * s) + 1e-8)
        root = b**2 - 4 * a * c
        new, safe = self.threshold, self.safe
        if root > 0:
            new, safe = ((-b + root.sqrt()) / (2 * a + 1e-10)).item(), (m - 3 * s).item()
        new, safe = (x if 0 <= x <= 1 else 0.0 for x in (new, safe))
        self.threshold, self.safe = 0.7 * new + 0.3 * self.threshold, 0.7 * safe + 0.3 * self.safe

    def scores(self, images, captions, lengths):
        regions, words = self.encode(images, captions, lengths)
        columns, above, below, count = [], [], [], 0
        for at, (caption, length) in enumerate(zip(words, lengths)):
            own = caption[:length]
            raw = torch.matmul(own, regions.transpose(1, 2))
            over = raw - self.threshold
            top = over.max(-1).values
            weights = torch.exp(20 * over.masked_fill(over <= 0, -1e9))
            weights = weights / (weights.sum(-1, keepdim=True) + EPS)
            seen = torch.bmm(weights, regions)
            focused = (own * seen).sum(-1) / seen.norm(dim=-1).clamp(min=EPS)
            regular = (20 * l2(F.leaky_relu(raw, 0.1), 1)).softmax(-1)
            parts = top * (top < 0) + focused + (regular * raw).sum(-1)
            column = parts.mean(1)
            columns.append(column[:, None])
            if column.argmax() == at:
                largest = raw.detach().max(-1).values
                above.append(largest[at])
                below.append(largest[column.argmin()])
                count += int(length)
                if count > 200:
                    self.moved(above, below)
            if count < 200:
                self.threshold = self.safe = 0.0
        return torch.cat(columns, 1)


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2 = nn.Linear(DIM, DIM), nn.Linear(DIM, 4)

    def forward(self, rows, mask=None):
        logits = self.l2(F.relu(self.l1(rows))).transpose(-1, -2)
        if mask is not None:
            logits = logits.masked_fill(~mask[:, None], -1e9)
        return torch.matmul(logits.softmax(-1), rows).mean(-2)


class Camp(Encoders):
    norm = False

    def __init__(self):
        super().__init__()
        self.config = {"family": "CAMP", "measure": "gate_fusion_new", "heads": 4, "pad_to": 50}
        for side in ["img", "txt"]:
            for name in [f"{side}_key", f"{side}_query", f"msg_{side}_key", f"msg_{side}_query"]:
                setattr(self, name, nn.Linear(DIM, DIM, bias=False))
            setattr(self, f"fuse_{side}", xavier(nn.Linear(2 * DIM, DIM, bias=False)))
            setattr(self, f"pool_{side}", Pool())
        self.score1, self.score2 = xavier(nn.Linear(2 * DIM, DIM)), xavier(nn.Linear(DIM, 1))

    def attend(self, queries, keys, values, mask=None):
        logits = torch.matmul(queries, keys.transpose(-1, -2)) / DIM**0.5
        if mask is not None:
            logits = logits.masked_fill(~mask[:, None], -1e9)
        return torch.matmul(logits.softmax(-1), values)

    def scores(self, images, captions, lengths):
        regions, words = self.encode(images, captions, lengths, 50)
        mask = torch.arange(50)[None] < torch.as_tensor(lengths)[:, None]
        size = (len(regions), len(words))
        across = lambda rows: rows[:, None].expand(*size, -1, -1)
        down = lambda rows: rows[None].expand(*size, -1, -1)
        v, e = across(regions), down(words)
        to_words = self.attend(down(self.txt_query(words)), across(self.img_key(regions)), v)
        to_regions = self.attend(
            across(self.img_query(regions)), down(self.txt_key(words)), e, mask
        )
        to_regions = l2(
            self.attend(self.msg_txt_query(to_regions), self.msg_txt_key(to_regions), to_regions)
        )
        to_words = l2(
            self.attend(self.msg_img_query(to_words), self.msg_img_key(to_words), to_words, mask)
        )
        gate = torch.sigmoid((v * to_regions).sum(-1, keepdim=True))
        of_image = F.relu(self.fuse_img(torch.cat([v, to_regions], -1) * gate)) + v
        gate = torch.sigmoid((e * to_words).sum(-1, keepdim=True))
        of_text = F.relu(self.fuse_txt(torch.cat([e, to_words], -1) * gate)) + e
        both = [l2(self.pool_img(of_image)), l2(self.pool_txt(of_text, mask))]
        hidden = F.relu(self.score1(torch.cat(both, -1)))
        return torch.sigmoid(self.score2(hidden)).squeeze(-1)

    def loss(self, scores):
        scores = scores.clamp(1e-6, 1 - 1e-6)
        wrong = torch.log(1 - scores).masked_fill(torch.eye(len(scores), dtype=torch.bool), 0.0)
        right = torch.log(scores).diag().sum()
        return -(2 * right + wrong.min(1).values.sum() + wrong.min(0).values.sum())


MODELS = {
    "sgr": (lambda: Sgraf("SGR"), 64),
    "saf": (lambda: Sgraf("SAF"), 64),
    "naaf": (Naaf, 128),
    "camp": (Camp, 16),
}


class Rival:
    """Adam with clipped gradients, as all of them were trained here."""

    def __init__(self, model, batch, rate):
        self.model, self.batch = model, batch
        self.adam = torch.optim.Adam(model.parameters(), rate)

    def step(self):
        start = time.perf_counter()
        self.adam.zero_grad()
        loss = self.model.loss(self.model.scores(*self.batch))
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 2.0)
        self.adam.step()
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "loss": loss.item(), "grad_norm": norm.item()}


class Ours:
    def __init__(self, program, file, threads):
        self.process = subprocess.Popen(
            [program, "serve", file, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.process.stdout.readline()

    def step(self):
        self.process.stdin.write('{"run": "step"}\n')
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def batch_of(size):
    generator = torch.Generator().manual_seed(7)
    lengths = torch.randint(WORDS - 5, WORDS + 6, (size,), generator=generator)
    lengths = lengths.sort(descending=True).values
    captions = torch.randint(4, VOCABULARY, (size, int(lengths[0])), generator=generator)
    captions *= torch.arange(captions.shape[1])[None] < lengths[:, None]
    images = torch.randn(size, REGIONS, FEATURES, generator=generator).abs() * 0.5
    return images, captions, lengths


def stored(model, batch, rate, file):
    """Weights, buffers and batch, as the contestant reads them."""
    images, captions, lengths = batch
    tensors = {f"param.{name}": weight.detach() for name, weight in model.named_parameters()}
    for name, buffer in model.named_buffers():
        if "running" in name:
            tensors[f"buffer.{name}"] = buffer
    tensors |= {"in.images": images, "in.captions": captions, "in.lengths": lengths}
    config = {
        "img_dim": FEATURES,
        "embed_size": DIM,
        "word_dim": WORD_DIM,
        "vocab_size": VOCABULARY,
        "margin": 0.2,
        "grad_clip": 2.0,
        "lr": rate,
    } | model.config
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(tensors, file, {"config": json.dumps(config)})


def measure(name, arguments):
    make, size = MODELS[name]
    torch.manual_seed(1)
    batch, model = batch_of(arguments.batch or size), make()
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "step.safetensors")
        stored(model, batch, 2e-4, file)
        ours, rival = Ours(arguments.contestant, file, arguments.threads), Rival(model, batch, 2e-4)
        times = [], []
        for number in range(arguments.rounds):
            found = [side.step() for side in ([ours, rival] if number % 2 else [rival, ours])]
            (mine, other) = found if number % 2 else reversed(found)
            if number < 3:
                # Adam takes whole steps along rounding errors, so later gradients drift apart.
                keys = ["loss", "grad_norm"] if number == 0 else ["loss"]
                for key in keys:
                    off = abs(mine[key] - other[key]) / abs(other[key])
                    assert off < 1e-3, (name, number, key, mine[key], other[key])
            times[0].append(mine["seconds"])
            times[1].append(other["seconds"])
        ours.end()
    (mine, other) = map(statistics.median, times)
    ratios = sorted(b / a for a, b in zip(*times))
    return {
        "model": name,
        "batch": len(batch[2]),
        "nextpair": round(mine, 3),
        "torch": round(other, 3),
        "ratio": round(other / mine, 2),
        "ratios": [round(ratios[0], 2), round(ratios[-1], 2)],
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("contestant")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--batch", type=int)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(json.dumps({"torch": torch.__version__, "threads": arguments.threads}))
    for name in arguments.models.split(","):
        print(json.dumps(measure(name, arguments)), flush=True)


if __name__ == "__main__":
    main()
