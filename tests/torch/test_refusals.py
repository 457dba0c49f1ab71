"""What the import refuses: each error says which call it is, and what to do."""

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch frontend need torch")

from eager import check, eager, fed  # noqa: E402
from torch import nn  # noqa: E402
from torch.export import Dim  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import mlc  # noqa: E402
from mlc.frontends.torch.arrays import to_numpy  # noqa: E402
from mlc.support.errors import UserError  # noqa: E402


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count += 1
        return x * self.count


REFUSED = {
    "pool": (
        lambda x: F.avg_pool2d(x[None], 2, ceil_mode=True, divisor_override=3),
        "divisor_override without ceil_mode",
    ),
    "places": (lambda x: F.adaptive_max_pool2d(x[None], 2, return_indices=True), "expected no places of the maxima"),
    "dropout": (lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5), "expected no dropout; call eval"),
    "scatter": (
        lambda x: x[0].long().scatter_reduce(0, torch.zeros(3, 4).long(), x[0].long(), "mean"),
        "expected a mean of floats, but got integers",
    ),
    "mask": (lambda x: torch.index_put(x, (x > 0,), x.flatten()[:7]), "expected one value for the elements of a mask"),
    "bits": (lambda x: x.view(torch.int16), "expected to see float32 as elements of the same size, but got int16"),
    "random": (lambda x: x + torch.rand(4), "rand: aten.rand.default"),
    "running": (lambda x: x.cummax(1), "expected no places of running extremes"),
    "sorter": (
        lambda x: torch.searchsorted(x[0], x[0], sorter=x[0].argsort(1)),
        "expected boundaries in order, but got a sorter",
    ),
    "slope": (lambda x: F.rrelu(x, training=True), "expected a module that is not in training"),
    "number": (lambda x: (x, 3), "expected outputs that are tensors, but output_1 is a number"),
    "window": (lambda x: x + torch.blackman_window(1 << 33)[:4], "blackman_window: aten.blackman_window.default"),
    "count": (lambda x: x + torch.arange(1 << 33)[:4], "expected a result of at most 4294967296 elements"),
    "branch": (lambda x: x if x.sum() > 0 else -x, "torch: torch.export failed: "),
    "item": (lambda x: torch.zeros(int(x[0, 0, 0].item())) + 1, "torch: "),
}


@pytest.mark.parametrize("name", REFUSED)
def test_calls(name):
    function, message = REFUSED[name]
    with pytest.raises(UserError, match=message):
        mlc.from_torch(Call(function), (torch.rand(2, 3, 4),))


def test_layers():
    with pytest.raises(UserError, match="without projections, but got proj_size"):
        mlc.from_torch(nn.LSTM(4, 6, proj_size=2), (torch.rand(2, 3, 4),))
    with pytest.raises(UserError, match="not in training, but its dropout is on; call eval"):
        mlc.from_torch(nn.LSTM(4, 6, 2, dropout=0.5), (torch.rand(2, 3, 4),))
    with pytest.raises(UserError, match="it writes count; call eval"):
        mlc.from_torch(Counter(), (torch.rand(3),))
    with pytest.raises(UserError, match=r"expected a tensor with dense elements, but got torch.sparse_coo"):
        to_numpy(torch.eye(3).to_sparse())


def test_numbers_that_follow_from_open_sizes_and_are_attributes_need_shapes():
    module, x = Call(lambda x: F.interpolate(x[None], scale_factor=1.3)[0]), torch.randn(2, 10)
    options = {"dynamic_shapes": {"x": {1: Dim("length", min=2, max=64)}}}
    with pytest.raises(UserError, match=r"mlc cannot express the size .*; fix it with shapes="):
        mlc.from_torch(module, (x,), **options)
    model = mlc.from_torch(module, (x,), shapes={"x": (2, 20)}, **options)
    y = torch.randn(2, 20)
    check(fed(mlc.compile(model, threads=1), (y,)), eager(module, (y,)))


def test_sizes_that_are_no_multiple():
    with pytest.raises(
        UserError, match=r"input 'input': expected a size 2\*.* of a number in 2..64 on axis 1, but got 7"
    ):
        mlc.from_torch(
            nn.ReLU(),
            (torch.randn(2, 6),),
            dynamic_shapes=({1: 2 * Dim("half", min=2, max=64)},),
            shapes={"input": (2, 7)},
        )


@pytest.mark.parametrize("shapes", [[1], {"x": 3}, {"x": "2x3"}])
def test_shapes_without_sizes(shapes):
    program = torch.export.export(torch.nn.ReLU(), (torch.zeros(2, 3),))
    with pytest.raises(UserError, match=r"expected (shapes as a dict|a tuple of whole numbers and names as its shape)"):
        mlc.compile(program, shapes=shapes)
