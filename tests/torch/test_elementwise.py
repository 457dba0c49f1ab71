"""ATen ops that compute elementwise or reduce, compiled, beside eager PyTorch."""

import math

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch frontend need torch")

from eager import run_cases  # noqa: E402
from torch.nn import functional as F  # noqa: E402


def rand(*shape):
    return torch.rand(*shape) * 4 - 2


ACTIVATIONS = {
    "relu": F.relu,
    "relu6": F.relu6,
    "silu": F.silu,
    "gelu": F.gelu,
    "mish": F.mish,
    "softplus": F.softplus,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "elu": lambda x: F.elu(x, 0.7),
    "celu": F.celu,
    "selu": F.selu,
    "leaky_relu": F.leaky_relu,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "hardtanh": F.hardtanh,
    "logsigmoid": F.logsigmoid,
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "threshold": lambda x: F.threshold(x, 0.1, 20),
    "glu": lambda x: F.glu(x, 1),
    "softplus_beta": lambda x: F.softplus(x, 2.0),
    "softplus_threshold": lambda x: F.softplus(x, 2.0, 0.5),
    "softplus_below": lambda x: F.softplus(x, -1.5, -1.0),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "softmax": lambda x: F.softmax(x, 1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "softmin": lambda x: F.softmin(x, 2),
}

UNARY = {
    "exp": torch.exp,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "asinh": torch.asinh,
    "erf": torch.erf,
    "abs": torch.abs,
    "neg": torch.neg,
    "sign": torch.sign,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "trunc": torch.trunc,
    "frac": torch.frac,
    "reciprocal": torch.reciprocal,
    "square": torch.square,
    "expm1": torch.expm1,
    "exp2": torch.exp2,
    "log": lambda x: torch.log(x.abs() + 0.1),
    "log2": lambda x: torch.log2(x.abs() + 0.1),
    "log10": lambda x: torch.log10(x.abs() + 0.1),
    "log1p": lambda x: torch.log1p(x.abs()),
    "sqrt": lambda x: torch.sqrt(x.abs()),
    "rsqrt": lambda x: torch.rsqrt(x.abs() + 0.1),
    "asin": lambda x: torch.asin(x / 2),
    "acos": lambda x: torch.acos(x / 2),
    "atanh": lambda x: torch.atanh(x / 2.1),
    "acosh": lambda x: torch.acosh(x.abs() + 1.1),
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "isfinite": torch.isfinite,
    "not": lambda x: torch.logical_not(x),
    "clamp": lambda x: x.clamp(-1, 1),
    "clamp_min": lambda x: x.clamp(min=0.3),
    "round2": lambda x: torch.round(x, decimals=2),
    "nan_to_num": torch.nan_to_num,
    "pow2": lambda x: x**2,
    "pow_3": lambda x: x**3,
    "pow_half": lambda x: x.abs() ** 0.5,
    "pow_m1": lambda x: x**-1.0,
    "pow_any": lambda x: x.abs() ** 1.7,
    "rpow": lambda x: 2.0**x,
    "int": lambda x: x.int(),
    "bool": lambda x: x > 0,
    "half": lambda x: x.half().float(),
}

BINARY = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "alpha": lambda x, y: torch.add(x, y, alpha=2),
    "rsub": lambda x, y: 1 - x,
    "scaled": lambda x, y: torch.rsub(x, y, alpha=3),
    "floor_div": lambda x, y: x // y,
    "trunc_div": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "remainder": lambda x, y: x % y,
    "fmod": torch.fmod,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "gt": torch.gt,
    "le": torch.le,
    "ge": torch.ge,
    "scalar_gt": lambda x, y: x > 0.5,
    "where": lambda x, y: torch.where(x > 0, x, y),
    "where_scalar": lambda x, y: torch.where(x > 0, x, 0.0),
    "masked_fill": lambda x, y: x.masked_fill(y > 0, -1e9),
    "atan2": torch.atan2,
    "addcmul": lambda x, y: torch.addcmul(x, x, y, value=0.5),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
    "addcdiv": lambda x, y: torch.addcdiv(x, y, y.abs() + 1),
    "hypot": torch.hypot,
    "pow": lambda x, y: x.abs() ** y,
    "logical_and": lambda x, y: torch.logical_and(x > 0, y > 0),
    "xor": lambda x, y: (x > 0) ^ (y > 0),
    "or": lambda x, y: (x > 0) | (y > 0),
    "and": lambda x, y: (x > 0) & (y > 0),
    "inv": lambda x, y: ~(x > 0),
    "isclose": lambda x, y: torch.isclose(x, y),
    "clamp_tensor": lambda x, y: torch.clamp(x, y - 1, y + 1),
    "copysign": lambda x, y: torch.copysign(x, y),
    "logaddexp": torch.logaddexp,
}

