"""Makes random small networks for the differential test of `embed`, with what ONNX Runtime makes of them.

    python networks.py FOLDER COUNT SEED [CASE...]

Every network is a chain of two or three cases. A case uses one operator, with random sizes, types and
attributes, and cases take turns, so that each operator is used about equally often; of several candidates, the
network is kept that uses most attributes which none before it used. The folder gets
`N.onnx`, and `N.safetensors` with the inputs and the expected output `y`.
"""
import itertools
import json
import logging
import struct
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
OPSETS = list(range(7, 25))
TRIES = 12


class Unfit(Exception):
    """The case has no form for this network: too old an opset, or too few sizes."""


class Net:
    def __init__(self, rng, opset):
        self.rng, self.opset = rng, opset
        self.nodes, self.weights, self.count = [], {}, 0
        self.domains = set()

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def const(self, value, dtype=None):
        """A stored value: an initializer, or now and then a node."""
        value, name = np.asarray(value, dtype), self.name()
        if value.size < 20 and self.rng.random() < 0.2:
            self.nodes.append(helper.make_node("Constant", [], [name], **self.stored(value)))
        else:
            self.weights[name] = value
        return name

    def stored(self, value):
        """The attribute of a Constant: a tensor, or numbers of their own."""
        plain = {"float32": "value_float", "int64": "value_int"}.get(value.dtype.name)
        if plain is None or self.opset < 12 or value.ndim > 1 or not value.size or self.chance():
            return {"value": numpy_helper.from_array(value)}
        return {plain: value.item()} if value.ndim == 0 else {f"{plain}s": value.tolist()}

    def ints(self, *values):
        return self.const(np.array(values, np.int64))

    def floats(self, *shape, scale=1.0):
        return self.const((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def op(self, kind, *inputs, outputs=1, domain="", **attributes):
        names = [self.name() for _ in range(outputs)]
        attributes = {key: value for key, value in attributes.items() if value is not None}
        if domain:
            self.domains.add(domain)
        self.nodes.append(helper.make_node(kind, inputs, names, domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def since(self, opset):
        if self.opset < opset:
            raise Unfit

    def chance(self, share=0.5):
        return self.rng.random() < share

    def pick(self, *values):
        return values[self.rng.integers(len(values))]

    def int(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def axis(self, rank):
        """An axis, counted from the front or from the back."""
        return self.int(-rank, rank - 1)

    def sizes(self, shape):
        """Sizes for a Reshape: stored, or computed from the value itself, with or without a -1."""
        sizes = list(shape)
        if self.chance(0.3):
            sizes[self.int(0, len(sizes) - 1)] = -1
        return self.ints(*sizes)


CASES = []
ONLY = sys.argv[4:]  # names of cases, while one is being looked into


WILD = set()


def case(rank=None, first=False, wild=False):
    """A case for values of a rank; `first`: for the input only, as it turns small differences into large ones;
    `wild`: alone, as it may be refused."""
    def add(function):
        CASES.append((function, rank, first or wild))
        if wild:
            WILD.add(function)
        return function
    return add


def simple(kind, since=7, before=None, first=False, **attributes):
    """An operator of one input that keeps the shape; attributes are drawn, or left out."""
    def run(net, x, shape):
        net.since(since)
        drawn = {key: draw(net) for key, draw in attributes.items() if net.chance()}
        return net.op(kind, net.op("Abs", x) if before == "abs" else before(net, x) if before else x, **drawn), shape
    run.__name__ = kind
    case(first=first)(run)


def near(net, x):
    return net.op("Tanh", x)


def positive(net, x):
    return net.op("Add", net.op("Abs", x), net.const(np.float32(0.5)))


real = lambda low, high: lambda net: float(np.float32(net.rng.uniform(low, high)))

for kind in ["Abs", "Neg", "Relu", "Tanh", "Sigmoid", "Softplus", "Softsign", "Erf", "Sin", "Cos", "Identity", "Atan"]:
    simple(kind, since=9 if kind in ("Erf",) else 7)
for kind in ["Sqrt", "Log", "Reciprocal"]:
    simple(kind, before=positive)
simple("Exp", before=near)
for kind in ["Floor", "Ceil", "Round", "Sign"]:
    simple(kind, since=11 if kind == "Round" else 9 if kind == "Sign" else 7, first=True)
simple("LeakyRelu", alpha=real(0, 1))
simple("Elu", alpha=real(0.1, 2))
simple("HardSigmoid", alpha=real(0.1, 0.5), beta=real(0, 1))
simple("HardSwish", since=14)
simple("Gelu", since=20, approximate=lambda net: net.pick("none", "tanh"))


def softmax(kind):
    def run(net, x, shape):
        axis = net.axis(len(shape)) if net.opset >= 13 else net.pick(-1, len(shape) - 1)
        return net.op(kind, x, axis=None if net.opset >= 13 and net.chance(0.3) else axis), shape
    run.__name__ = kind
    case()(run)


softmax("Softmax")
softmax("LogSoftmax")


def broadcast(net, shape):
    """A shape that goes with another one."""
    other = [size if net.chance(0.7) else 1 for size in shape]
    return other[net.int(0, len(other)) :] if net.chance(0.3) else other


def binary(kind, since=7, left=None, right=None, truth=False, swaps=True):
    def run(net, x, shape):
        net.since(since)
        other = net.floats(*broadcast(net, shape))
        x = left(net, x) if left else x
        other = right(net, other) if right else other
        sides = (other, x) if net.chance(0.3) and swaps and not (left or right) else (x, other)
        y = net.op(kind, *sides)
        return (net.op("Cast", y, to=FLOAT) if truth else y), shape
    run.__name__ = kind
    case(first=truth)(run)


for kind in ["Add", "Sub", "Mul"]:
    binary(kind)
binary("Div", right=positive)
binary("Pow", left=positive, right=near)
binary("PRelu", swaps=False)
for kind in ["Greater", "Less"]:
    binary(kind, since=9, truth=True)
for kind in ["GreaterOrEqual", "LessOrEqual"]:
    binary(kind, since=12, truth=True)


@case(first=True)
def remainder(net, x, shape):
    net.since(10)
    return whole_numbers(net, x, shape, "Mod")


@case(first=True)
def whole_numbers(net, x, shape, op=None):
    """Arithmetic of whole numbers, as sizes are computed."""
    number = net.op("Cast", net.op("Mul", x, net.const(np.float32(40))), to=net.pick(INT64, TensorProto.INT32))
    kind = net.nodes[-1].attribute[0].i
    dtype = np.int64 if kind == INT64 else np.int32
    other = net.const(net.rng.integers(1, 9, broadcast(net, shape)), dtype)
    op = op or net.pick("Add", "Sub", "Mul", "Div")
    y = net.op(op, number, other, fmod=net.pick(None, 0, 1) if op == "Mod" else None)
    return net.op("Cast", y, to=FLOAT), shape


@case(first=True)
def moved(net, x, shape):
    """Whole numbers or truths, as masks and positions are made of, put in other places."""
    net.since(13)
    to = net.pick(INT64, TensorProto.INT32, BOOL)
    x = net.op("Cast", net.op("Mul", x, net.const(np.float32(net.pick(1, 40)))), to=to)
    axis = net.axis(len(shape))
    indices = net.rng.integers(0, shape[axis], 3)
    ends = net.ints(1), net.ints(2**31 - 1), net.ints(axis)
    y = net.pick(
        lambda: net.op("Concat", x, x, axis=axis),
        lambda: net.op("Expand", net.op("Unsqueeze", x, net.ints(0)), net.ints(2, *shape)),
        lambda: net.op("Gather", x, net.const(indices, np.int64), axis=axis),
        lambda: net.op("Reshape", x, net.ints(-1, 1)),
        lambda: net.op("Slice", x, *ends) if shape[axis] > 1 else net.op("Identity", x),
        lambda: net.op("Tile", x, net.ints(*[2] * len(shape))),
        lambda: net.op("Transpose", x),
        lambda: net.op("Squeeze", net.op("Unsqueeze", x, net.ints(1)), net.ints(1)),
        lambda: net.op("Split", net.op("Concat", x, x, axis=axis), outputs=2, axis=axis,
                       num_outputs=2 if net.opset >= 18 else None)[1],
        lambda: net.op("Equal", x, x) if to != BOOL else net.op("Not", x),
        lambda: net.op("Where", net.op("Cast", x, to=BOOL), x, x),
    )()
    return net.op("Cast", y, to=FLOAT), None


@case(first=True)
def counted(net, x, shape):
    """What encoders of texts do with whole numbers."""
    net.since(18)
    to = net.pick(INT64, TensorProto.INT32)
    x = net.op("Cast", net.op("Mul", x, net.const(np.float32(net.pick(1, 40)))), to=to)
    axis, dtype = net.axis(len(shape)), np.int64 if to == INT64 else np.int32
    other = net.const(net.rng.integers(-9, 9, broadcast(net, shape)), dtype)
    y = net.pick(
        lambda: net.op("CumSum", x, net.const(axis, np.int64), exclusive=net.pick(None, 1), reverse=net.pick(None, 1)),
        lambda: net.op("ReduceSum", x, net.ints(axis)),
        lambda: net.op("ReduceMax", x, net.ints(axis)),
        lambda: net.op("ReduceMin", x, net.ints(axis)),
        lambda: net.op("ReduceProd", net.op("Clip", x, net.const(-2, dtype), net.const(2, dtype)), net.ints(axis)),
        lambda: net.op("Min", x, other),
        lambda: net.op("Max", x, other),
        lambda: net.op("Abs", x),
        lambda: net.op("Neg", x),
        lambda: net.op("Sign", x),
        lambda: net.op("Clip", x, net.const(-3, dtype), net.const(7, dtype)),
        lambda: net.op("ArgMax", x, axis=axis),
        lambda: net.op("TopK", x, net.ints(1), outputs=2, axis=axis)[1],
        lambda: net.op("Less", x, other),
        lambda: net.op("GreaterOrEqual", x, other),
        lambda: net.op("Pow", x, net.const(2, dtype)),
        lambda: net.op("GatherElements", x, net.const(np.zeros(shape), np.int64), axis=axis),
        lambda: net.op("Pad", x, net.ints(*[1] * 2 * len(shape))),
        lambda: net.op("Trilu", x) if len(shape) > 1 else x,
    )()
    return net.op("Cast", y, to=FLOAT), None


@case(first=True)
def equal(net, x, shape):
    net.since(11)
    y = net.op("Equal", net.op("Cast", x, to=INT64), net.const(net.rng.integers(-1, 2, shape), np.int64))
    return net.op("Cast", y, to=FLOAT), shape


def logic(kind):
    def run(net, x, shape):
        net.since(9)
        one = net.op("Greater", x, net.floats(*broadcast(net, shape)))
        two = net.op("Less", x, net.floats(*broadcast(net, shape)))
        y = net.op(kind, one, two)
        y = net.op("Not", y) if net.chance(0.7) else y
        return net.op("Cast", y, to=FLOAT), shape
    run.__name__ = kind
    case(first=True)(run)


for kind in ["And", "Or", "Xor"]:
    logic(kind)


@case(first=True)
def where(net, x, shape):
    net.since(9)
    condition = net.op("Greater", x, net.floats(*broadcast(net, shape)))
    return net.op("Where", condition, x, net.floats(*broadcast(net, shape))), shape


@case(first=True)
def infinities(net, x, shape):
    net.since(10)
    y = net.op("Div", x, net.const(np.float32(0)))
    return net.op("Where", net.op("IsInf", y), net.op("Neg", x), x), shape


@case(first=True)
def not_numbers(net, x, shape):
    net.since(9)
    y = net.op("Sqrt", x)
    return net.op("Where", net.op("IsNaN", y), x, y), shape


@case(first=True)
def cast(net, x, shape):
    """To every type that features pass through, and back. A number other than 0 is true."""
    to = net.pick(BOOL, BOOL, INT64, TensorProto.INT32, TensorProto.DOUBLE, TensorProto.INT8, TensorProto.UINT8, TensorProto.FLOAT16)
    x = net.op("Mul", x, net.const(np.float32(net.pick(0.5, 3))))
    x = net.op("Abs", x) if to == TensorProto.UINT8 else x
    return net.op("Cast", net.op("Cast", x, to=to), to=FLOAT), shape


def variadic(kind):
    def run(net, x, shape):
        net.since(8)
        others = [net.floats(*broadcast(net, shape)) for _ in range(net.int(0, 2))]
        return net.op(kind, x, *others), shape
    run.__name__ = kind
    case()(run)


for kind in ["Sum", "Mean", "Max", "Min"]:
    variadic(kind)


@case()
def clip(net, x, shape):
    low, high = sorted(net.rng.uniform(-1, 1, 2).astype(np.float32))
    low, high = (None if net.chance(0.3) else low), (None if net.chance(0.3) else high)
    if net.opset < 11:
        return net.op("Clip", x, min=low, max=high), shape
    inputs = ["" if limit is None else net.const(limit) for limit in (low, high)]
    while inputs and not inputs[-1]:
        inputs.pop()
    return net.op("Clip", x, *inputs), shape


def reduced(shape, axes, keep):
    axes = [axis % len(shape) for axis in axes]
    sizes = [1 if at in axes else size for at, size in enumerate(shape)]
    return sizes if keep else [size for at, size in enumerate(sizes) if at not in axes]


def reduce(kind):
    def run(net, x, shape):
        axes = sorted(set(net.axis(len(shape)) % len(shape) for _ in range(net.int(1, 2))))
        axes = [axis - len(shape) if net.chance(0.3) else axis for axis in axes]
        axes = None if net.chance(0.2) else axes
        keep = net.pick(None, 0, 1)
        if axes is None:
            keep = 1
        x = positive(net, x) if kind.startswith("ReduceLog") else x
        takes_input = net.opset >= (13 if kind == "ReduceSum" else 18)
        noop = net.pick(None, 0) if takes_input else None
        after = reduced(shape, axes if axes is not None else range(len(shape)), keep != 0) or [1]
        if axes is not None and keep == 0 and len(after) == 1 and len(set(a % len(shape) for a in axes)) == len(shape):
            raise Unfit
        if takes_input:
            inputs = [] if axes is None else [net.ints(*axes)]
            return net.op(kind, x, *inputs, keepdims=keep, noop_with_empty_axes=noop), after
        return net.op(kind, x, axes=axes, keepdims=keep), after
    run.__name__ = kind
    case()(run)


for kind in ["Mean", "Sum", "Max", "Min", "L2", "L1", "SumSquare", "LogSumExp", "Prod"]:
    reduce(f"Reduce{kind}")


def arg(kind):
    def run(net, x, shape):
        axis, keep = net.axis(len(shape)), net.pick(None, 0, 1)
        if shape[axis] < 2:
            raise Unfit
        last = net.pick(None, 0) if net.opset >= 12 else None
        y = net.op(kind, x, axis=None if axis == 0 else axis, keepdims=keep, select_last_index=last)
        return net.op("Cast", y, to=FLOAT), reduced(shape, [axis], keep != 0) or [1]
    run.__name__ = kind
    case(first=True)(run)


arg("ArgMax")
arg("ArgMin")


def window(net, size, pads, kernel, stride, dilation, ceil=False):
    span = dilation * (kernel - 1) + 1
    room = size + pads[0] + pads[1] - span
    if room < 0:
        raise Unfit
    steps = -(-room // stride) if ceil else room // stride
    return steps + 1


def spatial(net, shape, kernel_always=False, dilate=True, pools=False, ceil=0):
    """Attributes of windows over the last axes, and the sizes after. Optional ones are there or not."""
    axes = len(shape) - 2
    kernel = [min(net.int(1, 4), size) for size in shape[2:]]
    strides = [net.int(1, 3) for _ in range(axes)] if net.chance(0.6) else None
    dilations = [net.int(1, 2) for _ in range(axes)] if dilate and net.chance(0.4) else None
    auto = net.pick(None, None, None, "NOTSET", "SAME_UPPER", "SAME_LOWER", "SAME_LOWER", "VALID")
    s, d = strides or [1] * axes, dilations or [1] * axes
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        sizes = [-(-size // stride) for size, stride in zip(shape[2:], s)]
        pads = None
    else:
        most = [n - 1 if pools else 2 for n in kernel]
        pads = [net.int(0, m) for m in most] + [net.int(0, m) for m in most]
        pads = None if auto == "VALID" or net.chance(0.3) else pads
        around = pads or [0] * 2 * axes
        sizes = [
            window(net, size, (around[at], around[axes + at]), kernel[at], s[at], d[at], ceil)
            for at, size in enumerate(shape[2:])
        ]
    attributes = dict(strides=strides, dilations=dilations, auto_pad=auto, pads=pads)
    if kernel_always or net.chance(0.6):
        attributes["kernel_shape"] = kernel
    return kernel, attributes, sizes


@case(rank=4)
def conv(net, x, shape):
    channels = shape[1]
    group = net.pick(1, 1, channels, net.pick(*[g for g in range(1, channels + 1) if channels % g == 0]))
    kernel, attributes, sizes = spatial(net, shape)
    outputs = group * net.int(1, 3)
    weights = net.floats(outputs, channels // group, *kernel, scale=0.5)
    if net.chance(0.15):  # computed weights: not for our own layers
        weights = net.op("Mul", weights, net.op("ReduceMean", x, keepdims=1) if net.opset >= 18 else net.const(np.float32(2)))
    bias = [net.floats(outputs)] if net.chance() else []
    y = net.op("Conv", x, weights, *bias, group=None if group == 1 and net.chance() else group, **attributes)
    y = net.op("Relu", y) if net.chance(0.3) else y
    return y, [shape[0], outputs, *sizes]


@case(rank=3)
def conv_of_a_line(net, x, shape):
    kernel, attributes, sizes = spatial(net, shape)
    outputs = net.int(1, 4)
    return net.op("Conv", x, net.floats(outputs, shape[1], *kernel), **attributes), [shape[0], outputs, *sizes]


@case(rank=4)
def conv_depthwise(net, x, shape):
    kernel, attributes, sizes = spatial(net, shape)
    weights = net.floats(shape[1], 1, *kernel)
    y = net.op("Conv", x, weights, group=shape[1], **attributes)
    return net.op("Clip", y, net.const(np.float32(0)), net.const(np.float32(6))) if net.opset >= 11 else y, [
        shape[0], shape[1], *sizes]


def pool(kind):
    def run(net, x, shape):
        ceil = net.pick(None, 0, 1) if net.opset >= 10 else None
        if kind == "AveragePool" and ceil and net.opset < 19:
            ceil = None  # ONNX Runtime counts otherwise there, as the standard did
        kernel, attributes, sizes = spatial(net, shape, True, dilate=False, pools=True, ceil=ceil)
        include = net.pick(None, 0, 1) if kind == "AveragePool" else None
        if ceil and attributes["auto_pad"] in ("SAME_UPPER", "SAME_LOWER", "VALID"):
            ceil = None
            sizes = None
        if kind == "MaxPool":
            attributes["storage_order"] = net.pick(None, 0) if net.opset >= 8 else None
        extra = dict(count_include_pad=include, ceil_mode=ceil)
        y = net.op(kind, x, **attributes, **extra)
        return y, None
    run.__name__ = kind
    case(rank=4)(run)


pool("MaxPool")
pool("AveragePool")


def global_pool(kind):
    def run(net, x, shape):
        return net.op(kind, net.op("Concat", x, x, axis=1)), [shape[0], 2 * shape[1], 1, 1]
    run.__name__ = kind
    case(rank=4)(run)


global_pool("GlobalAveragePool")
global_pool("GlobalMaxPool")


@case(rank=4)
def batch_normalization(net, x, shape):
    c = shape[1]
    variance = net.const(net.rng.uniform(0.5, 2, c).astype(np.float32))
    epsilon = real(1e-5, 1e-2)(net) if net.chance() else None
    momentum = 0.9 if net.chance() else None
    y = net.op("Conv", x, net.floats(c, c, 1, 1)) if net.chance() else x
    return net.op("BatchNormalization", y, net.floats(c), net.floats(c), net.floats(c), variance,
                  epsilon=epsilon, momentum=momentum), shape


@case(rank=4)
def instance_normalization(net, x, shape):
    c = shape[1]
    return net.op("InstanceNormalization", x, net.floats(c), net.floats(c), epsilon=1e-3 if net.chance() else None), shape


@case()
def layer_normalization(net, x, shape):
    net.since(17)
    axis = net.axis(len(shape)) if net.chance() else None
    sizes = shape[(axis if axis is not None else -1) % len(shape) :]
    inputs = [net.floats(*sizes)] + ([net.floats(*sizes)] if net.chance() else [])
    return net.op("LayerNormalization", x, *inputs, axis=axis, epsilon=1e-4 if net.chance() else None), shape


@case()
def layer_normalization_in_parts(net, x, shape):
    """As PyTorch writes it before opset 17."""
    axes = dict(axes=[-1]) if net.opset < 18 else {}
    mean = lambda v: net.op("ReduceMean", v, *([] if axes else [net.ints(-1)]), **axes)
    centred = net.op("Sub", x, mean(x))
    variance = mean(net.op("Pow", centred, net.const(np.float32(2))))
    y = net.op("Div", centred, net.op("Sqrt", net.op("Add", variance, net.const(np.float32(1e-3)))))
    return net.op("Add", net.op("Mul", y, net.floats(shape[-1])), net.floats(shape[-1])), shape


@case()
def gelu_in_parts(net, x, shape):
    half = net.op("Mul", x, net.const(np.float32(0.5)))
    if net.chance() and net.opset >= 9:
        y = net.op("Erf", net.op("Div", x, net.const(np.float32(2**0.5))))
    else:
        cube = net.op("Pow", x, net.const(np.float32(3)))
        inner = net.op("Add", x, net.op("Mul", cube, net.const(np.float32(0.044715))))
        y = net.op("Tanh", net.op("Mul", inner, net.const(np.float32((2 / np.pi) ** 0.5))))
    return net.op("Mul", half, net.op("Add", y, net.const(np.float32(1)))), shape


@case()
def lp_normalization(net, x, shape):
    return net.op("LpNormalization", positive(net, x), axis=net.axis(len(shape)) if net.chance() else None,
                  p=net.pick(None, 1, 2)), shape


@case(rank=3)
def attention(net, x, shape):
    """Heads, scaled products, a mask and a softmax."""
    _, tokens, width = shape
    heads = net.pick(*[h for h in range(1, width + 1) if width % h == 0])
    def split(weights):
        y = net.op("MatMul", x, weights)
        y = net.op("Add", y, net.floats(width)) if net.chance() else y
        y = net.op("Reshape", y, net.ints(0, 0, heads, width // heads))
        return net.op("Transpose", y, perm=[0, 2, 1, 3])
    q, k, v = (split(net.floats(width, width, scale=0.5)) for _ in range(3))
    scores = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = net.op("Div", scores, net.const(np.float32((width / heads) ** 0.5)))
    mask = np.triu(np.full((tokens, tokens), -1e4 if net.chance() else -np.inf, np.float32), 1)
    scores = net.op("Add", scores, net.const(mask)) if net.chance() else scores
    y = net.op("MatMul", net.op("Softmax", scores, axis=-1 if net.chance() else 3), v)
    y = net.op("Transpose", y, perm=[0, 2, 1, 3])
    return net.op("Reshape", y, net.ints(0, -1, width)), shape


@case()
def matmul(net, x, shape):
    columns = net.int(1, 6)
    if len(shape) > 2 and net.chance(0.3):
        other = net.floats(*shape[:-2], shape[-1], columns)
    else:
        other = net.floats(shape[-1], columns)
    return net.op("MatMul", x, other), [*shape[:-1], columns]


@case(rank=2)
def gemm(net, x, shape):
    rows, depth = shape
    columns, a, b = net.int(1, 6), net.pick(None, 0, 1), net.pick(None, 0, 1)
    x = net.op("Transpose", x) if a else x
    other = net.floats(columns, depth) if b else net.floats(depth, columns)
    sizes = net.pick([columns], [1, columns], [rows, 1], [1])
    bias = [net.floats(*sizes)] if net.opset < 11 or net.chance(0.7) else []
    alpha, beta = (real(0.5, 2)(net) if net.chance(0.3) else None for _ in range(2))
    return net.op("Gemm", x, other, *bias, transA=a, transB=b, alpha=alpha, beta=beta), [rows, columns]


@case(rank=3)
def einsum(net, x, shape):
    net.since(12)
    b, t, d = shape
    n = net.int(1, 4)
    equation, other, after = net.pick(
        ("btd,dn->btn", [d, n], [b, t, n]),
        ("b t d, n d -> b n t", [n, d], [b, n, t]),
        ("btd,bnd->btn", [b, n, d], [b, t, n]),
        ("...td,dn->...tn", [d, n], [b, t, n]),
        ("btd,td->bt", [t, d], [b, t]),
    )
    return net.op("Einsum", x, net.floats(*other), equation=equation), after


@case()
def concat(net, x, shape):
    axis = net.axis(len(shape))
    other = list(shape)
    other[axis] = net.int(1, 3)
    after = list(shape)
    after[axis] += other[axis]
    return net.op("Concat", *((x, net.floats(*other)) if net.chance() else (net.floats(*other), x)), axis=axis), after


@case()
def split(net, x, shape):
    axis = net.axis(len(shape))
    size = shape[axis]
    if size < 2:
        raise Unfit
    first = net.int(1, size - 1)
    parts = [first, size - first]
    if size % 2 == 0 and net.chance():
        parts = [size // 2] * 2
        given = {"num_outputs": 2} if net.opset >= 18 else {}
        one, two = net.op("Split", x, outputs=2, axis=axis, **given)
    elif net.opset < 13:
        one, two = net.op("Split", x, outputs=2, axis=axis, split=parts)
    else:
        one, two = net.op("Split", x, net.ints(*parts), outputs=2, axis=axis)
    return net.op("Concat", two, one, axis=axis), shape


def sliced(net, x, starts, ends, axes, steps=None):
    if net.opset < 10:
        if steps is not None:
            raise Unfit
        return net.op("Slice", x, starts=starts, ends=ends, axes=axes)
    inputs = [net.ints(*starts), net.ints(*ends)]
    if axes is not None:
        inputs.append(net.ints(*axes))
        if steps is not None:
            inputs.append(net.ints(*steps))
    return net.op("Slice", x, *inputs)


@case()
def slice_(net, x, shape):
    axis = net.axis(len(shape))
    size = shape[axis]
    start, end = net.int(-size, size - 1), net.pick(2**63 - 1, size, size + 5, 2**31 - 1)
    step = net.pick(None, None, 1, 2, -1)
    if step == -1:
        start, end = -1, net.pick(-(2**63), -size - 1)
    elif net.chance() and start % size + 1 < size:
        end = net.int(start % size + 1, size)
    begin = start % size
    after = list(shape)
    after[axis] = len(range(size)[begin::-1]) if step == -1 else len(range(size)[begin : min(end, size) : step or 1])
    return sliced(net, x, [start], [end], [axis], None if step is None else [step]), after


@case()
def gather(net, x, shape):
    axis = net.axis(len(shape))
    sizes = net.pick([], [1], [3], [2, 2])
    low = -shape[axis] if net.opset >= 11 else 0
    kind = net.pick(np.int64, np.int32)
    indices = net.const(net.rng.integers(low, shape[axis], sizes), kind)
    at = axis % len(shape)
    after = [*shape[:at], *sizes, *shape[at + 1 :]]
    if not after or len(after) > 5:
        raise Unfit
    return net.op("Gather", x, indices, axis=None if axis == 0 else axis), after


@case()
def gather_elements(net, x, shape):
    net.since(11)
    axis = net.axis(len(shape))
    sizes = list(shape)
    sizes[axis] = net.int(1, 4)
    indices = net.const(net.rng.integers(-shape[axis], shape[axis], sizes), np.int64)
    return net.op("GatherElements", x, indices, axis=axis), sizes


@case(rank=3)
def gather_nd(net, x, shape):
    net.since(12)
    if net.chance():
        indices = net.rng.integers(0, [shape[0], shape[1]], (2, 2))
        return net.op("GatherND", x, net.const(indices, np.int64)), [2, shape[2]]
    indices = net.rng.integers(0, shape[1], (shape[0], 2, 1))
    return net.op("GatherND", x, net.const(indices, np.int64), batch_dims=1), [shape[0], 2, shape[2]]


@case(rank=3)
def scatter_nd(net, x, shape):
    net.since(11)
    indices = net.rng.permutation(shape[1])[:2].reshape(-1, 1)
    indices = np.concatenate([np.zeros_like(indices), indices], 1)
    reduction = net.pick(None, "none", "add") if net.opset >= 16 else None
    return net.op("ScatterND", x, net.const(indices, np.int64), net.floats(len(indices), shape[2]), reduction=reduction), shape


@case()
def scatter_elements(net, x, shape):
    net.since(11)
    axis = net.axis(len(shape))
    sizes = list(shape)
    sizes[axis] = 1
    indices = net.const(net.rng.integers(0, shape[axis], sizes), np.int64)
    reduction = net.pick(None, "none", "add") if net.opset >= 16 else None
    return net.op("ScatterElements", x, indices, net.floats(*sizes), axis=axis, reduction=reduction), shape


@case()
def reshape(net, x, shape):
    total = int(np.prod(shape))
    after = net.pick([1, total], [total], [1, 1, total], [1, shape[0] * shape[1], total // (shape[0] * shape[1])])
    if net.opset >= 14 and net.chance(0.3):
        return net.op("Reshape", x, net.ints(*after), allowzero=net.pick(0, 1)), after
    return net.op("Reshape", x, net.sizes(after)), after


@case()
def reshape_by_its_own_sizes(net, x, shape):
    """As PyTorch writes sizes that are free: Shape, Gather, Unsqueeze, Concat."""
    part = dict(start=net.pick(None, 0), end=net.pick(None, 1, -1)) if net.opset >= 15 else {}
    first = net.op("Gather", net.op("Shape", x, **part), net.const(0, np.int64), axis=0)
    column = lambda v: net.op("Unsqueeze", v, net.ints(0)) if net.opset >= 13 else net.op("Unsqueeze", v, axes=[0])
    number = net.op("Mul", first, net.const(1, np.int64))
    sizes = net.op("Concat", column(number), net.ints(-1), axis=0)
    return net.op("Reshape", x, sizes), [shape[0], int(np.prod(shape[1:]))]


@case()
def flatten(net, x, shape):
    axis = net.int(0 if net.opset < 11 else -len(shape), len(shape)) if net.chance() else None
    at = 1 if axis is None else axis if axis >= 0 else axis + len(shape)
    return net.op("Flatten", x, axis=axis), [int(np.prod(shape[:at])), int(np.prod(shape[at:]))]


@case()
def transpose(net, x, shape):
    perm = [int(n) for n in net.rng.permutation(len(shape))] if net.chance(0.8) else None
    return net.op("Transpose", x, perm=perm), [shape[n] for n in perm] if perm else shape[::-1]


@case()
def squeeze(net, x, shape):
    axis = net.int(0, len(shape))
    column = lambda kind, v, axes: (
        net.op(kind, v, net.ints(*axes)) if net.opset >= 13 else net.op(kind, v, axes=axes))
    y = net.op("Tanh", column("Unsqueeze", x, [axis]))
    if 1 not in shape and net.chance(0.4):
        return net.op("Squeeze", y), shape
    return column("Squeeze", y, [axis if net.opset < 11 or net.chance() else axis - len(shape) - 1]), shape


@case()
def expand(net, x, shape):
    net.since(8)
    after = [net.int(1, 3) if size == 1 else size for size in shape]
    return net.op("Expand", x, net.ints(*[1 if net.chance(0.2) and size == mine else size for size, mine in zip(after, shape)])), [
        size for size in after]


@case(rank=3)
def expand_by_its_own_sizes(net, x, shape):
    net.since(9)
    zeros = net.op("ConstantOfShape", net.op("Shape", x), value=helper.make_tensor("v", net.pick(FLOAT), [1], [0.5]) if net.chance() else None)
    token = net.op("Expand", net.floats(1, 1, shape[2]), net.op("Shape", x))
    return net.op("Add", net.op("Add", x, zeros), token), shape


@case(first=True, rank=3)
def positions(net, x, shape):
    """Positions of tokens, counted as text encoders do, and a mask of who sees whom."""
    net.since(14)
    zero, one = net.const(0, np.int64), net.const(1, np.int64)
    length = net.op("Gather", net.op("Shape", x), one)
    count = net.op("Range", zero, length, one)
    row, column = net.op("Unsqueeze", count, net.ints(0)), net.op("Unsqueeze", count, net.ints(1))
    mask = net.op("Cast", net.op("LessOrEqual", row, column), to=FLOAT)
    lower = net.op("Trilu", mask, *([net.const(net.int(-1, 1), np.int64)] if net.chance() else []), upper=net.pick(None, 0, 1))
    return net.op("MatMul", lower, x), shape


@case()
def cumulative_sum(net, x, shape):
    net.since(11)
    axis = net.const(net.axis(len(shape)), net.pick(np.int64, np.int32))
    return net.op("CumSum", x, axis, exclusive=net.pick(None, 0, 1), reverse=net.pick(None, 0, 1)), shape


@case()
def tile(net, x, shape):
    repeats = [net.int(1, 2) for _ in shape]
    return net.op("Tile", x, net.ints(*repeats)), [size * times for size, times in zip(shape, repeats)]


@case(rank=4)
def pad(net, x, shape):
    mode = net.pick(None, "constant", "reflect", "edge")
    pads = [0, 0, net.int(0, 2), net.int(0, 2), 0, 0, net.int(0, 2), net.int(0, 2)]
    if mode == "reflect":
        pads = [min(p, s - 1) for p, s in zip(pads, shape * 2)]
    elif mode != "edge" and net.chance(0.2) and shape[2] > 1:
        pads[2] = -1
    after = [size + pads[at] + pads[4 + at] for at, size in enumerate(shape)]
    if min(after) < 1:
        raise Unfit
    value = real(-1, 1)(net) if net.chance() and mode in (None, "constant") else None
    if net.opset < 11:
        return net.op("Pad", x, pads=pads, mode=mode, value=value), after
    inputs = [net.ints(*pads)] + ([] if value is None else [net.const(np.float32(value))])
    return net.op("Pad", x, *inputs, mode=mode), after


@case(rank=4, wild=True)
def pad_wild(net, x, shape):
    """With axes, which may be refused."""
    net.since(18)
    return net.op("Pad", x, net.ints(1, 2, 0, 1), "", net.ints(2, net.pick(3, -1))), None


@case(rank=4)
def resize(net, x, shape):
    net.since(11)
    mode = net.pick(None, "nearest", "linear", "linear")
    coordinates = net.pick(None, "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    rounding = net.pick(None, "floor", "round_prefer_floor", "ceil", "round_prefer_ceil") if mode != "linear" else None
    roi = "" if net.opset >= 13 else net.const(np.zeros(0, np.float32))
    if net.chance():
        scales = [1, 1, *(net.pick(1, 2, 3, 0.5, 1.5) for _ in range(2))]
        after = [int(np.floor(np.float32(size) * np.float32(scale))) for size, scale in zip(shape, scales)]
        inputs = [roi, net.const(np.array(scales, np.float32))]
    else:
        after = [*shape[:2], net.int(1, 9), net.int(1, 9)]
        inputs = [roi, "" if net.opset >= 13 else net.const(np.zeros(0, np.float32)), net.ints(*after)]
    if min(after) < 1:
        raise Unfit
    cubic = net.pick(None, -0.75)  # of another mode, but PyTorch writes it always
    return net.op("Resize", x, *inputs, mode=mode, coordinate_transformation_mode=coordinates, nearest_mode=rounding,
                  cubic_coeff_a=cubic), after


@case(rank=4, wild=True)
def resize_wild(net, x, shape):
    """Ways of resizing that may be refused."""
    net.since(18)
    inputs = ["", "", net.ints(*shape[:2], net.int(2, 9), net.int(2, 9))]
    attributes = net.pick(dict(mode="cubic"), dict(mode="linear", antialias=1), dict(mode="cubic", cubic_coeff_a=-0.5))
    return net.op("Resize", x, *inputs, **attributes), None


@case(rank=4)
def depth_to_space(net, x, shape):
    if shape[1] % 4:
        x, shape = net.op("Concat", *[x] * 4, axis=1), [shape[0], shape[1] * 4, *shape[2:]]
    mode = net.pick(None, "DCR", "CRD") if net.opset >= 11 else None
    return net.op("DepthToSpace", x, blocksize=2, mode=mode), [shape[0], shape[1] // 4, shape[2] * 2, shape[3] * 2]


@case(first=True)
def top(net, x, shape):
    net.since(10)
    axis = net.axis(len(shape))
    k = net.int(1, shape[axis])
    largest = net.pick(None, 0, 1) if net.opset >= 11 else None
    values, at = net.op("TopK", x, net.ints(k), outputs=2, axis=None if axis == -1 else axis, largest=largest)
    after = list(shape)
    after[axis] = k
    return net.op("Add", values, net.op("Cast", at, to=FLOAT)), after


@case(first=True, rank=2)
def one_hot(net, x, shape):
    net.since(11)
    index = net.op("Cast", net.op("Mul", x, net.const(np.float32(2))), to=INT64)
    values = net.const(np.array([net.pick(0, -1), 1], np.float32))
    axis = net.pick(None, -1, 1)
    depth = net.pick(net.const(7, np.int64), net.ints(7))
    return net.op("OneHot", index, depth, values, axis=axis), [*shape, 7] if axis != 1 else [shape[0], 7, shape[1]]


@case()
def size(net, x, shape):
    return net.op("Div", x, net.op("Cast", net.op("Size", x), to=FLOAT)), shape


@case()
def dropout(net, x, shape):
    if net.opset >= 12:
        seed = net.pick(None, 7)
        return net.op("Dropout", x, *([net.const(np.float32(0.3))] if net.chance() else []), seed=seed), shape
    return net.op("Dropout", x, ratio=0.3 if net.chance() else None), shape


@case()
def swish(net, x, shape):
    return net.op("Mul", x, net.op("Sigmoid", x)), shape


def microsoft(kind):
    def run(net, x, shape):
        inputs = [x] + ([net.floats(shape[-1])] if kind == "BiasGelu" or kind == "FastGelu" and net.chance() else [])
        alpha = 1.702 if kind == "QuickGelu" and net.chance() else None
        return net.op(kind, *inputs, domain="com.microsoft", alpha=alpha), shape
    run.__name__ = kind
    case()(run)


for kind in ["Gelu", "BiasGelu", "FastGelu", "QuickGelu"]:
    microsoft(kind)


# Quantised ones, as tools write them. Weights lie within 7 bits: more overflow in kernels without VNNI.

def codes(net, *shape, signed=True):
    low, high = (-64, 64) if signed else (0, 128)
    return net.const(net.rng.integers(low, high, shape), np.int8 if signed else np.uint8)


@case(first=True, rank=4)
def conv_integer(net, x, shape):
    net.since(11)
    q, scale, zero = net.op("DynamicQuantizeLinear", x, outputs=3)
    kernel, attributes, sizes = spatial(net, shape)
    group = net.pick(1, shape[1])
    outputs, signed = group * net.int(1, 3), net.chance()
    inputs = [q, codes(net, outputs, shape[1] // group, *kernel, signed=signed)]
    choice = net.int(0, 2)
    if choice:
        inputs.append(zero)
    if choice == 2:
        inputs.append(net.const(net.pick(0, 3), np.int8 if signed else np.uint8))
    y = net.op("ConvInteger", *inputs, group=group, **attributes)
    y = net.op("Mul", net.op("Cast", y, to=FLOAT), net.op("Mul", scale, net.const(np.float32(0.01))))
    return y, [shape[0], outputs, *sizes]


@case(wild=True)
def matmul_integer_wild(net, x, shape):
    """Weights of int8 with zero points may be refused."""
    return matmul_integer(net, x, shape, wild=True)


@case(first=True)
def matmul_integer(net, x, shape, wild=False):
    net.since(11)
    q, scale, zero = net.op("DynamicQuantizeLinear", x, outputs=3)
    columns, signed = net.int(1, 20), net.chance(0.7)
    dtype = np.int8 if signed else np.uint8
    inputs = [q, codes(net, shape[-1], columns, signed=signed), zero]
    zeros = net.pick(None, np.zeros(()), np.zeros(columns))
    if wild or not signed and net.chance():
        zeros = net.pick(np.full((), 5), net.rng.integers(1, 9, columns))
    if zeros is not None:
        inputs.append(net.const(zeros, dtype))
    y = net.op("Cast", net.op("MatMulInteger", *inputs), to=FLOAT)
    y = net.op("Mul", y, net.op("Mul", scale, net.const(np.full(net.pick(1, columns), 0.01, np.float32))))
    y = net.op("Add", y, net.floats(columns)) if net.chance() else y
    return y, [*shape[:-1], columns]


@case(first=True)
def quantize_and_back(net, x, shape):
    net.since(10)
    dtype = net.pick(np.uint8, np.int8)
    scale, zero = net.const(np.float32(0.03)), net.const(net.int(0, 100) if dtype == np.uint8 else net.int(-50, 50), dtype)
    if net.opset >= 13 and net.chance(0.4):
        axis = net.axis(len(shape)) if net.chance(0.7) else None
        size = shape[axis if axis is not None else 1]
        scale = net.const(net.rng.uniform(0.01, 0.05, size).astype(np.float32))
        zero = net.const(net.rng.integers(0, 50, size), dtype)
        return net.op("DequantizeLinear", net.op("QuantizeLinear", x, scale, zero, axis=axis or 1), scale, zero, axis=axis), shape
    q = net.op("QuantizeLinear", x, scale, zero)
    return net.op("DequantizeLinear", q, scale, zero), shape


@case(rank=4)
def dequantized_weights(net, x, shape):
    """A convolution whose weights are stored as bytes, one scale for each output."""
    net.since(13)
    outputs = net.int(1, 4)
    kernel, attributes, sizes = spatial(net, shape)
    scale = net.const(net.rng.uniform(0.01, 0.03, outputs).astype(np.float32))
    zeros = net.const(np.zeros(outputs), np.int8)
    weights = net.op("DequantizeLinear", codes(net, outputs, shape[1], *kernel), scale, zeros, axis=0)
    return net.op("Conv", x, weights, **attributes), [shape[0], outputs, *sizes]


def start(net, rank):
    if rank == 4:
        return [1, net.int(1, 6), net.int(3, 9), net.int(3, 9)]
    if rank == 2:
        return [net.int(1, 5), net.int(2, 9)]
    return [1, net.int(2, 7), net.int(2, 8)]


def fit(net, x, shape, rank):
    """Reshapes a value for a case of that rank."""
    if rank is None or len(shape) == rank:
        return x, shape
    total = int(np.prod(shape))
    side = max(n for n in range(1, total + 1) if total % n == 0 and n * n <= total)
    after = {2: [side, total // side], 3: [1, side, total // side], 4: [1, 1, side, total // side]}[rank]
    return net.op("Reshape", x, net.sizes(after)), after


def session(model):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def build(rng, chosen):
    """A network of chosen cases: its model and an input. Raises if they do not go together."""
    # Small opsets have few forms; most tools write 11 to 18.
    weights = np.array([2 if n < 11 or n > 18 else 4 for n in OPSETS])
    opset = int(rng.choice(OPSETS, p=weights / weights.sum()))
    net = Net(rng, opset)
    shape = start(net, chosen[0][1] or net.pick(3, 4))
    x, free = "x", rng.random() < 0.5
    given = [f"d{at}" if free else size for at, size in enumerate(shape)]
    pixels = rng.standard_normal(shape).astype(np.float32)
    # Zeros, halves and numbers that occur twice: what is rounded or compared may differ there.
    pixels = np.where(rng.random(shape) < 0.2, np.round(pixels * 2) / 2, pixels).astype(np.float32)
    for at, (function, rank, _) in enumerate(chosen):
        x, shape = fit(net, x, shape, rank)
        x, shape = function(net, x, list(shape))
        if shape is None and at + 1 < len(chosen):
            x = net.op("Flatten", x)  # its rank is known, which is enough for what has no sizes
            model = finish(net, x, given)
            shape = list(session(model.SerializeToString()).run(None, {"x": pixels})[0].shape)
        if shape is not None and (np.prod(shape) < 2 or np.prod(shape) > 20000):
            raise Unfit
    return finish(net, x, given), pixels


def finish(net, x, given):
    nodes = [*net.nodes, helper.make_node("Identity", [x], ["y"])]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "net", [value("x", FLOAT, given)], [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(array, name) for name, array in net.weights.items()],
    )
    graph.output[0].type.tensor_type.elem_type = FLOAT
    imports = [helper.make_opsetid("", net.opset)] + [helper.make_opsetid(domain, 1) for domain in net.domains]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def quantised(model, weights):
    """The network as `quantize_dynamic` writes it: ConvInteger and MatMulInteger, padded as before."""
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, f"{folder}/whole.onnx")
        quantize_dynamic(f"{folder}/whole.onnx", f"{folder}/quantised.onnx", weight_type=weights, reduce_range=True,
                         op_types_to_quantize=["Conv", "MatMul", "Gemm"])
        return onnx.load(f"{folder}/quantised.onnx")


def save(path, tensors):
    """The file format safetensors."""
    header, at = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    header = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array).tobytes())


def used(model):
    """Operators and attributes of a network, with their words and the types of casts."""
    value = lambda a: a.i if a.name == "to" else a.s
    return {(n.domain, n.op_type, a.name, value(a)) for n in model.graph.node for a in [onnx.AttributeProto(), *n.attribute]}


def main(folder, count, seed):
    rng = np.random.default_rng(seed)
    failures, seen = {}, set()
    later = [c for c in CASES if not c[2]]
    turns, others = [c for c in CASES if c[2]] + later, itertools.cycle(later)
    if ONLY:
        turns = [c for c in CASES if c[0].__name__ in ONLY]
    for made in range(count):
        first = turns[made % len(turns)]
        # Some are quantised as a whole: those that begin with a product.
        whole = first[0] in (conv, conv_of_a_line, conv_depthwise, matmul, gemm) and rng.random() < 0.6
        chosen = [first] if whole or first[0] in WILD else [first, next(others), next(others)]
        weights = QuantType.QInt8 if rng.random() < 0.5 else QuantType.QUInt8
        candidates = []
        for attempt in range(200):
            if len(candidates) == TRIES:
                break
            try:
                # Some cases leave too little for the next.
                model, pixels = build(rng, chosen[: max(1, 3 - attempt // 60)])
                model = quantised(model, weights) if whole else model
                y = session(model.SerializeToString()).run(None, {"x": pixels})[0]
                if y.dtype != np.float32 or not np.isfinite(y).all() or y.size < 2 or np.abs(y).max() < 1e-6:
                    raise Unfit
            except Exception as error:  # what ONNX Runtime refuses is no network
                failures[first[0].__name__] = str(error)[:200]
                continue
            candidates.append((model, pixels, y))
        if not candidates:
            raise SystemExit(f"no network of {[c[0].__name__ for c in chosen]}: {failures[first[0].__name__]}")
        model, pixels, y = max(candidates, key=lambda candidate: len(used(candidate[0]) - seen))
        seen |= used(model) if first[0] not in WILD else set()
        # Large exports have their weights in a file beside them, but not the small ones that state sizes.
        beside = dict(save_as_external_data=True, location=f"{made}.data", size_threshold=128) if rng.random() < 0.1 else {}
        onnx.save(model, f"{folder}/{made}.onnx", **beside)
        save(f"{folder}/{made}.safetensors", {"x": pixels, "y": y})


if __name__ == "__main__":
    logging.disable()  # advice about quantisation, once for every network
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
