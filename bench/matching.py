"""Text-IMRAM in PyTorch, written from its definition: the rivals of `bench train` and `bench score`.

    python matching.py serve FILE THREADS      answers requests on standard input, see below
    python matching.py check ORACLE...         both rivals against oracle files and each other

Two rivals compute the same numbers.

published    As the method was published and is run: a loop over the captions, each against all
             images of the batch at once; attended vectors; both linear layers on the
             concatenation of query and attended vector, in the last matching step too, whose
             result nothing reads; loss and gradients of every pair by autograd. What the
             published code loses by accident is not repeated: a caption is broadcast over the
             images, not copied, and nothing is computed that is only returned.
rearranged   The fewest operations that are exact. The layers are applied to regions and words
             once (tables), norms of attended vectors come from Gram matrices, there is no last
             update, all pairs are scored without gradients, and only the at most 3B pairs that
             the loss depends on are computed again with gradients (autograd). Captions of equal
             length are computed together: no padding, no masks.

FILE is a safetensors file. Its metadata has "config", JSON with embed_size, vocab_size, word_dim,
img_dim, iteration_step (the number of matching steps), lambda_softmax, margin, no_IMRAM_norm
(true: queries are not normalised) and, for training, lr and grad_clip. Its tensors are float32,
in.captions and in.lengths int64.

    train   in.images [B, R, F]; in.captions [B, longest], words with both markers, 0 after the
            end; in.lengths [B]; the parameters param.img_fc.{weight, bias}, param.embed.weight,
            param.gru.{weight, bias}_{ih, hh}_l0[_reverse], param.mem_t2i.{linear, gate}.{weight,
            bias}. Pair i is image i and caption i.
    score   in.image_emb [N, R, d] and in.caption_emb [M, longest, d], rows of length one;
            in.lengths [M]; param.mem_t2i.*

It says {"versions": ...} and then speaks JSON lines, one answer for a request:

    {"run": "step", "rival": NAME}     one training step from the encoders to Adam, on parameters
                                       of the rival's own: {"seconds", "loss", "grad_norm"}
    {"run": "reset"}                   back to the parameters of the file, fresh Adam: {}
    {"run": "score", "rival": NAME, "out": PATH}
                                       all similarities, written to PATH as an N x M .npy file
                                       (unless null) after the clock stopped: {"seconds"}

An optional "tile": [IMAGES, CAPTIONS] is how many of each `rearranged` scores at a time.
"""

import importlib.metadata
import json
import platform
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

EPS = 1e-8


def l2(rows, dim=-1):
    return rows / (rows.norm(dim=dim, keepdim=True) + EPS)


def leaky(scores):
    return F.leaky_relu(scores, 0.1)


