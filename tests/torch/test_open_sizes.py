"""Programs whose sizes torch.export leaves open, compiled once and run at several."""

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch frontend need torch")

from eager import check, eager, fed  # noqa: E402
from torch import nn  # noqa: E402
from torch.export import Dim  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import mlc  # noqa: E402
from mlc.support.errors import UserError  # noqa: E402

OPEN = Dim.DYNAMIC


class Calls(nn.Module):
    """Functions of one tensor as a module."""

    def __init__(self, *functions):
        super().__init__()
        self.functions = functions

    def forward(self, x):
        return [function(x) for function in self.functions]


def run_at(module, shapes, dims, make=torch.randn, threads=1):
    """A module, compiled with open sizes for the first shape: mlc computes what eager does at every shape."""
    first, *_ = inputs = [make(shape) for shape in shapes]
    module = module.eval()
    exe = mlc.compile(mlc.from_torch(module, (first,), dynamic_shapes=({k: OPEN for k in dims},)), threads=threads)
    for x in inputs:
        check(fed(exe, (x,)), eager(module, (x,)))
    return exe


NUMBERS = (
    lambda x: x * x.shape[1],
    lambda x: x / (x.shape[1] - 1),
    lambda x: x + 1 / x.shape[1],
    lambda x: x * x.shape[1] ** 0.5,
    lambda x: x.var(1),
    lambda x: x.new_full((2,), x.shape[1]),
)
PLACES = (
    lambda x: x[:, : x.shape[1] // 2],
    lambda x: x[:, x.shape[1] // 2 :],
    lambda x: x[:, -2:],
    lambda x: x[:, -1],
    lambda x: x.select(1, x.shape[1] - 2),
    lambda x: x[torch.arange(2), -1],
    lambda x: torch.slice_scatter(x, x[:, :1], 1, 1, 2),
    lambda x: torch.slice_scatter(x, x[:, 1:] * 2, 1, 1, x.shape[1]),
)
MOVED = (
    lambda x: x.flip(1),
    lambda x: x.roll(1, 1),
    lambda x: x.roll(-2, 1),
    lambda x: x.repeat(1, 2, 1),
    lambda x: x[:, :3].repeat(x.shape[1], x.shape[1], 1),
    lambda x: F.pad(x, (0, 0, 0, (-x.shape[1]) % 4)),
    lambda x: x.unfold(1, 2, 1),
    lambda x: x.topk(2, 1)[0],
    lambda x: x.cumsum(1),
)
SQUARE = (
    lambda x: x @ x.mT,
    lambda x: (x @ x.mT).tril(-1),
    lambda x: torch.ones(x.shape[1], x.shape[1]).triu(1),
    lambda x: (x @ x.mT).diagonal(1, 1, 2),
    lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
)


@pytest.mark.parametrize("functions", [NUMBERS, PLACES, MOVED, SQUARE], ids=["numbers", "places", "moved", "square"])
def test_functions_of_open_sizes(functions):
    run_at(Calls(*functions), [(2, 6, 4), (2, 11, 4), (2, 37, 4)], [1])


class Positions(nn.Module):
    """What decoders do: positions and a mask cut from tables, queries that share keys, the last token."""

    def __init__(self):
        super().__init__()
        self.embed, self.places = nn.Embedding(30, 16), nn.Parameter(torch.randn(1, 40, 16))
        self.mix = nn.Linear(16, 16 + 8 + 8)
        self.register_buffer("seen", torch.tril(torch.ones(40, 40)).view(1, 1, 40, 40))

    def forward(self, ids):
        batch, count = ids.shape
        x = self.embed(ids) + self.places[:, :count]
        q, k, v = self.mix(x).split([16, 8, 8], 2)
        q, k, v = (one.view(batch, count, -1, 4).transpose(1, 2) for one in (q, k, v))
        shared = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        scores = (q @ k.repeat_interleave(2, 1).transpose(-2, -1)) * k.size(-1) ** -0.5
        own = scores.masked_fill(self.seen[:, :, :count, :count] == 0, float("-inf")).softmax(-1)
        return shared, own @ v.repeat_interleave(2, 1), x[:, -1]


def test_a_decoder_of_any_batch_and_length():
    make = lambda shape: torch.randint(0, 30, shape)  # noqa: E731
    exe = run_at(Positions(), [(2, 7), (1, 40), (3, 12)], [0, 1], make, threads=2)
    with pytest.raises(ValueError, match="ids"):
        exe({"ids": make((1, 1)).numpy()})  # torch has seen that it is more than 1


class Cached(nn.Module):
    """Attention over keys and values that are kept, and new ones."""

    def __init__(self):
        super().__init__()
        self.mix, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x, past_k, past_v):
        batch, count, _ = x.shape
        q, k, v = (one.view(batch, count, 2, 8).transpose(1, 2) for one in self.mix(x).chunk(3, 2))
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(batch, count, 16)), k, v


