"""Sizes that must be equal: what symbols become, at import, and which inputs are refused when the model runs."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnx_sizes import ints, model_of, node
from size_expressions import build, expressions

import mlc
from mlc.dialects.graph.dims import DimExpr, with_ends
from mlc.frontends.common.sizes import applied
from mlc.frontends.onnx.equal_sizes import substitutions
from mlc.frontends.onnx.symbols import narrowed
from mlc.support.errors import UserError, collected_warnings

H, W, N, M, T = map(DimExpr.symbol, "HWNMT")
ANY = dict.fromkeys("NMHWT", (1, 10**9 - 1))


def ends(size):
    """A size's text with the ends of its symbols."""
    return DimExpr.of(size).text(with_ends)


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        ((H + 15) // 16, (H + 31) // 32 * 2, {"H": H * 32}),
        ((H + 1) // 2, H // 2, {"H": H * 2}),
        ((H + 6) // 7 * 7, H, {"H": H * 7}),
        ((H * W) // 4 * 4, H * W, {"H": H * 2, "W": W * 2}),
        (N, M, {"M": N}),
        (T, N + M, {"T": N + M}),
        (N * 2, M, {"M": N * 2}),
        (H, 3, {"H": 3}),
        ((H + 15) // 48, 1, {"H": DimExpr.symbol("H", 33, 80)}),
        ((W + 3) // 8 * ((H + 15) // 48), (W + 3) // 8, {"H": DimExpr.symbol("H", 33, 80)}),
        (H * H, 9, {"H": 3}),
        (H * W, H * N, {"W": N}),
    ],
)
def test_the_mildest_way_to_make_sizes_equal(a, b, wanted):
    found = next(substitutions(a, b, ANY))
    assert {n: ends(size) for n, size in found.items()} == {n: ends(size) for n, size in wanted.items()}
    assert applied(a, found) == applied(b, found)


@pytest.mark.parametrize(("a", "b"), [(H + 1, H), (H, H * 2), (H * 2, W * 3), (H // 5000 + 1, 7)])
def test_sizes_that_are_never_equal(a, b):
    assert not [s for s in substitutions(a, b, ANY) if narrowed(ANY, s) is not None]


@settings(max_examples=100)
@given(expressions, expressions)
def test_a_substitution_makes_sizes_equal(one, other):
    a, b = (build(tree, {"H": H, "W": W}) for tree in (one, other))
    for found in substitutions(a, b, ANY):
        p, q = applied(a, found), applied(b, found)
        if narrowed(ANY, found) is None:
            continue
        for h, w in ((1, 1), (2, 5), (9, 4)):
            values = {"H": within(found, "H", h), "W": within(found, "W", w)}
            same = DimExpr.of(p).evaluate(values) == DimExpr.of(q).evaluate(values)
            none = 0 in (DimExpr.of(p).evaluate(values), DimExpr.of(q).evaluate(values))
            assert same or none


def within(found, name, number):
    """A number that a symbol may be after a substitution."""
    low, high = narrowed(ANY, found).get(name, (1, number))
    return min(max(number, low), high)


def pyramid():
    """A small feature pyramid: one branch is halved twice and doubled, the other halved once."""
    halve = {"kernel_shape": [1, 1], "strides": [2, 2]}
    plain = {"coordinate_transformation_mode": "asymmetric"}
    scales = helper.make_tensor("scales", TensorProto.FLOAT, [4], [1.0, 1.0, 2.0, 2.0])
    nodes = [
        node("MaxPool", ["x"], "a", **halve),
        node("MaxPool", ["a"], "b", **halve),
        node("Resize", ["b", "", "scales"], "c", mode="nearest", nearest_mode="floor", **plain),
        node("Add", ["a", "c"], "y"),
    ]
    return model_of(nodes, {"x": ["batch", 3, "?", "p2o.DynamicDimension.7"]}, [scales])


def test_a_pyramid_takes_pictures_in_steps():
    model = mlc.load(pyramid())
    assert "#graph.dims<[batch, x_2 * 4, x_3 * 4]>" in str(model.main.function_type.inputs.data[0])
    assert str(model.main.attributes["graph.symbols"].data["x_2"]) == "#graph.symbol<1 to 249999999 like 160>"
    given = mlc.load(pyramid(), symbols={"x_2": (10, 50, 2)})
    assert str(given.main.attributes["graph.symbols"].data["x_2"]) == "#graph.symbol<3 to 12 like 12>"


def test_a_pyramid_is_right_at_many_sizes():
    exe = mlc.compile(pyramid(), threads=1, cache=False)
    for shape in ((1, 3, 4, 8), (2, 3, 12, 36), (1, 3, 8, 268)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        a = x[:, :, ::2, ::2]
        wanted = a + a[:, :, ::2, ::2].repeat(2, 2).repeat(2, 3)
        np.testing.assert_allclose(exe({"x": x})["y"], wanted, rtol=1e-6)
    message = r"expected axis 3 of input 'x' \(x_3\) from 4 on in steps of 4, but got 10"
    with pytest.raises(ValueError, match=message):
        exe({"x": np.ones((1, 3, 4, 10), np.float32)})


def sums():
    return model_of([node("Add", ["a", "b"], "y")], {"a": ["N", 4], "b": ["M", 4]})


def test_two_symbols_become_one(tmp_path):
    exe = mlc.compile(sums(), threads=1, cache=False)
    assert [spec.shape for spec in (*exe.inputs, *exe.outputs)] == [("N", 4)] * 3
    a, b = np.random.default_rng(0).standard_normal((2, 5, 4)).astype(np.float32)
    np.testing.assert_array_equal(exe({"a": a, "b": b})["y"], a + b)
    message = r"expected axis 0 of input 'b' to be 5, as axis 0 of input 'a' says \(N\), but got 3"
    with pytest.raises(ValueError, match=message):
        exe({"a": a, "b": b[:3]})


def test_one_size_follows_from_others():
    nodes = [node("Concat", ["p", "s"], "all", axis=0), node("Add", ["all", "mask"], "y")]
    exe = mlc.compile(model_of(nodes, {"p": ["P", 2], "s": ["S", 2], "mask": ["T", 2]}), threads=1, cache=False)
    p, s, mask = (np.full((n, 2), n, np.float32) for n in (3, 4, 7))
    np.testing.assert_array_equal(exe({"p": p, "s": s, "mask": mask})["y"], np.concatenate([p, s]) + mask)
    with pytest.raises(ValueError, match=r"expected axis 0 of input 'mask' to be 7 \(P \+ S\), but got 6"):
        exe({"p": p, "s": s, "mask": mask[:6]})


def test_a_size_that_must_be_one_number_is_fixed():
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [-1, 6])
    nodes = [node("Reshape", ["x", "shape"], "flat"), node("Add", ["flat", "b"], "y")]
    model = model_of(nodes, {"x": ["n", 2, "k"], "b": ["n", 6]}, [shape])
    with collected_warnings() as heard:
        loaded = mlc.load(model)
    assert "tensor<?x2x3xf32, #graph.dims<[n]>>" in str(loaded.main.function_type.inputs.data[0])
    assert [m.partition(";")[0] for m in heard] == ["g: the size k is fixed at 3"]


def test_a_size_that_must_be_1_is_a_range():
    """Rows are pooled away, as in a recogniser of text; its pictures may be of several heights."""
    pool = {"kernel_shape": [2, 1]}
    weight = onnx.numpy_helper.from_array(np.random.default_rng(1).standard_normal((2, 2, 3, 3)).astype("f4"), "w")
    nodes = [
        node("Conv", ["x", "w"], "a", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 1]),
        node("MaxPool", ["a"], "b", strides=[2, 1], **pool),
        node("AveragePool", ["b"], "c", strides=[2, 1], **pool),
        node("Squeeze", ["c", "axis"], "y"),
    ]
    model = model_of(nodes, {"x": ["N", 2, "H", "W"]}, [ints("axis", 2), weight])
    main = mlc.load(model).main
    assert "[N, H<7 to 14>, W]" in str(main.function_type.inputs.data[0])
    assert "[N, W]" in str(main.function_type.outputs.data[0])
    exe, reference = mlc.compile(model, threads=1, cache=False, validate_each=True), ReferenceEvaluator(model)
    for sizes in ((1, 2, 7, 9), (2, 2, 8, 33), (1, 2, 14, 3)):
        x = np.random.default_rng(0).standard_normal(sizes).astype(np.float32)
        np.testing.assert_allclose(exe({"x": x})["y"], reference.run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match=r"expected axis 2 of input 'x' \(H\) from 7 to 14, but got 15"):
        exe({"x": np.ones((1, 2, 15, 4), np.float32)})
    with pytest.raises(UserError, match="expected axes of size 1"):
        mlc.load(model, symbols={"H": (15, 40)})


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        (None, "expected shapes that broadcast together, but got Nx4 and \\(N \\+ 1\\)x4"),
        ({"N": (2, 3)}, "axis 0 is N in one and N \\+ 1 in another"),
    ],
)
def test_sizes_that_cannot_be_equal_are_refused(symbols, message):
    one = helper.make_tensor("one", TensorProto.FLOAT, [1, 4], [0.0] * 4)
    nodes = [node("Concat", ["x", "one"], "more", axis=0), node("Add", ["x", "more"], "y")]
    with pytest.raises(UserError, match=message):
        mlc.load(model_of(nodes, {"x": ["N", 4]}, [one]), symbols=symbols)


def test_a_range_that_leaves_no_size_is_refused():
    with pytest.raises(UserError, match="axis 0 is N in one and M in another"):
        mlc.load(sums(), symbols={"N": (1, 4), "M": (5, 9)})


def test_names_that_exporters_make_up_become_readable():
    inputs = {"x.1": ["unk__12", "a.b", "a_b", "?", None], "z": ["unk__12", "a.b", 1, 1, "dynamic_axes_3"]}
    loaded = mlc.load(model_of([node("Add", ["x.1", "z"], "y")], inputs))
    sizes = [str(t) for t in loaded.main.function_type.inputs]
    assert "[x_1_0, a_b, x_1_2, x_1_3, x_1_4]" in sizes[0]
    assert "[x_1_0, a_b, x_1_4]" in sizes[1]


def test_a_comparison_of_sizes_must_be_decided():
    constants = [helper.make_tensor(n, TensorProto.INT64, [1], [v]) for n, v in (("three", 3), ("none", -1))]

    def compare(with_, symbols=None):
        where = [node("Where", ["same", "n", "three"], "to"), node("Expand", ["row", "to"], "y")]
        shape = [node("Shape", ["x"], "n", start=0, end=1), node("Equal", ["n", with_], "same")]
        return mlc.load(model_of([*shape, *where], {"x": ["N"], "row": [1]}, constants), symbols=symbols)

    assert str(compare("none").main.function_type.outputs.data[0]) == "tensor<3xf32>"
    assert str(compare("three", {"N": (4, 100)}).main.function_type.outputs.data[0]) == "tensor<3xf32>"
    with pytest.raises(UserError, match=r"expected sizes that compare .* but got N and 3; give their ranges"):
        compare("three")


def test_positions_restrict_how_many_there_are():
    table = onnx.numpy_helper.from_array(np.arange(24, dtype=np.float32).reshape(12, 2), "table")
    scalars = [onnx.numpy_helper.from_array(np.array(v, np.int64), n) for n, v in (("zero", 0), ("one", 1))]
    nodes = [
        node("Shape", ["x"], "shape", start=0, end=1),
        node("Squeeze", ["shape"], "n"),
        node("Range", ["zero", "n", "one"], "places"),
        node("Gather", ["table", "places"], "rows"),
        node("Add", ["x", "rows"], "y"),
    ]
    exe = mlc.compile(model_of(nodes, {"x": ["N", 2]}, [table, *scalars]), threads=1, cache=False)
    x = np.ones((5, 2), np.float32)
    np.testing.assert_array_equal(exe({"x": x})["y"], x + np.arange(10).reshape(5, 2))
    with pytest.raises(ValueError, match=r"expected axis 0 of input 'x' \(N\) from 1 to 12, but got 13"):
        exe({"x": np.ones((13, 2), np.float32)})


def sliced(start, end, over, inputs):
    """A model of a slice whose ends are sizes: `start` and `end` are numbers, or steps from the size of x."""
    nodes, constants = [node("Shape", ["x"], "n", start=0, end=1)], [ints("axis", 0), ints("one", 1)]
    for name, (size, off) in {"start": start, "end": end}.items():
        constants.append(ints(f"{name}_off", off))
        nodes.append(node("Add" if size else "Mul", ["n" if size else "one", f"{name}_off"], name))
    table = onnx.numpy_helper.from_array(np.arange(40, dtype=np.float32).reshape(20, 2), "table")
    nodes += [node("Slice", [over, "start", "end", "axis"], "part"), node("Relu", ["part"], "y")]
    return model_of(nodes, inputs, [*constants, table])


@pytest.mark.parametrize(
    ("start", "end", "over"),
    [
        ((0, 0), (1, 0), "table"),
        ((0, 2), (1, 3), "table"),
        ((0, 1), (1, -1), "x"),
    ],
)
def test_slices_that_end_at_a_size(start, end, over):
    exe = mlc.compile(sliced(start, end, over, {"x": ["N", 2]}), threads=1, cache=False)
    table = np.arange(40, dtype=np.float32).reshape(20, 2)
    for n in (4, 17):
        x = np.random.default_rng(n).standard_normal((n, 2)).astype(np.float32)
        first, last = (n * size + off for size, off in (start, end))
        wanted = (table if over == "table" else x)[first:last]
        np.testing.assert_array_equal(exe({"x": x})["y"], np.maximum(wanted, 0))


def test_slices_that_may_end_beyond_are_as_long_as_there_is():
    exe = mlc.compile(sliced((0, 0), (1, 0), "z", {"x": ["N", 2], "z": ["M", 2]}), threads=1, cache=False)
    assert exe.outputs[0].shape == ("min(M, N)", 2)
    for n, m in ((3, 7), (7, 3)):
        z = np.random.default_rng(n).standard_normal((m, 2)).astype(np.float32)
        np.testing.assert_array_equal(exe({"x": np.ones((n, 2), np.float32), "z": z})["y"], np.maximum(z[:n], 0))


@pytest.mark.parametrize(("start", "end", "least"), [((0, 1), (1, -1), 3), ((0, 4), (0, 1 << 62), 5)])
def test_sizes_that_would_leave_nothing_are_refused(start, end, least):
    model = mlc.load(sliced(start, end, "x", {"x": ["N", 2]}))
    assert model.main.attributes["graph.symbols"].data["N"].low.data == least
    with pytest.raises(UserError, match=r"a size N.* of at least"):
        mlc.load(sliced(start, end, "x", {"x": ["N", 2]}), symbols={"N": (1, least - 1)})
