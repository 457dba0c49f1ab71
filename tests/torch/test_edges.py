"""Where a formula is not the function: signed zeros, infinities, nearly whole quotients, the ends of integers."""

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch frontend need torch")

from eager import run_cases, run_module  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 7.0, 0.1, -0.3, 1e-8, 3e38, -3e38, float("inf"), float("-inf"), float("nan"))
INTEGERS = (0, 1, -1, 2, -3, 7, 100, 127, -128)


def pairs(values, dtype):
    """Every value beside every other."""
    x = torch.tensor(values).to(dtype)
    return x.repeat_interleave(len(x)), x.repeat(len(x))


def test_floats():
    a, b = pairs(FLOATS, torch.float32)
    usual = a.isfinite() & b.isfinite() & (a.abs() < 1e30) & (b.abs() > 1e-3) & (b.abs() < 1e30)
    cases = {
        "atan2": torch.atan2,
        "copysign": torch.copysign,
        "signbit": lambda a, b: a.signbit(),
        "expm1": lambda a, b: torch.expm1(a * 200),
        "log1p": lambda a, b: torch.log1p(a),
        "floor_divide": lambda a, b: torch.floor_divide(a, b),
        "fmax": torch.fmax,
        "fmin": torch.fmin,
        "erfc": lambda a, b: torch.erfc(a),
    }
    run_cases(cases, (a, b))
    cases = {"remainder": torch.remainder, "fmod": torch.fmod, "hypot": torch.hypot}
    run_cases(cases, (a[usual], b[usual]), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int64])
def test_integers(dtype):
    a, b = pairs(INTEGERS, dtype)
    cases = {
        "floor_divide": torch.floor_divide,
        "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
        "remainder": torch.remainder,
        "fmod": torch.fmod,
        "by_three": lambda a, b: a // 3,
    }
    run_cases(cases, (a[b != 0], b[b != 0]))


class Bag(nn.Module):
    """An embedding bag on indices, and offsets and weights if there are any."""

    def __init__(self, mode, **options):
        super().__init__()
        self.bag = nn.EmbeddingBag(20, 6, mode=mode, **options)

    def forward(self, *inputs):
        return self.bag(*inputs)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bags(mode):
    offsets = torch.tensor([0, 3, 3, 7])  # one is empty
    run_module(Bag(mode), (torch.randint(0, 20, (4, 5)),))
    run_module(Bag(mode, padding_idx=1), (torch.randint(0, 3, (4, 5)),))
    run_module(Bag(mode, padding_idx=1), (torch.randint(0, 3, (11,)), offsets))


def test_embedding_bags_with_weights():
    inputs = torch.randint(0, 20, (11,)), torch.tensor([0, 3, 3, 11]), torch.randn(11)
    run_module(Bag("sum", include_last_offset=True), inputs)


def test_ranks_and_places():
    x = torch.randn(4, 9)
    cases = {
        "median": lambda x: (x.median(), *x.median(1)),
        "kthvalue": lambda x: x.kthvalue(3, 0),
        "cummax": lambda x: (x.cummax(0)[0], x.cummin(1)[0]),
        "searchsorted": lambda x: (
            torch.searchsorted(torch.arange(5.0), x, right=True),
            torch.searchsorted(x.sort(1)[0], x, side="right"),
        ),
        "rrelu": F.rrelu,
        "addbmm": lambda x: torch.addbmm(x[:, :4], x[None, :, :4], x[None, :, :4], beta=0.5, alpha=2),
    }
    run_cases(cases, (x,), {"bilinear": nn.Sequential(Pair())})


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.product = nn.Bilinear(4, 5, 3)

    def forward(self, x):
        return self.product(x[:, :4], x[:, 4:])


def test_where_numbers_are_missing():
    x = torch.randn(4, 9)
    x[0, 5], x[2, 3], x[2, 7] = (torch.tensor(float("nan")),) * 3
    cases = {
        "median": lambda x: (x.median(), *x.median(1), *x.median(0, keepdim=True)),
        "of_halves": lambda x: x.half().median(1)[0],
        "kthvalue": lambda x: x.kthvalue(3, 1),
        "sign": lambda x: (x.sign(), x.double().sign(), x.half().sign()),
    }
    run_cases(cases, (x,))


def test_names_of_numbers():
    class Product(nn.Module):
        def forward(self, _0, _1):
            return (_0 @ _1).relu() + 1

    run_module(Product(), (torch.randn(2, 3), torch.randn(3, 4)))