def test_a_decoder_starts_without_a_past():
    def at(batch, past, count):
        return torch.randn(batch, count, 16), torch.randn(batch, 2, past, 8), torch.randn(batch, 2, past, 8)

    module, past, batch = Cached().eval(), Dim("past", min=0, max=64), Dim("batch", min=1, max=8)
    dims = ({0: batch, 1: Dim("count", min=1, max=32)}, {0: batch, 2: past}, {0: batch, 2: past})
    exe = mlc.compile(mlc.from_torch(module, at(2, 4, 3), dynamic_shapes=dims), threads=2)
    for sizes in ((1, 0, 1), (2, 0, 5), (1, 1, 1), (3, 33, 2)):
        inputs = at(*sizes)
        check(fed(exe, inputs), eager(module, inputs))


def test_a_vision_transformer_of_any_batch():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch, self.first = nn.Conv2d(3, 16, 8, 8), nn.Parameter(torch.randn(1, 1, 16))
            self.places = nn.Parameter(torch.randn(1, 17, 16))
            self.block = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

        def forward(self, x):
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
            return self.block(x)[:, 0]

    run_at(Net(), [(2, 3, 32, 32), (1, 3, 32, 32), (5, 3, 32, 32)], [0])


def test_pictures_of_any_size():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.norm = nn.Conv2d(3, 8, 3, 2, 1), nn.GroupNorm(2, 8)

        def forward(self, x):
            y = self.norm(self.down(x))
            up = F.interpolate(y, scale_factor=0.5)
            return F.interpolate(y, size=x.shape[-2:]), up, F.adaptive_max_pool2d(y, 1), F.adaptive_avg_pool2d(y, 1)

    module, dims = Net().eval(), {2: 4 * Dim("h", min=2, max=64), 3: 4 * Dim("w", min=2, max=64)}
    x, y = torch.randn(1, 3, 16, 24), torch.randn(1, 3, 32, 20)
    exe = mlc.compile(mlc.from_torch(module, (x,), dynamic_shapes=(dims,)), threads=1)
    for one in (x, y):
        check(fed(exe, (one,)), eager(module, (one,)))


INTERPOLATED = (
    lambda x: F.interpolate(x, size=(13, 17), mode="bilinear"),
    lambda x: F.interpolate(x, size=(13, 17), mode="bilinear", align_corners=True),
    lambda x: F.interpolate(x, size=(13, 17), mode="bicubic"),
    lambda x: F.interpolate(x, size=(13, 17)),
)
SCALED = (
    lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
    lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear", align_corners=True),
    lambda x: F.interpolate(x, size=(x.shape[2] - 1, x.shape[3] + 2), mode="bilinear"),
)


def test_pictures_of_any_batch_to_a_number_of_rows_and_columns():
    run_at(Calls(*INTERPOLATED), [(2, 3, 7, 9), (1, 3, 7, 9), (5, 3, 7, 9)], [0], threads=2)


def test_pictures_of_any_size_to_other_sizes():
    run_at(Calls(*INTERPOLATED[:2], *SCALED), [(2, 3, 7, 9), (1, 3, 30, 5)], [0, 2, 3])


def test_a_size_of_which_nothing_is_said_may_be_one_where_that_fits():
    model = mlc.from_torch(Calls(lambda x: x * 2, lambda x: x[:, 1:]), (torch.ones(3, 4),), None, ({0: OPEN, 1: OPEN},))
    assert "x_0 = #graph.symbol<1 to 2147483647 like 1>, x_1 = #graph.symbol<2 to 2147483647>" in str(model.main)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(6, 8, 2, batch_first=True, bidirectional=True)
        self.lstm, self.rnn = nn.LSTM(16, 4), nn.RNN(4, 3)

    def forward(self, x):
        y, last = self.gru(x)
        return self.rnn(self.lstm(y.transpose(0, 1))[0])[0], last


