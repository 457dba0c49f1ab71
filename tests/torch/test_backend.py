"""`torch.compile(model, backend="mlc")`."""

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch frontend need torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from mlc.support.errors import collected_warnings  # noqa: E402
from mlc.tools import torch_backend as backend  # noqa: E402

OPTIONS = {"threads": 1}


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()


@pytest.fixture
def versions(monkeypatch):
    """The executables that were made, in order."""
    made = []

    class Counted(backend.Version):
        def __init__(self, of, values):
            super().__init__(of, values)
            made.append(self)

    monkeypatch.setattr(backend, "Version", Counted)
    return made


def compiled(module, **options):
    return torch.compile(module, backend="mlc", options=OPTIONS, **options)


def same(got, wanted):
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
    assert got.stride() == wanted.stride()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.linear = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 5)

    def forward(self, x):
        y = F.relu(self.norm(self.conv(x)))
        tokens = y.flatten(2).transpose(1, 2)
        y = F.scaled_dot_product_attention(tokens, tokens, tokens)
        return self.linear(y), y.transpose(1, 2)


@torch.no_grad()
def test_a_module_by_the_name_of_the_backend(versions):
    assert "mlc" in torch._dynamo.list_backends()
    module = Net().eval()
    run = compiled(module)
    for _ in range(2):
        x = torch.randn(2, 3, 4, 5)
        for got, wanted in zip(run(x), module(x), strict=True):
            same(got, wanted)
    assert len(versions) == 1


@torch.no_grad()
def test_sizes_that_change_are_compiled_each_and_kept(versions):
    module = nn.Sequential(nn.Linear(6, 4), nn.ReLU()).eval()
    run = compiled(module)
    for count in (2, 3, 4, 3, 2):
        x = torch.randn(count, 6)
        same(run(x), module(x))
    assert len(versions) == 4  # 2; then the size is open, and 3, 4, 2 have one each


@torch.no_grad()
def test_weights_that_change_are_seen(versions):
    module = nn.Linear(6, 4).eval()
    run = compiled(module)
    x = torch.randn(2, 6)
    same(run(x), module(x))
    module.weight.mul_(2)
    same(run(x), module(x))
    module.load_state_dict(nn.Linear(6, 4).state_dict())
    same(run(x), module(x))
    assert len(versions) == 3


class Broken(nn.Module):
    def forward(self, x):
        y = torch.relu(x) + 1
        return torch.linalg.svd(y)[1] * torch.sigmoid(x[0])


@torch.no_grad()
def test_what_is_unsupported_runs_in_eager_mode_with_one_warning(versions):
    x = torch.randn(4, 4)
    run = compiled(Broken())
    with collected_warnings() as warnings:
        same(run(x), Broken()(x))
        same(run(x), Broken()(x))
    (message,) = warnings
    assert message.startswith("mlc leaves a subgraph")
    assert "aten._linalg_svd.default" in message
    assert not versions


class Split(nn.Module):
    def forward(self, x):
        y = torch.relu(x) * 2
        torch._dynamo.graph_break()
        z = torch.linalg.svd(y)[1]
        torch._dynamo.graph_break()
        return z + x.sum()


@torch.no_grad()
def test_each_subgraph_falls_back_for_itself(versions):
    x = torch.randn(4, 4)
    with collected_warnings() as warnings:
        same(compiled(Split())(x), Split()(x))
    assert warnings[0].startswith("mlc leaves a subgraph of torch.compile to eager PyTorch")
    assert len(versions) == 2


def test_gradients_are_left_to_eager_mode(versions):
    module = nn.Linear(4, 4)
    with collected_warnings() as warnings:
        result = compiled(module)(torch.ones(2, 4))
    assert "gradients are wanted; call it under torch.no_grad" in warnings[0]
    result.sum().backward()
    assert module.weight.grad is not None
    assert not versions


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x, row):
        self.count += 1
        x[1] = row
        return x * self.count, x.sum(0), None, x.shape[0]


@torch.no_grad()
def test_writes_reach_the_callers_tensors():
    ours, theirs = InPlace(), InPlace()
    run = compiled(ours)
    for _ in range(2):
        x, row = torch.randn(3, 3), torch.randn(3)
        copy = x.clone()
        got, wanted = run(x, row), theirs(copy, row)
        same(got[0], wanted[0])
        same(got[1], wanted[1])
        assert got[2:] == wanted[2:]
        same(x, copy)
        same(ours.count, theirs.count)


@torch.no_grad()
def test_narrow_floats_and_inference_mode():
    module = nn.Sequential(nn.Linear(8, 8), nn.GELU()).bfloat16()
    x = torch.randn(3, 8).bfloat16()
    with torch.inference_mode():
        got = compiled(module)(x)
    torch.testing.assert_close(got, module(x), rtol=0.02, atol=0.02)
    assert got.dtype == torch.bfloat16


@torch.no_grad()
def test_a_bug_in_mlc_is_told_and_eager_mode_goes_on(monkeypatch):
    def broken(*arguments):
        raise KeyError("lost")

    monkeypatch.setattr(backend, "Version", broken)
    x = torch.randn(3)
    with collected_warnings() as warnings:
        same(compiled(nn.ReLU())(x), x.relu())
    assert warnings[0].endswith("to eager PyTorch: a bug in mlc: KeyError: 'lost'")


@torch.no_grad()
def test_scales_and_numbers_that_change(versions):
    x = torch.randn(1, 2, 3, 4)
    resize, times = compiled(lambda x: F.interpolate(x, scale_factor=2)), compiled(lambda x, n: x * n)
    with collected_warnings() as warnings:
        for height in (3, 5, 6):
            picture = torch.randn(1, 2, height, 4)
            same(resize(picture), F.interpolate(picture, scale_factor=2))
        for number in (2, 3, 2.5, 3.5):
            same(times(x, number), x * number)
    assert versions
    assert not warnings


@torch.no_grad()
def test_a_write_through_data_is_noticed_after_a_reset():
    layer, x = nn.Linear(4, 3), torch.randn(2, 4)
    compiled = torch.compile(layer, backend="mlc")
    before = compiled(x)
    layer.weight.data.mul_(3)
    torch.testing.assert_close(compiled(x), before)  # PyTorch counts no such write
    torch.compiler.reset()
    torch.testing.assert_close(compiled(x), layer(x))


@torch.no_grad()
def test_options_that_mlc_has_not_are_an_error():
    with pytest.raises(Exception, match="mlc has no option 'thread'; did you mean 'threads'"):
        torch.compile(nn.ReLU(), backend="mlc", options={"thread": 11})(torch.ones(3))
    for options, message in [
        ({"target": "znver9"}, "znver9"),
        ({"precision": "int8"}, "expected precision to be one of f32, bf16, f16"),
        ({"opt_level": 7}, "expected opt_level to be 0 to 4, but got 7"),
        ({"threads": -1}, "threads"),
    ]:
        with pytest.raises(Exception, match=message):
            torch.compile(nn.ReLU(), backend="mlc", options=options)(torch.ones(3))
