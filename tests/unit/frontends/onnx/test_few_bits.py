"""Weights of 2, 4 and 8 bits, packed or typed, and constants of any size, beside onnxruntime or numpy."""

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_graphs import check_beside_onnxruntime, model_of, theirs

import mlc
from mlc.frontends.onnx import import_model
from mlc.support.errors import UserError
from mlc.support.limits import limits

onnxruntime.set_default_logger_severity(4)
RNG = np.random.default_rng(5)
Case = tuple[onnx.ModelProto, dict[str, Any]]


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def bytes_(*shape: int) -> Any:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def scales_(*shape: int) -> Any:
    return (RNG.random(shape) * 0.1 + 0.05).astype(np.float32)


def run(proto: onnx.ModelProto, feeds: dict[str, Any]) -> Any:
    return mlc.compile(proto, threads=1, cache=False)(feeds)["y"]


# --- MatMulNBits ----------------------------------------------------------------------------------------------------


def product(k: int, n: int, block: int, bits: int, zeros: str = "", **more: Any) -> Case:
    """A product with weights of so many bits; `more` gives other constants by the op's name for them, or attributes."""
    blocks = -(-k // block)
    constants = {"B": bytes_(n, blocks, block * bits // 8), "scales": scales_(n, blocks)}
    if zeros == "packed":
        constants["zero_points"] = bytes_(n, -(-blocks * bits // 8))
    if zeros == "float":
        constants["zero_points"] = normal(n, blocks) + 3
    inputs = {"A": more.pop("A", normal(2, 3, k))}
    constants |= {name: value for name, value in more.items() if isinstance(value, np.ndarray)}
    attrs = {name: value for name, value in more.items() if name not in constants}
    order = ("A", "B", "scales", "zero_points", "g_idx", "bias")
    names = " ".join(name if name in inputs | constants else "_" for name in order)
    return theirs(
        "MatMulNBits", inputs, constants, names, **{"K": k, "N": n, "block_size": block, "bits": bits} | attrs
    )


def numbers(packed: Any, bits: int, columns: int) -> Any:
    """Numbers of so many bits of each row, as a loop over bytes finds them."""
    rows = [
        [byte >> shift & ((1 << bits) - 1) for byte in row for shift in range(0, 8, bits)]
        for row in packed.reshape(len(packed), -1).tolist()
    ]
    return np.array(rows, np.float64)[:, :columns]


def weight(case: Case) -> Any:
    """The weight that a product's constants stand for, by the formula of the op."""
    given = {tensor.name: numpy_helper.to_array(tensor) for tensor in case[0].graph.initializer}
    attrs = {a.name: a.i for a in case[0].graph.node[0].attribute}
    k, n, bits = attrs["K"], attrs["N"], attrs["bits"]
    scales = given["scales"].reshape(n, -1)
    zeros = given.get("zero_points", np.full(scales.shape, float(1 << (bits - 1))))
    zeros = numbers(zeros, bits, scales.shape[1]) if zeros.dtype == np.uint8 else zeros
    groups = given["g_idx"][:k] if "g_idx" in given else np.arange(k) // attrs["block_size"]
    return (numbers(given["B"], bits, k) - zeros[:, groups]) * scales[:, groups]


PRODUCTS = {
    "128": product(128, 128, 32, 4),
    "128-packed": product(128, 128, 32, 4, "packed"),
    "128-float": product(128, 128, 32, 4, "float"),
    "large-of-8": product(160, 130, 16, 8),
    "large-of-2": product(512, 129, 32, 2, "packed"),
    "large-of-2-float": product(512, 65, 64, 2, "float"),
    "ragged": product(300, 129, 64, 4, "packed"),
    "ragged-of-8": product(300, 65, 128, 8, "packed"),
    "ragged-of-2": product(300, 129, 16, 2),
    "one-block": product(40, 200, 256, 4, "float"),
    "blocks-of-256": product(520, 70, 256, 4, "packed"),
    "scales-of-1-axis": product(144, 80, 16, 4, scales=scales_(720)),
    "flat-zeros": product(144, 80, 16, 4, scales=scales_(720), zero_points=bytes_(400)),
    "bias": product(128, 96, 32, 4, "packed", bias=normal(96)),
    "one-row": product(256, 128, 32, 4, A=normal(256)),
    "groups": product(160, 64, 32, 4, g_idx=RNG.integers(0, 5, 160).astype(np.int32)),
    "groups-of-blocks": product(150, 64, 32, 4, g_idx=RNG.integers(0, 5, 160).astype(np.int32)),
    "left-out": product(64, 9, 32, 4, B=bytes_(9, 0, 16), bias=normal(9)),
    "default-bits": (helper_case := product(96, 64, 32, 4)),
}
del helper_case[0].graph.node[0].attribute[[a.name for a in helper_case[0].graph.node[0].attribute].index("bits")]


def test_products():
    check_beside_onnxruntime(PRODUCTS)


BY_FORMULA = {
    "bytes-with-float-zeros": product(160, 65, 32, 8, "float"),
    "bytes-in-groups": product(96, 60, 32, 8, g_idx=RNG.integers(0, 3, 96).astype(np.int32)),
    "groups-with-zeros": product(160, 60, 32, 4, "packed", g_idx=RNG.integers(0, 5, 160).astype(np.int32)),
}


@pytest.mark.parametrize("name", list(BY_FORMULA))
def test_products_by_formula(name: str):
    """onnxruntime refuses these, or leaves zero points out where there is a g_idx."""
    proto, feeds = BY_FORMULA[name]
    wanted = feeds["A"] @ weight(BY_FORMULA[name]).T
    np.testing.assert_allclose(run(proto, feeds), wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_weights_that_are_inputs(bits: int):
    proto, feeds = product(72, 9, 32, bits, "packed")
    constants = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
    del proto.graph.initializer[:]
    for name, array in constants.items():
        element = helper.np_dtype_to_tensor_dtype(array.dtype)
        proto.graph.input.append(helper.make_tensor_value_info(name, element, array.shape))
    check_beside_onnxruntime({"inputs": (proto, feeds | constants)})


def test_halves():
    case = product(128, 96, 32, 4, A=normal(3, 128).astype(np.float16), scales=scales_(96, 4).astype(np.float16))
    check_beside_onnxruntime({"halves": case}, {"halves": 0.02})


ROWS = {
    "large": theirs(
        "GatherBlockQuantized",
        {"i": np.array([[0, 63], [7, -1]])},
        {"d": bytes_(64, 96), "s": scales_(64, 6), "z": bytes_(64, 3)},
        block_size=32,
    ),
    "large-of-2": theirs(
        "GatherBlockQuantized",
        {"i": np.array([5, 9])},
        {"d": bytes_(80, 64), "s": scales_(80, 8)},
        bits=2,
        block_size=32,
        quantize_axis=-1,
    ),
}
for row in ROWS.values():
    row[0].graph.node[0].input[:] = [n for n in ("d", "i", "s", "z") if n in {*row[0].graph.node[0].input}]


def test_rows_of_large_tables():
    check_beside_onnxruntime(ROWS)


# --- constants of any size ------------------------------------------------------------------------------------------


def test_known_after_a_large_reshape():
    """Packed rows of a table that the model itself reshapes: what is large is known as what is small."""
    d, s, i = bytes_(64, 4, 16), scales_(64, 2), np.array([3, 60])
    nodes = [
        helper.make_node("Reshape", ["d", "to"], ["rows"]),
        helper.make_node("GatherBlockQuantized", ["rows", "i", "s"], ["y"], domain="com.microsoft", block_size=64),
    ]
    model = model_of(nodes, {"i": i}, {"d": d, "s": s, "to": np.array([64, 64])})
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    wide = numbers(d, 4, 128) - 8
    np.testing.assert_allclose(run(model, {"i": i}), (wide * s.repeat(64, 1))[i], rtol=1e-5)


def table_model(nodes: list[Any], constants: dict[str, Any], x: Any) -> Case:
    return model_of(nodes, {"x": x}, constants), {"x": x}


TABLE = np.arange(8192, dtype=np.int64) % 97
FROM_TABLES = {
    "shape": table_model(
        [
            helper.make_node("Slice", ["t", "from", "to"], ["shape"]),
            helper.make_node("Reshape", ["x", "shape"], ["y"]),
        ],
        {"t": TABLE, "from": np.array([3]), "to": np.array([5])},
        normal(2, 6),
    ),
    "through-a-cast": table_model(
        [
            helper.make_node("Cast", ["t"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Cast", ["f"], ["w"], to=TensorProto.INT64),
            helper.make_node("Slice", ["w", "from", "to"], ["shape"]),
            helper.make_node("Expand", ["x", "shape"], ["y"]),
        ],
        {"t": TABLE, "from": np.array([2]), "to": np.array([5])},
        normal(1, 4),
    ),
    "steps": table_model(
        [
            helper.make_node("ReduceMax", ["t"], ["limit"], keepdims=0),
            helper.make_node("Range", ["zero", "limit", "one"], ["r"]),
            helper.make_node("Cast", ["r"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["x", "f"], ["y"]),
        ],
        {"t": TABLE, "zero": np.array(0), "one": np.array(1)},
        normal(96),
    ),
    "places": table_model(
        [
            helper.make_node("NonZero", ["t"], ["p"]),
            helper.make_node("Squeeze", ["p", "axis"], ["i"]),
            helper.make_node("Gather", ["x", "i"], ["y"]),
        ],
        {"t": TABLE < 2, "axis": np.array([0])},
        normal(8192),
    ),
    "dequantised": table_model(
        [
            helper.make_node("DequantizeLinear", ["t", "scale"], ["f"]),
            helper.make_node("Cast", ["f"], ["w"], to=TensorProto.INT64),
            helper.make_node("Slice", ["w", "from", "to"], ["shape"]),
            helper.make_node("Reshape", ["x", "shape"], ["y"]),
        ],
        {"t": TABLE.astype(np.int8), "scale": np.float32(1), "from": np.array([3]), "to": np.array([5])},
        normal(12),
    ),
}


def test_sizes_from_large_tables():
    check_beside_onnxruntime(FROM_TABLES)


def test_sizes_of_large_tables_are_exact():
    """A table of constants says how many places there are: none of them is a bound."""
    (y,) = import_model(FROM_TABLES["places"][0]).main.function_type.outputs.data
    assert y.get_shape() == (int((TABLE < 2).sum()),)


def test_branches_of_large_tables():
    x = normal(3)
    branches = {
        name: helper.make_graph(
            [helper.make_node("Reshape", ["x", f"to.{name}"], [f"y.{name}"])],
            name,
            [],
            [onnx.ValueInfoProto(name=f"y.{name}")],
        )
        for name in ("then_branch", "else_branch")
    }
    nodes = [
        helper.make_node("ReduceMin", ["t"], ["low"], keepdims=0),
        helper.make_node("Cast", ["low"], ["c"], to=TensorProto.BOOL),
        helper.make_node("If", ["c"], ["y"], **branches),
    ]
    constants = {"t": TABLE + 1, "to.then_branch": np.array([3, 1]), "to.else_branch": np.array([1, 1, 3])}
    assert run(model_of(nodes, {"x": x}, constants), {"x": x}).shape == (3, 1)


def test_what_folding_may_take(monkeypatch: pytest.MonkeyPatch):
    nodes = [helper.make_node("Expand", ["t", "wide"], ["w"]), helper.make_node("Reshape", ["x", "w"], ["y"])]
    model = model_of(nodes, {"x": np.array([1])}, {"t": TABLE[None], "wide": np.array([512, 1])})
    monkeypatch.setattr(limits, "folded_bytes", 1 << 20)
    with pytest.raises(UserError, match=r"Reshape.*expected at most 1048576 bytes computed from constants, but"):
        import_model(model)


def test_what_inputs_say_is_not_constant():
    nodes = [helper.make_node("Add", ["t", "x"], ["w"]), helper.make_node("Reshape", ["x", "w"], ["y"])]
    with pytest.raises(UserError, match="to be constant, but it depends on the model's input"):
        import_model(model_of(nodes, {"x": TABLE}, {"t": TABLE}))


# --- tensors of 4 and 2 bits ----------------------------------------------------------------------------------------

RANGES = {"int4": (-8, 8), "uint4": (0, 16), "int2": (-2, 2), "uint2": (0, 4)}


def whole(kind: str, *shape: int) -> Any:
    return RNG.integers(*RANGES[kind], shape).astype(getattr(ml_dtypes, kind))


def typed(kind: str, nodes: list[Any], x: Any, constants: dict[str, Any]) -> Case:
    wide = kind in ("int2", "uint2")
    model = model_of(nodes, {"x": x}, constants, opset=25 if wide else 21)
    model.ir_version = 13 if wide else 10
    return model, {"x": x}


def dequantised(kind: str, shape: tuple[int, ...], scale: Any, zero: bool = True, **attrs: Any) -> Case:
    """A sum with a weight of a narrow type."""
    constants = {"w": whole(kind, *shape), "s": scale} | ({"z": whole(kind, *scale.shape)} if zero else {})
    nodes = [
        helper.make_node("DequantizeLinear", list(constants), ["d"], **attrs),
        helper.make_node("Add", ["x", "d"], ["y"]),
    ]
    return typed(kind, nodes, normal(*shape).astype(scale.dtype), constants)


def quantised(kind: str, scale: Any, **attrs: Any) -> Case:
    """Data in steps of a narrow type, far beyond its range as well."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], **attrs),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], **attrs),
    ]
    return typed(kind, nodes, normal(6, 64), {"s": scale, "z": whole(kind, *scale.shape)})


def cases(kind: str) -> dict[str, Case]:
    cast = [helper.make_node("Cast", ["w"], ["c"], to=TensorProto.FLOAT), helper.make_node("Mul", ["x", "c"], ["y"])]
    constant = [
        helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(whole(kind, 3, 5))),
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"]),
        helper.make_node("Add", ["x", "d"], ["y"]),
    ]
    return {
        "tensor": dequantised(kind, (5, 7), scales_(), False),
        "tensor-zero": dequantised(kind, (65, 71), scales_()),
        "one-scale": dequantised(kind, (7,), scales_(1)),
        "axis": dequantised(kind, (5, 7), scales_(7)),
        "first-axis": dequantised(kind, (65, 71), scales_(65), axis=0),
        "blocks": dequantised(kind, (6, 128), scales_(6, 4), axis=-1, block_size=32),
        "ragged-blocks": dequantised(kind, (70, 128), scales_(3, 128), axis=0, block_size=32),
        "blocks-inside": dequantised(kind, (3, 64, 33), scales_(3, 4, 33), False, axis=1, block_size=16),
        "blocks-of-one-axis": dequantised(kind, (100,), scales_(7), axis=0, block_size=16),
        "halves": dequantised(kind, (128, 64), scales_(128, 4).astype(np.float16), axis=1, block_size=16),
        "data": quantised(kind, scales_()),
        "data-axis": quantised(kind, scales_(64), axis=1),
        "data-blocks": quantised(kind, scales_(6, 4), axis=1, block_size=16),
        "constant": typed(kind, constant, normal(3, 5), {"s": scales_()}),
    } | ({"cast": typed(kind, cast, normal(9, 9), {"w": whole(kind, 9, 9)})} if "4" in kind else {})


@pytest.mark.parametrize("kind", list(RANGES))
def test_narrow_tensors(kind: str):
    check_beside_onnxruntime(cases(kind), {"halves": 0.01})


def test_narrow_tensors_that_move():
    """By numpy: onnxruntime has no such Reshape."""
    w, s, x = whole("int4", 6, 35), scales_(), normal(7, 30)
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
        helper.make_node("Reshape", ["t", "to"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "s"], ["d"]),
        helper.make_node("Add", ["x", "d"], ["y"]),
    ]
    wanted = x + w.astype(np.float32).T.reshape(7, 30) * s
    found = run(*typed("int4", nodes, x, {"w": w, "s": s, "to": np.array([7, 30])}))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_narrow_weights_of_a_product():
    """By numpy: onnxruntime rounds the data of such a product to bytes."""
    w, s, x = whole("int4", 96, 70), scales_(3, 70), normal(4, 96)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=0, block_size=32),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    wanted = x @ (w.astype(np.float64) * s.repeat(32, 0))
    np.testing.assert_allclose(run(*typed("int4", nodes, x, {"w": w, "s": s})), wanted, rtol=1e-4, atol=1e-5)


NARROW_ROWS = {
    f"{kind}-{gather}": theirs(
        "GatherBlockQuantized",
        {"i": np.array([[0, 5], [2, -1]])},
        {"d": whole(kind, 70, 65), "s": scales_(*shape), "z": whole(kind, *shape)},
        "d i s z",
        block_size=16,
        gather_axis=gather,
        quantize_axis=1 - gather,
    )
    for kind, gather, shape in (("int4", 0, (70, 5)), ("uint4", 0, (70, 5)), ("int4", 1, (5, 65)))
}


def test_rows_of_narrow_tables():
    check_beside_onnxruntime(NARROW_ROWS)


def test_external_data_of_4_bits(tmp_path: Any):
    proto, feeds = dequantised("int4", (33, 65), scales_(33), axis=0)
    wanted = run(proto, feeds)
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0, location="m.bin")
    np.testing.assert_array_equal(run(tmp_path / "m.onnx", feeds), wanted)


def test_typed_data_of_4_bits():
    """Integers of 4 bits in int32_data, two to an element."""
    proto, feeds = dequantised("int4", (3, 5), scales_(), False)
    wanted, w = run(proto, feeds), proto.graph.initializer[0]
    w.CopyFrom(helper.make_tensor("w", TensorProto.INT4, [3, 5], numpy_helper.to_array(w).astype(int).reshape(-1)))
    w.int32_data[:] = list(w.raw_data) or list(w.int32_data)
    w.ClearField("raw_data")
    assert len(w.int32_data) == 8
    np.testing.assert_array_equal(run(proto, feeds), wanted)


W4 = {"w": whole("int4", 3, 5), "s": scales_()}


def refused_node(kind: str, *names: str, **attrs: Any) -> onnx.ModelProto:
    return typed("int4", [helper.make_node(kind, list(names), ["y"], "op", **attrs)], normal(3, 5), W4)[0]


def short_tensor() -> onnx.ModelProto:
    model = dequantised("int4", (3, 5), scales_())[0]
    model.graph.initializer[0].raw_data = b"1234567"
    return model


REFUSED = {
    "op": (
        refused_node("Concat", "w", "w", axis=0),
        r"op \(Concat\): expected an input of at least 8 bits, but got INT4",
    ),
    "like": (
        refused_node("CastLike", "x", "w"),
        r"op \(CastLike\): expected an input of at least 8 bits, but got INT4",
    ),
    "output": (refused_node("Identity", "w"), "output 'y': expected elements of at least 8 bits, but got INT4"),
    "quantised-output": (
        refused_node("QuantizeLinear", "x", "s", output_dtype=TensorProto.UINT4),
        "output 'y': expected elements of at least 8 bits, but got UINT4; add a Cast to INT8",
    ),
    "to": (refused_node("Cast", "x", to=TensorProto.INT4), "but got INT4"),
    "bytes": (short_tensor(), r"initializer 'w': expected 8 bytes for \[3, 5\], but got 7"),
    "input": (
        model_of([helper.make_node("DequantizeLinear", ["w", "s"], ["y"])], {"w": W4["w"]}, {"s": W4["s"]}),
        "input 'w': expected elements of float32, .*, but got INT4",
    ),
    "blocks": (
        dequantised("int4", (6, 128), scales_(6, 3), axis=1, block_size=32)[0],
        r"expected scales of \[6, 4\], one for each 32 of axis 1, but got \[6, 3\] for numbers of \[6, 128\]",
    ),
    "axis": (
        dequantised("int4", (6, 8), scales_(7), axis=1)[0],
        r"expected a scale and zero point of one number, 8 of axis 1, or one a block of it, but got \[7\]",
    ),
    "rank": (
        dequantised("int4", (6, 8), scales_(8), axis=1, block_size=4)[0],
        r"expected a block_size >= 0, and as many axes of scales as of the tensor, but got 4 and scales of \[8\]",
    ),
    "prepacked": (product(64, 32, 32, 4, weight_prepacked=1)[0], "expected weight_prepacked = 0, but got 1"),
    "weight": (
        product(64, 32, 32, 4, B=bytes_(32, 2, 15))[0],
        r"expected B of shape \[32, 32\] or \[32, 2, 16\] or \[1024\], but got \[32, 2, 15\]",
    ),
    "scales": (product(64, 32, 32, 4, scales=scales_(32, 3))[0], r"expected scales of shape \[32, 2\] or \[64\], but"),
    "block": (product(64, 32, 32, 4, block_size=24)[0], "expected K and N of at least 1 and a block_size of 16, 32"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_refused(name: str):
    proto, message = REFUSED[name]
    with pytest.raises(UserError, match=message):
        import_model(proto)