def test_sequences_of_any_length():
    run_at(Recurrent(), [(2, 7, 6), (2, 1, 6), (2, 20, 6)], [1])


class Two(nn.Module):
    """A function of two tensors as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y):
        return self.function(x, y)


GUARDED = {
    "equal": (lambda x, y: torch.cat([x, y[:, :3]], 1) + torch.cat([y, y[:, :3]], 1), (4, 4), (9, 9), (4, 9)),
    "longer": (lambda x, y: x * 2 if x.shape[1] > y.shape[1] else x * 3, (8, 5), (9, 3), (4, 9)),
    "cut": (lambda x, y: x[:, : y.shape[1]] * 2, (8, 5), (9, 3), (4, 9)),
    "windows": (lambda x, y: x.reshape(2, x.shape[1] // 4, 4).sum(2), (8, 2), (20, 3), (7, 2)),
    "even": (lambda x, y: x * 2 if x.shape[1] % 2 == 0 else x, (8, 2), (10, 2), (5, 2)),
    "odd": (lambda x, y: x * 2 if x.shape[1] % 2 == 1 else x, (7, 2), (11, 2), (6, 2)),
    "thirds": (lambda x, y: x.chunk(3, 1)[2], (9, 2), (11, 2), (4, 2)),
}
"""What torch takes for granted when it traces: a function, the sizes that it is traced with, others, and wrong ones."""


@pytest.mark.parametrize("name", GUARDED)
def test_what_was_taken_for_granted_is_checked(name):
    function, *sizes, wrong = GUARDED[name]
    module = Two(function).eval()
    inputs = [tuple(torch.randn(2, size) for size in pair) for pair in (*sizes, wrong)]
    dims = ({1: Dim.AUTO}, {1: Dim.AUTO})
    exe = mlc.compile(mlc.from_torch(module, inputs[0], dynamic_shapes=dims), threads=1)
    for one in inputs[:2]:
        check(fed(exe, one), eager(module, one))
    with pytest.raises(ValueError, match="expected axis 1 of input"):
        fed(exe, inputs[2])


def test_what_cannot_be_checked_needs_shapes():
    module, dims = Two(lambda x, y: x * 2 if x.shape[1] * y.shape[1] > 20 else x), ({1: Dim.AUTO}, {1: Dim.AUTO})
    inputs = torch.randn(2, 8), torch.randn(2, 5)
    with pytest.raises(UserError, match=r"torch.export took for granted that x_1\*y_1 > 20; fix it with shapes="):
        mlc.from_torch(module, inputs, dynamic_shapes=dims)
    model = mlc.from_torch(module, inputs, dynamic_shapes=dims, shapes={"x": (2, 8), "y": (2, 5)})
    check(fed(mlc.compile(model, threads=1), inputs), eager(module, inputs))
    with pytest.raises(UserError, match="took for granted"):
        mlc.from_torch(module, inputs, dynamic_shapes=dims, shapes={"x": (2, 4), "y": (2, 5)})


@pytest.mark.parametrize("level", [0, 2])
def test_pictures_of_any_size_at_low_levels(level):
    module, x = nn.Conv2d(3, 8, 3, padding=1).eval(), torch.randn(1, 3, 9, 11)
    model = mlc.from_torch(module, (x,), dynamic_shapes=({2: OPEN, 3: OPEN},))
    exe = mlc.compile(model, threads=1, opt_level=level)
    for one in (x, torch.randn(1, 3, 40, 7)):
        check(fed(exe, (one,)), eager(module, (one,)))


@pytest.mark.parametrize("channels", [3, 8, 20])
@pytest.mark.parametrize(
    "mirror",
    [
        lambda x: x.flip(3),
        lambda x: x.flip(2),
        lambda x: F.pad(x, (1, 0, 2, 1), mode="replicate"),
        lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    ],
)
def test_pictures_are_read_at_computed_places_around_convolutions(mirror, channels):
    """Layout transforms of open sizes with a gather in them: only the channels that blocks add are masked."""

    class Mirrored(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Conv2d(channels, 20, 3, padding=1), nn.Conv2d(20, channels, 1)

        def forward(self, x):
            return mirror(self.second(mirror(self.first(mirror(x)))))

    run_at(Mirrored(), [(1, channels, 16, 20), (1, channels, 5, 7), (1, channels, 33, 64)], (2, 3))
