"""What is imported: names, sizes left open, weights, element types; and the errors of the import."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch frontend need torch")

from eager import check, eager, fed, run_module  # noqa: E402
from torch import nn  # noqa: E402
from torch.export import Dim, export  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import mlc  # noqa: E402
from mlc.dialects.graph import ParamOp, location_name  # noqa: E402
from mlc.frontends.torch.arrays import to_numpy, to_torch  # noqa: E402
from mlc.support.errors import UnsupportedOps, UserError  # noqa: E402


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(100, 20), nn.ReLU())
        self.register_buffer("table", torch.randn(20, 300))

    def forward(self, x, more, scale=None):
        y = self.body(x) + more["bias"] + more["pair"][1]
        return {"hidden": y, "pair": (y @ self.table, [y * torch.arange(20) if scale is None else y * scale, None])}


def nested_inputs():
    return torch.randn(3, 100), {"bias": torch.randn(20), "pair": (torch.randn(1), torch.randn(3, 1))}


def test_inputs_and_outputs_have_the_names_of_the_signature():
    model = mlc.from_torch(Nested(), nested_inputs(), {"scale": torch.randn(20)})
    assert model.inputs == ("x", "more_bias", "more_pair_0", "more_pair_1", "scale")
    assert model.outputs == ("hidden", "pair_0", "pair_1_0")
    (one,) = mlc.from_torch(nn.ReLU(), (torch.ones(2),)).outputs
    assert one == "output"


def test_values_of_nested_inputs():
    x, more = nested_inputs()
    module = Nested()
    exe = mlc.compile(mlc.load(export(module, (x, more))), threads=1)
    check(fed(exe, (x, more["bias"], *more["pair"])), eager(module, (x, more)))


def test_weights_are_shared_and_ops_say_where_they_come_from():
    module = Nested()
    model = mlc.from_torch(module, nested_inputs())
    assert np.shares_memory(model.weights.array("body.0.weight"), module.body[0].weight.detach().numpy())
    assert np.shares_memory(model.weights.array("table"), module.table.numpy())
    places = [location_name(op) for op in model.main.body.block.ops if not isinstance(op, ParamOp)]
    assert {"body.0/linear", "body.1/relu", "matmul"} <= set(places)


def test_a_program_is_compiled_at_once_and_saved(tmp_path):
    x = torch.randn(2, 100)
    program = export(nn.Linear(100, 3), (x,))
    mlc.load(program).save(tmp_path / "linear.mlir")
    wanted = eager(program.module(), (x,))
    check(fed(mlc.compile(program, threads=1), (x,)), wanted)
    check(fed(mlc.compile(tmp_path / "linear.mlir", threads=1), (x,)), wanted)


class Open(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x, y):
        joined = torch.cat([self.linear(x), y], 1)
        return joined.reshape(-1, 4), joined.mean(1), x.new_zeros(x.shape[0], x.shape[1] * 2)


def open_program():
    batch, length = Dim("batch", min=2, max=64), Dim("length", max=100)
    shapes = {"x": {0: batch, 1: length}, "y": {0: batch}}
    return export(Open(), (torch.randn(3, 5, 8), torch.randn(3, 2, 4)), dynamic_shapes=shapes)


def test_open_sizes_are_symbols_with_a_range():
    main = mlc.load(open_program()).main
    text = str(main)
    assert "x_0 = #graph.symbol<2 to 64 like 2>" in text
    assert "tensor<?x2x4xf32, #graph.dims<[x_0]>>" in str(main.function_type.inputs.data[1])
    assert "#graph.dims<[x_0 * 2 + x_0 * x_1<0 to 100>]>" in str(main.function_type.outputs.data[0])
    main.verify()


class Inner(nn.Module):
    def forward(self, x):
        return x[:, 1 : x.shape[1] - 1]


def test_slices_that_end_before_an_open_size():
    model = mlc.from_torch(Inner(), (torch.ones(2, 6),), dynamic_shapes=({1: Dim("length", min=4, max=64)},))
    assert "#graph.dims<[x_1 - 2]>" in str(model.main.function_type.outputs.data[0])
    model.main.verify()


@pytest.mark.parametrize("sizes", [(3, 5), (7, 1)])
def test_sizes_are_given_to_compile(sizes):
    batch, length = sizes
    program = open_program()
    inputs = torch.randn(batch, length, 8), torch.randn(batch, 2, 4)
    shapes = {"x": (batch, length, 8), "y": (batch, 2, 4)}
    check(fed(mlc.compile(program, shapes=shapes, threads=1), inputs), eager(program.module(), inputs))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"x": (65, 5, 8), "y": (65, 2, 4)}, "input 'x': expected a size in 2..64 on axis 0, but got 65"),
        ({"x": (3, 5, 9)}, r"input 'x': expected a shape like \(.*, 8\), but got \(3, 5, 9\)"),
        ({"x": (3, 5)}, "input 'x': expected a shape like"),
        ({"x": (3, 5, 8), "y": (4, 2, 4)}, "input 'y': expected a shape like"),
        ({"z": (3,)}, r"shapes= names \['z'\], but the inputs are \['x', 'y'\]"),
    ],
)
def test_shapes_that_do_not_fit(shapes, message):
    with pytest.raises(UserError, match=message):
        mlc.load(open_program(), shapes)


class Half(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.linear = nn.Conv2d(3, 8, 3), nn.LayerNorm(8), nn.Linear(8, 8)
        self.embed = nn.Embedding(50, 8)

    def forward(self, x, ids, mask):
        y = F.gelu(self.conv(x)).mean((2, 3))[:, None] + self.embed(ids)
        y = self.norm(self.linear(y))
        y = F.scaled_dot_product_attention(y, y, y, attn_mask=mask)
        return y.softmax(-1), F.silu(y) * 2, (y > 0) & mask.any(-1, keepdim=True), ids + 1


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 0.04), (torch.float16, 0.005)])
def test_narrow_floats_integers_and_masks(dtype, tolerance):
    module = Half().to(dtype)
    mask = torch.tensor([[True, False, False], [True, True, False], [True, True, True]])
    inputs = torch.rand(2, 3, 6, 6).to(dtype), torch.randint(0, 50, (2, 3)), mask
    exe = mlc.compile(mlc.from_torch(module.eval(), inputs), threads=1)
    wanted, got = eager(module, inputs), fed(exe, inputs)
    del wanted["output_2"], got["output_2"]  # whether rounded numbers are above 0
    check(got, wanted, rtol=tolerance, atol=tolerance)
    assert np.shares_memory(to_numpy(module.linear.weight), module.linear.weight.detach().view(torch.int16).numpy())


def test_tensors_become_arrays_and_come_back():
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.uint8, torch.float64):
        tensor = torch.tensor([[0, 1], [1, 0]]).to(dtype)
        back = to_torch(to_numpy(tensor))
        assert back.dtype == dtype
        assert back.data_ptr() == tensor.data_ptr()
        assert torch.equal(back, tensor)
    with pytest.raises(UserError, match=r"expected a tensor of one of the dtypes float32, .*, but got complex64"):
        to_numpy(torch.ones(2, dtype=torch.complex64))


class Written(nn.Module):
    def forward(self, x, cache):
        cache[1:2] = x
        return x * 2


def test_an_input_that_is_written_is_an_output_too():
    x, cache = torch.randn(1, 4), torch.zeros(3, 4)
    exe = mlc.compile(mlc.from_torch(Written(), (x, cache)), threads=1)
    got = fed(exe, (x, cache))
    assert list(got) == ["cache", "output"]
    np.testing.assert_array_equal(got["cache"][1], x[0].numpy())
    assert not cache.any()


class NoGrad(nn.Module):
    def forward(self, x):
        with torch.no_grad():
            y = x * 2
        return y + x


def test_regions_without_gradients():
    run_module(NoGrad(), (torch.randn(3),))


class Strange(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.ModuleDict({"solver": nn.Module()})
        self.inner["solver"].forward = lambda x: torch.linalg.svd(x)[1]

    def forward(self, x):
        return self.inner["solver"](x), torch.linalg.qr(x)[0], torch.fft.fft(x).real


def test_everything_unsupported_is_named_at_once_with_its_line():
    with pytest.raises(UnsupportedOps) as caught:
        mlc.from_torch(Strange(), (torch.randn(3, 3),))
    text = str(caught.value)
    for op in ("aten._linalg_svd.default", "aten.linalg_qr.default", "aten._fft_r2c.default"):
        assert op in text
    assert "inner.solver/_linalg_svd: " in text
    assert "(test_export.py:" in text
    assert "torch.linalg.qr(x)[0]" in text


class DataDependent(nn.Module):
    def forward(self, x):
        return x[x > 0]


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Dropout(), "but its dropout is on; call eval"),
        (nn.BatchNorm1d(4), "call eval"),
        (DataDependent(), "a mask: how much it keeps depends on data"),
        (nn.Identity, r"expected a torch\.nn\.Module, but got type"),
    ],
)
def test_modules_that_cannot_be_imported(module, message):
    with pytest.raises(UserError, match=message):
        mlc.from_torch(module, (torch.randn(3, 4),))


def test_load_says_what_to_call_with_a_module():
    with pytest.raises(UserError, match=r"expected a torch.export program, but got ReLU; call mlc.from_torch"):
        mlc.load(nn.ReLU())