INTEGERS = {
    "add": lambda i, j: i + j,
    "mul": lambda i, j: i * 3,
    "true_div": lambda i, j: i / j,
    "floor_div": lambda i, j: i // j,
    "trunc_div": lambda i, j: torch.div(i, j, rounding_mode="trunc"),
    "remainder": lambda i, j: i % j,
    "fmod": torch.fmod,
    "and": lambda i, j: i & j,
    "or": lambda i, j: i | j,
    "xor": lambda i, j: i ^ j,
    "not": lambda i, j: ~i,
    "shift": lambda i, j: i << 2,
    "to_float": lambda i, j: i.float() + 0.5,
    "mixed": lambda i, j: i * 0.5,
    "sum": lambda i, j: i.sum(),
    "mean": lambda i, j: i.float().mean(0),
    "max": lambda i, j: i.max(),
    "abs": lambda i, j: i.abs(),
    "exp": lambda i, j: torch.exp(i * 0.1),
    "sqrt": lambda i, j: torch.sqrt(j),
    "eq": lambda i, j: i == j,
    "compare": lambda i, j: i > 1.5,
    "int32": lambda i, j: i.int() + j,
    "bool_sum": lambda i, j: (i > j).sum(1),
    "one_hot": lambda i, j: F.one_hot(j % 4, 4),
    "cumsum": lambda i, j: i.cumsum(0),
    "prod": lambda i, j: j.prod(1),
    "uint8": lambda i, j: j.to(torch.uint8) + 250,
    "clamp": lambda i, j: i.clamp(-1, 2),
    "neg": lambda i, j: -i,
    "where": lambda i, j: torch.where(i > 0, i, 1.5),
    "any": lambda i, j: (i > 3).any(1),
    "all": lambda i, j: (i > -9).all(),
    "minmax": lambda i, j: torch.minimum(i, j),
    "sort": lambda i, j: torch.sort(i, dim=1, stable=True),
    "argsort": lambda i, j: torch.argsort(i, dim=0, stable=True, descending=True),
    "bucketize": lambda i, j: torch.bucketize(i, torch.tensor([-1, 0, 3])),
}

REDUCTIONS = {
    "sum": lambda x: x.sum(),
    "sum_dims": lambda x: x.sum((0, 2)),
    "mean": lambda x: x.mean(1, keepdim=True),
    "mean_all": lambda x: x.mean(),
    "prod": lambda x: x.prod(2),
    "amax": lambda x: x.amax((1, 2)),
    "amin": lambda x: x.amin(0),
    "max_dim": lambda x: tuple(x.max(1)),
    "min_dim": lambda x: tuple(x.min(2, keepdim=True)),
    "max_all": lambda x: x.max(),
    "argmax": lambda x: x.argmax(),
    "argmin": lambda x: x.argmin(1),
    "var": lambda x: x.var(1),
    "std": lambda x: x.std(),
    "var0": lambda x: x.var((0, 1), correction=0, keepdim=True),
    "var_mean": lambda x: torch.var_mean(x, 2),
    "norm": lambda x: x.norm(),
    "norm1": lambda x: x.norm(1, dim=1),
    "norm_inf": lambda x: torch.linalg.vector_norm(x, math.inf, 2),
    "norm3": lambda x: torch.linalg.vector_norm(x, 3.0, 1),
    "normalize": lambda x: F.normalize(x, dim=1),
    "logsumexp": lambda x: x.logsumexp(1),
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(2),
    "any": lambda x: (x > 1.9).any(),
    "all": lambda x: (x > -1.9).all(1),
    "topk": lambda x: torch.topk(x, 2, 1),
    "bottomk": lambda x: torch.topk(x, 2, -1, largest=False),
    "sort": lambda x: torch.sort(x, 1, descending=True),
    "cosine": lambda x: F.cosine_similarity(x, x.flip(0), 2),
    "count": lambda x: torch.count_nonzero(x > 0),
    "layer_norm": lambda x: F.layer_norm(x, (3, 5)),
    "rms_norm": lambda x: F.rms_norm(x, (5,)),
    "msort": torch.msort,
    "softmax_dtype": lambda x: torch.softmax(x, 1, dtype=torch.float64),
    "mse": lambda x: F.mse_loss(x, x.flip(0)),
    "kthmax": lambda x: x.topk(3, 2).values[..., -1],
    "aminmax": lambda x: tuple(torch.aminmax(x, dim=1)),
}


def test_activations():
    run_cases(ACTIVATIONS, (rand(2, 6, 5),))


def test_unary():
    run_cases(UNARY, (rand(3, 7),))


def test_binary():
    run_cases(
        BINARY,
        (
            rand(3, 1, 5),
            rand(4, 5),
        ),
    )


def test_integers():
    run_cases(
        INTEGERS,
        (
            torch.randint(-6, 7, (4, 5)),
            torch.randint(1, 6, (4, 5)),
        ),
    )


def test_reductions():
    run_cases(REDUCTIONS, (rand(4, 3, 5),))
