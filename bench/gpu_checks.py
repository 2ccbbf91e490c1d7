"""Precisions of `gpu.py`, and how its rivals are compared with the published form in fp32."""

import contextlib

import torch
from imram_gpu import dense_hinges, hardest

# Of similarities, absolute; of the loss and of the gradient of every parameter, relative.
TOLERANCES = {
    "fp64": (1e-11, 1e-11, 1e-8),
    "fp32": (1e-5, 1e-5, 2e-4),
    "tf32": (2e-3, 5e-3, 5e-2),
    "bf16": (1e-2, 2e-2, 3e-1),
}


def use(precision):
    """Sets PyTorch's switches for products of float32."""
    torch.backends.cuda.matmul.allow_tf32 = precision in ("tf32", "bf16")
    torch.backends.cudnn.allow_tf32 = precision in ("tf32", "bf16")


def autocast(precision, device):
    """A function from whether to cast to the context to compute in."""
    if precision != "bf16":
        return lambda cast: contextlib.nullcontext()
    return lambda cast: torch.autocast(device, torch.bfloat16, enabled=cast)


class Reference:
    """Similarities of the published form in fp32, and gradients for any choice of negatives."""

    def __init__(self, step):
        self.step, self.margin = step, step.config["margin"]
        _, self.scores = step.loss()
        self.hardest = self.of(hardest(self.scores))

    def of(self, choice):
        captions, images = choice
        own = torch.arange(len(captions), device=captions.device)
        return self.scores.detach()[torch.cat([own, images]), torch.cat([captions, own])]

    def compare(self, step, precision):
        """How far a step is off."""
        use(precision)
        loss, scores = step.gradients()
        choice = hardest(scores)
        wanted = dense_hinges(self.margin, self.scores, *choice)
        use("fp32")
        names, weights = zip(*self.step.model.named_parameters())
        gradients = torch.autograd.grad(wanted, weights, retain_graph=True)
        use(precision)
        found = dict(step.model.named_parameters())
        off = [
            ((found[name].grad - gradient).norm() / gradient.norm()).item()
            for name, gradient in zip(names, gradients)
        ]
        return {
            "similarity": (scores - self.scores.detach()).abs().max().item(),
            "loss": abs(loss.item() / wanted.item() - 1),
            "choice": (self.hardest - self.of(choice)).max().item(),
            "gradient": max(off) if all(value == value for value in off) else float("nan"),
        }


def mine(parameters):
    """Without the memory of images that read captions: Text-IMRAM has no use for it."""
    return {name: values for name, values in parameters.items() if "mem_i2t" not in name}
