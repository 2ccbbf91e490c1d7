"""Text-IMRAM in PyTorch for a GPU: the rivals of `gpu.py`, all with the same results.

published   The published formulation of imram.py: a loop over the captions, gradients of all pairs.
dense       The rearranged one (tables, Gram norms, no last update; see imram.py), compiled, with
            gradients of all pairs.
sparse      The same; all pairs are scored without gradients, and only the 3B pairs that the loss
            depends on are computed again, with gradients. Always all 3B, also where a hinge is
            inactive: their number would have to come to the host.

What differs from imram.py, whose loops over lengths are for a processor:

* The words of all captions are the rows of one matrix, without padding, in the order in which the
  GRU reads them: first the first words of all captions, longest caption first, then the second
  ones, and so on. So all products are as large as they can be. What goes by caption (the norms over
  words, the mean over words) gathers padded rows with a mask, inside fused kernels.
* The 3B pairs are padded to the longest caption.
* Everything but the GRU is one compiled graph, forward and backward: linear layer of the images,
  normalisation, tables, scores, choice of negatives, loss. Nothing in a step waits for the device.
* Regions are padded with zeros to a multiple of 8, which the products of the matrix units like.
* With bf16, queries between products are bf16 and everything that goes by region is float32.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from imram import EPS, Published, TextImram, l2, leaky
from torch import nn
from torch.nn.utils.rnn import PackedSequence

ALIGN = 8
# Below it, a sum of squares is padding, where the root has no slope.
TINY = 1e-30


class Layout(NamedTuple):
    """Where the words of the captions are among the rows."""

    lengths: torch.Tensor  # [C], on the host
    sizes: torch.Tensor  # [longest], on the host: how many captions have a word there
    owner: torch.Tensor  # [W]: the caption of a row
    position: torch.Tensor  # [W]: the place of a row in its caption
    place: torch.Tensor  # [C, longest]: the row of a word; after the end, of the first word
    mask: torch.Tensor  # [C, longest]: true for words
    counts: torch.Tensor  # [C]: words of a caption


def layout(lengths, device):
    """`lengths` on the host, longest first."""
    assert (lengths.diff() <= 0).all(), "captions must be sorted, longest first"
    captions, positions = torch.arange(len(lengths)), torch.arange(int(lengths[0]))
    mask = positions < lengths[:, None]
    sizes = mask.sum(0)
    place = torch.where(mask, captions[:, None] + (sizes.cumsum(0) - sizes), captions[:, None])
    position, owner = mask.T.nonzero(as_tuple=True)
    counts = lengths.to(torch.get_default_dtype())
    parts = owner, position, place, mask, counts
    return Layout(lengths, sizes, *(each.to(device) for each in parts))


class Sum(torch.autograd.Function):
    """Rows [N, W, ...] added up by caption [N, C, ...]. This and the next two gather in both
    directions, where autograd would add with atomics."""

    @staticmethod
    def forward(ctx, rows, owner, place, mask):
        ctx.save_for_backward(owner)
        return torch.where(mask[..., None], rows[:, place], 0).sum(2)

    @staticmethod
    def backward(ctx, gradient):
        (owner,) = ctx.saved_tensors
        return gradient[:, owner], None, None, None


class Spread(torch.autograd.Function):
    """What captions have [N, C, ...], for every row of theirs [N, W, ...]."""

    @staticmethod
    def forward(ctx, values, owner, place, mask):
        ctx.save_for_backward(place, mask)
        return values[:, owner]

    @staticmethod
    def backward(ctx, gradient):
        place, mask = ctx.saved_tensors
        return torch.where(mask[..., None], gradient[:, place], 0).sum(2), None, None, None


class Pad(torch.autograd.Function):
    """Rows [W, d] by caption [C, longest, d]. Nothing may depend on what is after the end."""

    @staticmethod
    def forward(ctx, rows, owner, position, place):
        ctx.save_for_backward(owner, position)
        return rows[place]

    @staticmethod
    def backward(ctx, gradient):
        return gradient[ctx.saved_tensors], None, None, None


def wide(values):
    """Half precision as float32."""
    return values.float() if values.dtype in (torch.bfloat16, torch.half) else values


def layers(memory):
    """Both layers as one: what applies to a query, to an attended vector, and the biases."""
    query, attended = torch.cat([memory.linear.weight, memory.gate.weight]).chunk(2, 1)
    return query, attended, torch.cat([memory.linear.bias, memory.gate.bias])


def tables(memory, regions, words):
    """Regions and words through the layers, and the Gram matrices of the regions."""
    query, attended, bias = layers(memory)
    projected = F.linear(regions, attended)
    return projected, F.linear(words, query, bias), torch.matmul(regions, regions.mT)


def padded(regions):
    return F.pad(regions, (0, 0, 0, -regions.shape[1] % ALIGN))


def cosines(config, memory, count, regions, words, tables, scale):
    """The cosines of words and attended vectors, summed over the steps. Either all words with all
    images, words [W, d], [N, W] cosines; or words [N, longest, d] with an image each, [N, longest].
    `scale` says what a word's scores [..., R] are multiplied by; all regions but the first `count`
    are padding."""
    projected, words_projected, grams = tables
    query_layer, _, bias = layers(memory)
    norms, steps = words.norm(dim=-1), config["iteration_step"]
    real = torch.arange(regions.shape[1], device=regions.device) < count
    every = words if words.dim() == 3 else words.expand(len(regions), -1, -1)
    raw = first = wide(torch.bmm(every, regions.mT))
    total, query = 0, words
    for step in range(steps):
        by_word = leaky(raw)
        sharp = by_word * (config["lambda_softmax"] * scale(by_word))
        weights = torch.softmax(torch.where(real, sharp, -torch.inf), -1)
        squares = (wide(torch.bmm(weights, grams)) * weights).sum(-1)
        # The square of the cosine's own floor, where the root has a slope.
        attended_norms = squares.clamp(min=EPS * EPS).sqrt()
        total = total + (weights * first).sum(-1) / (norms * attended_norms).clamp(min=EPS)
        if step + 1 == steps:
            return total
        of_query = words_projected if step == 0 else F.linear(query, query_layer, bias)
        both = torch.bmm(weights, projected)
        candidate, gate = (wide(both) + wide(of_query)).chunk(2, -1)
        gate = torch.sigmoid(gate)
        query = gate * wide(query) + (1 - gate) * torch.tanh(candidate)
        if not config["no_IMRAM_norm"]:
            query = l2(query)
        query = query.to(both.dtype)
        raw = wide(torch.bmm(query, regions.mT))


def all_pairs(config, memory, count, regions, words, tables, text):
    """Similarities of all images and captions [N, C]."""
    where = text.owner, text.place, text.mask

    def scale(by_word):
        norms = Sum.apply(by_word.square(), *where).clamp(min=TINY).sqrt()
        return Spread.apply(1 / (norms + EPS), *where)

    found = cosines(config, memory, count, regions, words, tables, scale)
    return Sum.apply(found[..., None], *where)[..., 0] / text.counts


def score(config, memory, regions, words, text):
    """A tile from embeddings, tables included."""
    count, regions = regions.shape[1], padded(regions)
    of = tables(memory, regions, words)
    return all_pairs(config, memory, count, regions, words, of, text)


def hardest(scores):
    """Every image's hardest caption and every caption's hardest image."""
    wrong = scores.detach().masked_fill(
        torch.eye(len(scores), dtype=torch.bool, device=scores.device), -torch.inf
    )
    return wrong.argmax(1), wrong.argmax(0)


def hinges(margin, own, by_image, by_caption):
    return sum((margin + wrong - own).clamp(min=0).sum() for wrong in (by_image, by_caption))


def dense_hinges(margin, scores, captions, images):
    by_image, by_caption = scores.gather(1, captions[:, None]), scores.gather(0, images[None])
    return hinges(margin, scores.diagonal(), by_image.flatten(), by_caption.flatten())


def encoded(model, images, states):
    """Regions and words of length one, from features and from the states of the GRU [W, 2d]."""
    forward, backward = states.chunk(2, -1)
    return padded(l2(wide(model.img_fc(images)))), l2((forward + backward) / 2)


def dense(config, model, images, states, text):
    """The loss and all similarities."""
    regions, words = encoded(model, images, states)
    of = tables(model.mem_t2i, regions, words)
    scores = all_pairs(config, model.mem_t2i, images.shape[1], regions, words, of, text)
    return dense_hinges(config["margin"], scores, *hardest(scores)), scores.detach()


def sparse(config, model, images, states, text):
    regions, words = encoded(model, images, states)
    memory, count = model.mem_t2i, images.shape[1]
    projected, words_projected, grams = of = tables(memory, regions, words)
    with torch.no_grad():
        apart = [each.detach() for each in of]
        scores = all_pairs(config, memory, count, regions.detach(), words.detach(), apart, text)
        captions, images = hardest(scores)
    # The pairs themselves, every image with its hardest caption, every caption with its hardest
    # image. Gathered as float32, so that gradients are added up as float32.
    of_image = lambda rows: torch.cat([wide(rows), wide(rows), wide(rows)[images]])
    of_caption = lambda rows: torch.cat([rows, rows[captions], rows])
    where = text.owner, text.position, text.place
    of_word = lambda rows: of_caption(Pad.apply(wide(rows), *where))
    mask = of_caption(text.mask)[..., None]

    def scale(by_word):
        squares = torch.where(mask, by_word.square(), 0).sum(1, keepdim=True)
        return 1 / (squares.clamp(min=TINY).sqrt() + EPS)

    pairs = of_image(projected), of_word(words_projected), of_image(grams)
    found = cosines(config, memory, count, of_image(regions), of_word(words), pairs, scale)
    again = torch.where(mask[..., 0], found, 0).sum(-1) / of_caption(text.counts)
    return hinges(config["margin"], *again.chunk(3)), scores


COMPILED = {"dense": dense, "sparse": sparse}
FORMS = ["published", *COMPILED]


class Step:
    """A training step on one batch that is on the device.

    `compiled`: arguments of torch.compile, or None. `half_gru`: whether autocast reaches the GRU
    (cuDNN's half precision) or it stays at float32."""

    def __init__(self, form, config, parameters, batch, autocast, compiled=None):
        device = batch["images"].device
        self.form, self.config, self.batch = form, config, batch
        self.model = TextImram(config).to(device)
        self.model.load_state_dict(parameters)
        self.text = layout(batch["lengths"], device)
        even = bool((self.text.lengths == self.text.lengths[0]).all())
        captions = batch["captions"].T
        # Captions of one length need no packing.
        self.ids = captions if even else captions[self.text.mask.T]
        self.sizes = None if even else self.text.sizes
        self.autocast, self.half_gru = autocast, False
        self.forward = self.published if form == "published" else COMPILED[form]
        if compiled is not None and form != "published":
            self.forward = torch.compile(self.forward, **compiled)
        learning = config.get("lr", 2e-4)
        weights, capturable = self.model.parameters(), device.type == "cuda"
        self.optimizer = torch.optim.Adam(weights, learning, fused=True, capturable=capturable)

    def states(self):
        """What the GRU says of every word [W, 2d], as float32."""
        gru, words = self.model.gru, self.model.embed(self.ids)
        gru.batch_first = False
        with self.autocast(self.half_gru):
            if self.sizes is None:
                return wide(gru(words)[0].flatten(0, 1))
            return wide(gru(PackedSequence(words, self.sizes))[0].data)

    def published(self, config, model, batch):
        model.gru.batch_first = True
        given = [batch[name] for name in ("images", "captions", "lengths")]
        with self.autocast(self.half_gru):
            regions, words = model.encode(*given)
        scores = Published(config, model.mem_t2i).scores(regions, words, batch["lengths"])
        return dense_hinges(config["margin"], scores, *hardest(scores)), scores

    def loss(self):
        """The loss and all similarities."""
        if self.form == "published":
            with self.autocast(True):
                return self.forward(self.config, self.model, self.batch)
        states = self.states()
        with self.autocast(True):
            return self.forward(self.config, self.model, self.batch["images"], states, self.text)

    def gradients(self):
        self.optimizer.zero_grad()
        loss, scores = self.loss()
        loss.backward()
        return loss.detach(), scores.detach()

    def __call__(self):
        loss, _ = self.gradients()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.config.get("grad_clip", 2.0))
        self.optimizer.step()
        return loss
