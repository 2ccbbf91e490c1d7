"""A training step of VSE-infinity, VSRN and PVSE against their published formulation in PyTorch.

    python bench/cited_dual.py CONTESTANT [--models vse-infinity,vsrn,pvse] [--batch N] [--rounds N]

As `cited.py`, whose measure it is: the same weights and the same batch on both sides, losses and norms of
gradients first, then steps in turns. Each model does what its release does: weights of ranks for every
image and caption anew, all 59 steps of the decoder with both parts of its attention, products of all heads.
"""

import cited
import torch
import torch.nn.functional as F
from cited import FEATURES, REGIONS, VOCABULARY, WORD_DIM, l2, xavier
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def hinges(scores, margin):
    own, wrong = scores.diag(), ~torch.eye(len(scores), dtype=torch.bool)
    by_image = (margin + scores - own[:, None]).clamp(min=0) * wrong
    by_text = (margin + scores - own[None, :]).clamp(min=0) * wrong
    return by_image.max(1).values, by_text.max(0).values


def packed(unit, rows, lengths):
    return pack_padded_sequence(rows, lengths, True, enforce_sorted=False)


def table():
    embed = nn.Embedding(VOCABULARY, WORD_DIM)
    nn.init.uniform_(embed.weight, -0.1, 0.1)
    return embed


class Gpo(nn.Module):
    """Weights of ranks from their codes, then a sort of every dimension."""

    def __init__(self, size=32):
        super().__init__()
        self.size, self.gru = size, nn.GRU(size, size, batch_first=True, bidirectional=True)
        self.linear = nn.Linear(size, 1, bias=False)

    def forward(self, rows, lengths):
        longest = int(lengths.max())
        rank = torch.arange(longest).float()[:, None]
        angle = rank * 10000 ** (-torch.arange(0, self.size, 2).float() / self.size)
        code = torch.stack([angle.sin(), angle.cos()], -1).reshape(longest, self.size)
        code = code.expand(len(rows), -1, -1)
        states = pad_packed_sequence(self.gru(packed(self.gru, code, lengths))[0], True)[0]
        forward, backward = states.chunk(2, -1)
        valid = torch.arange(longest)[None, :, None] < lengths[:, None, None]
        scores = self.linear((forward + backward) / 2).masked_fill(~valid, -10000)
        weights = torch.softmax(scores / 0.1, 1)
        order = rows[:, :longest].masked_fill(~valid, -10000).sort(1, descending=True)[0]
        return (order.masked_fill(~valid, 0) * weights).sum(1)


