"""Text-IMRAM in PyTorch, written from its definition, computed in two ways with the same results.

published    As the method was published and is run: a loop over the captions, each against all
             images of the batch at once; attended vectors; both linear layers on the
             concatenation of query and attended vector, in the last matching step too, whose
             result nothing reads; loss and gradients of every pair by autograd. What the
             published code loses by accident is not repeated: a caption is broadcast over the
             images, not copied, and nothing is computed only to be returned.
rearranged   The fewest operations that are exact. Regions and words go through the layers once
             (tables), norms of attended vectors come from Gram matrices, there is no last update,
             all pairs are scored without gradients in tiles that fit the caches, and only the at
             most 3B pairs that the loss depends on are computed again, with autograd. Captions of
             equal length are computed together: no padding, no masks.

`config` has embed_size (d), img_dim (F), vocab_size, word_dim, iteration_step (the number of
matching steps), lambda_softmax, margin, no_IMRAM_norm (true: queries are not normalised) and, for
training, lr and grad_clip.

Tried and left out, by the processor time of one thread: torch.compile of a tile through the C++
compiler (a tenth slower), other malloc thresholds (the same), all pairs as one tile (a third
slower), oneDNN's linear layer through a private operator (1 to 4 % of scoring).
"""

import torch
import torch.nn.functional as F
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


def negatives(scores):
    """The scores without those of the pairs themselves."""
    return scores.masked_fill(
        torch.eye(len(scores), dtype=torch.bool, device=scores.device), -torch.inf
    )


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
        wrong, own = negatives(scores), scores.diagonal()
        hinges = [self.config["margin"] + wrong.amax(axis) - own for axis in (0, 1)]
        return sum(hinge.clamp(min=0).sum() for hinge in hinges)


class Rearranged:
    """`tile`: how many images and how many captions are scored at a time."""

    def __init__(self, config, memory, tile=(8, 8)):
        self.config, self.memory, self.tile = config, memory, tile

    def layers(self):
        """Both layers as one: what applies to a query, to an attended vector, and the biases."""
        weight = torch.cat([self.memory.linear.weight, self.memory.gate.weight])
        query, attended = weight.chunk(2, 1)
        return query, attended, torch.cat([self.memory.linear.bias, self.memory.gate.bias])

    def tables(self, regions, words):
        """Regions through the half of both layers that sees attended vectors [N, R, 2d]; words
        through the half that sees queries, with the biases [M, longest, 2d]; Gram matrices of the
        regions [N, R, R]."""
        query, attended, bias = self.layers()
        return regions @ attended.mT, F.linear(words, query, bias), regions @ regions.mT

    def groups(self, lengths):
        """Captions by length."""
        for length in lengths.unique().tolist():
            yield length, (lengths == length).nonzero().flatten()

    @torch.no_grad()
    def scores(self, regions, words, lengths, tables=None):
        projected, words_projected, grams = tables or self.tables(regions, words)
        # tanh(x) = 2 sigmoid(2x) - 1, and PyTorch's sigmoid is ten times as fast as its tanh: the
        # layer under the tanh is doubled.
        doubled = torch.ones(2 * words.shape[-1])
        doubled[: words.shape[-1]] = 2
        query_layer, _, bias = self.layers()
        self.query_layer, self.bias = query_layer * doubled[:, None], bias * doubled
        projected, words_projected = projected * doubled, words_projected * doubled
        images, captions = self.tile
        scores = regions.new_empty(len(regions), len(words))
        for length, group in self.groups(lengths):
            for chosen in group.split(captions):
                e, t = words[chosen, :length], words_projected[chosen, :length]
                for at in range(0, len(regions), images):
                    of = slice(at, at + images)
                    images_of = regions[of], projected[of], grams[of]
                    scores[of, chosen] = self.tile_scores(*images_of, e, t)
        return scores

    def tile_scores(self, regions, projected, grams, words, words_projected):
        images, (captions, length, d) = len(regions), words.shape
        steps, sharpness = self.config["iteration_step"], self.config["lambda_softmax"]
        words, words_projected = words.reshape(-1, d), words_projected.reshape(-1, 2 * d)
        norms = words.norm(dim=-1)
        raw = first = torch.matmul(words, regions.mT)
        total, query = 0, words
        for step in range(steps):
            by_word = leaky(raw).view(images, captions, length, -1)
            scale = by_word.square().sum(2, keepdim=True).sqrt_().add_(EPS).reciprocal_()
            weights = torch.softmax(by_word.mul_(scale.mul_(sharpness)), -1).view(raw.shape)
            squares = torch.bmm(weights, grams).mul_(weights).sum(-1)
            attended_norms = squares.clamp_(min=0).sqrt_()
            total = total + (weights * first).sum(-1) / (norms * attended_norms).clamp_(min=EPS)
            if step + 1 == steps:
                break
            if step == 0:
                layers = torch.baddbmm(words_projected, weights, projected)
            else:
                layers = F.linear(query, self.query_layer, self.bias)
                layers = layers.baddbmm_(weights, projected)
            candidate, gate = layers.sigmoid_().chunk(2, -1)
            query = torch.lerp(candidate.mul_(2).sub_(1), query, gate)
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
        scores, margin = self.scores(regions, words, lengths, tables), self.config["margin"]
        wrong, own = negatives(scores), torch.arange(len(scores))
        # Every image with its hardest caption and every caption with its hardest image, each
        # beside the right pair it is compared with.
        negative = torch.cat([own * len(own) + wrong.argmax(1), wrong.argmax(0) * len(own) + own])
        positive = torch.cat([own, own]) * (len(own) + 1)
        active = margin + scores.flatten()[negative] - scores.flatten()[positive] >= 0
        pairs, place = torch.cat([negative[active], positive[active]]).unique(return_inverse=True)
        if len(pairs) == 0:
            return regions.sum() * 0
        images, captions = pairs // len(own), pairs % len(own)
        again = regions.new_empty(len(pairs))
        for length, group in self.groups(lengths[captions]):
            i, c = images[group], captions[group]
            e, t = words[c, :length], words_projected[c, :length]
            found = self.pair_scores(regions[i], projected[i], grams[i], e, t)
            again = again.index_put((group,), found)
        negative, positive = again[place].chunk(2)
        return (margin + negative - positive).clamp(min=0).sum()


RIVALS = {"published": Published, "rearranged": Rearranged}


class Training:
    def __init__(self, rival, config, parameters):
        self.model, self.parameters = TextImram(config), parameters
        if parameters:
            self.model.load_state_dict(parameters)
        self.rival, self.config = RIVALS[rival](config, self.model.mem_t2i), config
        # Fused is PyTorch's fastest Adam on a CPU; both rivals have it.
        parameters = self.model.parameters()
        self.optimizer = torch.optim.Adam(parameters, config.get("lr", 2e-4), fused=True)

    def reset(self):
        """Back to the beginning, in the memory that is there."""
        self.model.load_state_dict(self.parameters)
        for state in self.optimizer.state.values():
            for value in state.values():
                value.zero_()

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