class Memory(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.linear, self.gate = nn.Linear(2 * d, d), nn.Linear(2 * d, d)

    def forward(self, query, attended):
        both = torch.cat([query, attended], -1)
        gate = torch.sigmoid(self.gate(both))
        return gate * query + (1 - gate) * torch.tanh(self.linear(both))


class TextImram(nn.Module):
    """Encoders and memory; parameters have the names of the file."""

    def __init__(self, config):
        super().__init__()
        d = config["embed_size"]
        self.img_fc = nn.Linear(config["img_dim"], d)
        self.embed = nn.Embedding(config["vocab_size"], config["word_dim"])
        self.gru = nn.GRU(config["word_dim"], d, batch_first=True, bidirectional=True)
        self.mem_t2i = Memory(d)

    def encode(self, images, captions, lengths):
        """Regions [B, R, d] and words [B, longest, d], rows of length one."""
        packed = pack_padded_sequence(self.embed(captions), lengths, True, enforce_sorted=False)
        forward, backward = pad_packed_sequence(self.gru(packed)[0], True)[0].chunk(2, -1)
        return l2(self.img_fc(images)), l2((forward + backward) / 2)


def max_violation(positives, over_captions, over_images, margin):
    """The loss from the diagonal and the hardest negative of each image and of each caption."""
    hinges = [(margin + hardest - positives).clamp(min=0) for hardest in (over_captions, over_images)]
    return hinges[0].sum() + hinges[1].sum()


def negatives(scores):
    """The scores without those of the pairs themselves."""
    return scores.masked_fill(torch.eye(len(scores), dtype=torch.bool), -torch.inf)


class Published:
    def __init__(self, config, memory):
        self.config, self.memory = config, memory

    def scores(self, regions, words, lengths):
        columns = [
            self.column(regions, rows[:length])
            for rows, length in zip(words.unbind(), lengths.tolist())
        ]
        return torch.stack(columns, 1)

    def column(self, regions, words):
        """One caption against all images."""
        query, score = words.expand(len(regions), -1, -1), 0
        for _ in range(self.config["iteration_step"]):
            weights = l2(leaky(query @ regions.mT), 1)  # over the words, for every region
            attended = torch.softmax(weights * self.config["lambda_softmax"], -1) @ regions
            score = score + F.cosine_similarity(words, attended, -1, EPS).mean(-1)
            query = self.memory(query, attended)
            if not self.config["no_IMRAM_norm"]:
                query = l2(query)
        return score

    def loss(self, regions, words, lengths):
        scores = self.scores(regions, words, lengths)
        wrong = negatives(scores)
        return max_violation(scores.diagonal(), wrong.amax(1), wrong.amax(0), self.config["margin"])


class Rearranged:
    """Tables: regions through the half of both layers that sees attended vectors, P [N, R, 2d];
    words through the half that sees queries, with the biases, T [M, longest, 2d]; Gram matrices
    of the regions, G [N, R, R]."""

    def __init__(self, config, memory, tile=None):
        self.config, self.memory, self.tile = config, memory, tile or [32, 4]

    def layers(self):
        weight = torch.cat([self.memory.linear.weight, self.memory.gate.weight])
        query, attended = weight.chunk(2, 1)
        return query, attended, torch.cat([self.memory.linear.bias, self.memory.gate.bias])

    def tables(self, regions, words):
        query, attended, bias = self.layers()
        return regions @ attended.mT, F.linear(words, query, bias), regions @ regions.mT

    def groups(self, lengths):
        """Captions by length."""
        for length in lengths.unique().tolist():
            yield length, (lengths == length).nonzero().flatten()

    @torch.no_grad()
    def scores(self, regions, words, lengths, tables=None):
        projected, words_projected, grams = tables or self.tables(regions, words)
        images, captions = self.tile
        scores = regions.new_empty(len(regions), len(words))
        for length, group in self.groups(lengths):
            for chosen in group.split(captions):
                e, t = words[chosen, :length], words_projected[chosen, :length]
                for at in range(0, len(regions), images):
                    of = slice(at, at + images)
                    scores[of, chosen] = self.tile_scores(regions[of], projected[of], grams[of], e, t)
        return scores

    def tile_scores(self, regions, projected, grams, words, words_projected):
        images, (captions, length, d) = len(regions), words.shape
        steps, sharpness = self.config["iteration_step"], self.config["lambda_softmax"]
        query_layer, _, bias = self.layers()
        words, words_projected = words.reshape(-1, d), words_projected.reshape(-1, 2 * d)
        norms = words.norm(dim=-1)
        raw = first = torch.matmul(words, regions.mT)
        total = 0
        for step in range(steps):
            by_word = leaky(raw).view(images, captions, length, -1)
            scale = sharpness / (by_word.norm(dim=2, keepdim=True) + EPS)
            weights = torch.softmax(by_word.mul_(scale), -1).view(raw.shape)
            squares = (torch.bmm(weights, grams).mul_(weights)).sum(-1)
            attended_norms = squares.clamp_(min=0).sqrt_()
            total = total + (weights * first).sum(-1) / (norms * attended_norms).clamp_(min=EPS)
            if step + 1 == steps:
                break
            if step == 0:
                old = words
                layers = torch.baddbmm(words_projected, weights, projected)
            else:
                old = query
                layers = F.linear(query, query_layer, bias).baddbmm_(weights, projected)
            candidate, gate = layers[..., :d].tanh_(), layers[..., d:].sigmoid_()
            query = torch.lerp(candidate, old, gate)
            if not self.config["no_IMRAM_norm"]:
                query = l2(query)
            raw = torch.bmm(query, regions.mT)
        return total.view(images, captions, length).mean(-1)

    def pair_scores(self, regions, projected, grams, words, words_projected):
        """Pairs of one image and one caption each, with gradients."""
        steps, sharpness = self.config["iteration_step"], self.config["lambda_softmax"]
        query_layer, _, bias = self.layers()
        d = words.shape[-1]
        norms = words.norm(dim=-1)
        raw = first = torch.bmm(words, regions.mT)
        total, old, layers = 0, words, words_projected
        for step in range(steps):
            weights = torch.softmax(l2(leaky(raw), 1) * sharpness, -1)
            squares = (torch.bmm(weights, grams) * weights).sum(-1)
            # The square of the cosine's own floor, where the root has a slope.
            attended_norms = squares.clamp(min=EPS * EPS).sqrt()
            total = total + (weights * first).sum(-1) / (norms * attended_norms).clamp(min=EPS)
            if step + 1 == steps:
                break
            if step > 0:
                layers = F.linear(old, query_layer, bias)
            layers = torch.baddbmm(layers, weights, projected)
            candidate, gate = layers[..., :d].tanh(), layers[..., d:].sigmoid()
            old = torch.lerp(candidate, old, gate)
            if not self.config["no_IMRAM_norm"]:
                old = l2(old)
            raw = torch.bmm(old, regions.mT)
        return total.mean(-1)

    def loss(self, regions, words, lengths):
        tables = self.tables(regions, words)
        projected, words_projected, grams = tables
        wrong = negatives(self.scores(regions, words, lengths, tables))
        # Every image with its own caption, with its hardest one, and every caption with its
        # hardest image.
        own = torch.arange(len(regions))
        images = torch.cat([own, own, wrong.argmax(0)])
        captions = torch.cat([own, wrong.argmax(1), own])
        scores = regions.new_empty(len(images))
        for length, group in self.groups(lengths[captions]):
            i, c = images[group], captions[group]
            scores = scores.index_put(
                (group,),
                self.pair_scores(
                    regions[i], projected[i], grams[i], words[c, :length], words_projected[c, :length]
                ),
            )
        return max_violation(*scores.chunk(3), self.config["margin"])


RIVALS = {"published": Published, "rearranged": Rearranged}


class Training:
    def __init__(self, rival, config, parameters):
        self.model = TextImram(config)
        self.model.load_state_dict(parameters)
        self.rival, self.config = RIVALS[rival](config, self.model.mem_t2i), config
        self.optimizer = torch.optim.Adam(self.model.parameters(), config.get("lr", 2e-4))

    def gradients(self, images, captions, lengths):
        self.optimizer.zero_grad()
        loss = self.rival.loss(*self.model.encode(images, captions, lengths), lengths)
        loss.backward()
        return loss

    def step(self, images, captions, lengths):
        loss = self.gradients(images, captions, lengths)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.get("grad_clip", 2.0))
        self.optimizer.step()
        return {"loss": loss.item(), "grad_norm": norm.item()}