class Perceptron(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.add_module("0", nn.Linear(FEATURES, dim // 2))
        self.add_module("1", nn.Linear(dim // 2, dim))
        self.bn0, self.bn1 = nn.BatchNorm1d(dim // 2), nn.BatchNorm1d(dim)

    def forward(self, images):
        rows = getattr(self, "0")(images.flatten(0, 1))
        return getattr(self, "1")(F.relu(self.bn0(rows))).view(*images.shape[:2], -1)


class VseInfinity(nn.Module):
    def __init__(self, dim=1024):
        super().__init__()
        self.config = {"family": "VSE_INF", "gpo_dims": [32, 32]}
        self.img_fc, self.img_mlp = xavier(nn.Linear(FEATURES, dim)), Perceptron(dim)
        self.img_gpo, self.txt_gpo = Gpo(), Gpo()
        self.embed, self.gru = table(), nn.GRU(WORD_DIM, dim, batch_first=True, bidirectional=True)

    def scores(self, images, captions, lengths):
        counts = torch.full((len(images),), images.shape[1])
        of_images = l2(self.img_gpo(self.img_fc(images) + self.img_mlp(images), counts))
        words = packed(self.gru, self.embed(captions), lengths)
        forward, backward = pad_packed_sequence(self.gru(words)[0], True)[0].chunk(2, -1)
        return of_images @ l2(self.txt_gpo((forward + backward) / 2, lengths)).T

    def loss(self, scores):
        return sum(part.sum() for part in hinges(scores, 0.2))


class GraphLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.g, self.theta, self.phi, self.out = (nn.Linear(dim, dim) for _ in range(4))
        self.bn = nn.BatchNorm1d(dim)
        # Not zeros as at first, which would leave the layer out.
        nn.init.constant_(self.bn.weight, 0.1)

    def forward(self, rows):
        affinity = self.theta(rows) @ self.phi(rows).mT / rows.shape[1]
        taken = self.out(affinity @ self.g(rows))
        return self.bn(taken.flatten(0, 1)).view_as(rows) + rows


class CaptionEncoder(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc, self.gru = nn.Linear(dim, hidden), nn.GRU(hidden, hidden, batch_first=True)


class CaptionDecoder(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WORD_DIM)
        self.att1 = nn.Linear(2 * hidden, hidden)
        self.att2 = nn.Linear(hidden, 1, bias=False)
        self.gru = nn.GRU(WORD_DIM + hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, VOCABULARY)


class Vsrn(nn.Module):
    """With the loss of written captions."""

    def __init__(self, dim=2048, hidden=512, longest=60):
        super().__init__()
        self.config = {"family": "VSRN", "data_name": "coco_precomp", "embed_size": dim}
        self.config |= {"caption_loss": True, "dim_hidden": hidden, "dim_word": WORD_DIM}
        self.config |= {"max_len": longest, "input_dropout": 0.0}
        self.longest = longest
        self.img_fc = xavier(nn.Linear(FEATURES, dim))
        self.gcn = nn.ModuleList(GraphLayer(dim) for _ in range(4))
        self.img_gru = nn.GRU(dim, dim, batch_first=True)
        self.embed, self.gru = table(), nn.GRU(WORD_DIM, dim, batch_first=True)
        self.cap_enc, self.cap_dec = CaptionEncoder(dim, hidden), CaptionDecoder(hidden)

    def scores(self, images, captions, lengths):
        rows = self.img_fc(images)
        rows = rows / rows.norm(dim=1, keepdim=True)
        for layer in self.gcn:
            rows = layer(rows)
        rows = rows / rows.norm(dim=1, keepdim=True)
        of_images = self.img_gru(rows)[1][0]
        of_images = of_images / of_images.norm(dim=1, keepdim=True)
        texts = self.gru(packed(self.gru, self.embed(captions), lengths))[1][0]
        self.written = self.caption_loss(rows, captions, lengths)
        return of_images @ (texts / texts.norm(dim=1, keepdim=True)).T

    def caption_loss(self, rows, captions, lengths):
        outputs, state = self.cap_enc.gru(self.cap_enc.fc(rows))
        labels = F.pad(captions, (0, self.longest + 1 - captions.shape[1]))
        mask = torch.arange(self.longest + 1)[None] <= lengths[:, None]
        losses = 0
        for step in range(self.longest - 1):
            asked = state[0][:, None].expand(-1, rows.shape[1], -1)
            scores = self.cap_dec.att2(torch.tanh(self.cap_dec.att1(torch.cat([outputs, asked], -1))))
            seen = (torch.softmax(scores, 1) * outputs).sum(1)
            inputs = torch.cat([self.cap_dec.embed(labels[:, step]), seen], -1)
            state = self.cap_dec.gru(inputs[:, None], state)[1]
            words = F.log_softmax(self.cap_dec.out(state[0]), -1)
            found = words.gather(1, labels[:, step + 1, None])[:, 0]
            losses = losses - (found * mask[:, step + 1]).sum()
        return losses / len(rows)

    def loss(self, scores):
        return sum(part.sum() for part in hinges(scores, 0.2)) + self.written


class Pie(nn.Module):
    def __init__(self, features, dim, heads):
        super().__init__()
        self.w1 = xavier(nn.Linear(features, features // 2, bias=False))
        self.w2 = xavier(nn.Linear(features // 2, heads, bias=False))
        self.fc, self.ln = xavier(nn.Linear(features, dim)), nn.LayerNorm(dim)

    def forward(self, whole, rows, padding=None):
        scores = self.w2(torch.tanh(self.w1(rows)))
        if padding is not None:
            scores = scores.masked_fill(padding[..., None], -torch.inf)
        found = torch.sigmoid(self.fc(torch.softmax(scores, 1).mT @ rows))
        out = self.ln(whole[:, None] + found)
        return out / out.norm(dim=-1, keepdim=True), found


class Pvse(nn.Module):
    def __init__(self, dim=1024, heads=2):
        super().__init__()
        self.heads, self.config = heads, {"family": "PVSE", "num_embeds": heads, "margin": 0.1}
        self.config |= {"img_attention": True, "txt_attention": True, "txt_finetune": True}
        self.config |= {"div_weight": 0.1, "mmd_weight": 0.01}
        self.img_fc, self.embed = nn.Linear(FEATURES, dim), table()
        self.gru = nn.GRU(WORD_DIM, dim // 2, batch_first=True, bidirectional=True)
        self.img_pie, self.txt_pie = Pie(FEATURES, dim, heads), Pie(WORD_DIM, dim, heads)

    def scores(self, images, captions, lengths):
        u, image_rest = self.img_pie(self.img_fc(images.mean(1)), images)
        words = self.embed(captions)
        states = self.gru(packed(self.gru, words, lengths))[1]
        padding = torch.arange(captions.shape[1])[None] >= lengths[:, None]
        t, text_rest = self.txt_pie(torch.cat(list(states), -1), words, padding)
        self.rest = 0.1 * (self.alike(image_rest) + self.alike(text_rest))
        self.rest = self.rest + 0.01 * self.apart(u.flatten(0, 1), t.flatten(0, 1))
        products = u.flatten(0, 1) @ t.flatten(0, 1).T
        return F.max_pool2d(products[None], self.heads)[0]

    def alike(self, rows):
        rows = rows / rows.norm(dim=-1, keepdim=True)
        gram = rows @ rows.mT
        gram = gram * (1 - torch.eye(self.heads))
        return (gram.flatten(1).norm(dim=1) / self.heads**2).mean()

    def apart(self, a, b):
        kernel = lambda x, y: torch.exp(-0.5 * torch.cdist(x, y)).mean()
        return kernel(a, a) - 2 * kernel(a, b) + kernel(b, b)

    def loss(self, scores):
        return sum(part.mean() for part in hinges(scores, 0.1)) + self.rest


cited.MODELS = {"vse-infinity": (VseInfinity, 64), "vsrn": (Vsrn, 16), "pvse": (Pvse, 128)}

if __name__ == "__main__":
    cited.main()
