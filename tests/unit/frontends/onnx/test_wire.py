"""Raw data that stays in the mapped model file: the tensors are those that protobuf reads, whatever the file holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import mlc
from mlc.frontends.onnx import files, wire
from mlc.frontends.onnx.external import ExternalData
from mlc.frontends.onnx.files import read_model, tensor_array
from mlc.support.errors import UserError

LOCATION = "drawn at random"


@pytest.fixture
def all_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tensor of every file counts as large."""
    monkeypatch.setattr(wire, "KEPT_BYTES", 1)
    monkeypatch.setattr(files, "MAPPED_BYTES", 0)


def weight(name: str, *shape: int, dtype: str = "float32") -> onnx.TensorProto:
    rng = np.random.default_rng(len(name) + sum(shape))
    return numpy_helper.from_array((rng.standard_normal(shape) * 50).astype(dtype), name)


def dense_model(weights: onnx.TensorProto, **constant: onnx.TensorProto) -> onnx.ModelProto:
    """x (2x8) times the weights, plus a constant of a node."""
    nodes = [
        helper.make_node("Constant", [], ["c"], value=constant.get("constant", weight("c", 4))),
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "c"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 8])]
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 4])]
    graph = helper.make_graph(nodes, "dense", inputs, outputs, [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def all_tensors(graph: onnx.GraphProto) -> list[onnx.TensorProto]:
    found = list(graph.initializer)
    for node in graph.node:
        for attribute in node.attribute:
            found += [attribute.t] if attribute.HasField("t") else []
            found += all_tensors(attribute.g) if attribute.HasField("g") else []
    return found


def lean(model: onnx.ModelProto) -> tuple[onnx.ModelProto, ExternalData] | None:
    content = memoryview(model.SerializeToString())
    data = wire.without_raw_data(content, LOCATION)
    return None if data is None else (onnx.ModelProto.FromString(data), ExternalData(None, content, LOCATION))


shapes = st.lists(st.integers(0, 9), max_size=3)
tensors = st.builds(
    lambda name, shape, dtype: weight(name, *shape, dtype=dtype),
    st.text(max_size=3),
    shapes,
    st.sampled_from(["float32", "float64", "int64", "uint8", "float16"]),
)


@st.composite
def graphs(draw: st.DrawFn, depth: int = 2) -> onnx.GraphProto:
    nodes = [helper.make_node("Constant", [], ["c"], value=one) for one in draw(st.lists(tensors, max_size=2))]
    if depth:
        nodes += [helper.make_node("If", ["x"], ["y"], then_branch=draw(graphs(depth - 1)))] * draw(st.integers(0, 2))
    return helper.make_graph(nodes, "g", [], [], draw(st.lists(tensors, max_size=3)), doc_string=draw(st.text()))


@given(graphs(), st.sampled_from([1, 20, 100]))
def test_tensors_are_those_that_protobuf_reads(graph: onnx.GraphProto, large: int):
    model = helper.make_model(graph)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire, "KEPT_BYTES", large)
        found = lean(model)
        sizes = [len(tensor.raw_data) for tensor in all_tensors(model.graph)]
        if found is None:
            assert all(size < large for size in sizes)
            return
        small, external = found
    for ours, theirs in zip(all_tensors(small.graph), all_tensors(model.graph), strict=True):
        assert ours.HasField("raw_data") == (len(theirs.raw_data) < large)
        array = tensor_array(ours, "here", external)
        assert array.dtype == numpy_helper.to_array(theirs).dtype
        np.testing.assert_array_equal(array, numpy_helper.to_array(theirs))
        for field in ("raw_data", "external_data", "data_location"):
            ours.ClearField(field)
            theirs.ClearField(field)
    assert small == model  # but for the data that was compared


@given(graphs(), st.data())
def test_damaged_files_are_refused_or_read_as_before(graph: onnx.GraphProto, data: st.DataObject):
    content = bytearray(helper.make_model(graph).SerializeToString())
    at = data.draw(st.integers(0, len(content) - 1))
    content = content[:at] if data.draw(st.booleans()) else content[:at] + b"\xff" + content[at + 1 :]
    try:
        whole = onnx.ModelProto.FromString(bytes(content))
    except Exception:
        whole = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire, "KEPT_BYTES", 1)
        found = wire.without_raw_data(memoryview(bytes(content)), LOCATION)
    if found is None:
        return  # protobuf has the whole content
    try:
        small = onnx.ModelProto.FromString(found)
    except Exception:
        assert whole is None
        return
    assert whole is not None
    assert [t.name for t in all_tensors(small.graph)] == [t.name for t in all_tensors(whole.graph)]


def test_raw_data_that_is_given_twice_or_elsewhere_stays(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wire, "KEPT_BYTES", 1)
    twice = weight("w", 2, 3).SerializeToString() * 2
    graph = onnx.GraphProto(initializer=[onnx.TensorProto.FromString(twice)])
    content = onnx.ModelProto(graph=graph).SerializeToString()
    inner = content.index(graph.initializer[0].SerializeToString())
    assert inner > 0  # protobuf has merged them; the bytes of two fields are put together by hand
    tensor = _field(5, twice)
    merged = _field(7, tensor)
    assert wire.without_raw_data(memoryview(merged), LOCATION) is None
    attribute = _field(5, weight("a", 9).SerializeToString()) + _field(5, weight("b", 1).SerializeToString())
    merged = _field(7, _field(1, _field(5, attribute)))
    assert wire.without_raw_data(memoryview(merged), LOCATION) is None
    there = weight("w", 2, 3)
    there.data_location = onnx.TensorProto.EXTERNAL
    assert lean(dense_model(there, constant=onnx.TensorProto())) is None


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + wire._varint(len(content)) + content


def test_the_default_location_is_in_the_file(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wire, "KEPT_BYTES", 1)
    tensor = weight("w", 8, 4)
    tensor.data_location = onnx.TensorProto.DEFAULT
    found = lean(dense_model(tensor))
    assert found is not None
    small, external = found
    np.testing.assert_array_equal(
        tensor_array(small.graph.initializer[0], "here", external), numpy_helper.to_array(tensor)
    )


def test_graphs_nested_deeper_than_protobuf_reads_are_left_to_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wire, "KEPT_BYTES", 1)
    content = _field(5, weight("w", 9).SerializeToString())
    for _ in range(200):
        content = _field(1, _field(5, _field(6, content)))
    assert wire.without_raw_data(memoryview(_field(7, content)), LOCATION) is None


@pytest.mark.usefixtures("all_mapped")
@pytest.mark.parametrize(
    ("executor", "validate"), [("aot", False), ("graph", False), ("steps", False), ("vm", False), ("aot", True)]
)
def test_a_compiled_model_computes_with_weights_of_the_file(tmp_path: Path, executor: str, validate: bool):
    path = tmp_path / "model.onnx"
    for odd in range(4):  # the data may lie at any byte
        model = dense_model(weight("w", 8, 4), constant=weight("c" * (odd + 1), 4))
        model.producer_name = "p" * odd
        onnx.save(model, path)
        x = np.random.default_rng(3).standard_normal((2, 8), np.float32)
        exe = mlc.compile(path, executor=executor, threads=1, cache=False, validate_each=validate)
        w, c = (numpy_helper.to_array(t) for t in (model.graph.initializer[0], model.graph.node[0].attribute[0].t))
        (y,) = exe({"x": x}).values()
        np.testing.assert_allclose(y, x @ w + c, rtol=1e-5, atol=1e-3)
        path.unlink()


@pytest.mark.usefixtures("all_mapped")
def test_raw_data_of_a_wrong_size_has_one_message(tmp_path: Path):
    short = weight("w", 8, 4)
    short.raw_data = short.raw_data[:-3]
    path = tmp_path / "model.onnx"
    onnx.save(dense_model(short), path)
    messages = list[str]()
    for mapped in (False, True):
        model, name, external = read_model(path, mapped)
        assert bool(external.location) == mapped
        with pytest.raises(UserError) as error:
            tensor_array(model.graph.initializer[0], f"{name}: initializer 'w'", external)
        messages.append(str(error.value))
    assert messages[0] == messages[1] == f"{path}: initializer 'w': expected 128 bytes for [8, 4], but got 125"


@pytest.mark.usefixtures("all_mapped")
def test_a_file_cannot_name_the_model_as_its_external_data(tmp_path: Path):
    path = tmp_path / "model.onnx"
    tensor = weight("w", 8, 4)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="")
    onnx.save(dense_model(tensor), path)
    for mapped in (False, True):
        model, _, external = read_model(path, mapped)
        with pytest.raises(UserError, match="external data below the model's directory"):
            tensor_array(model.graph.initializer[0], "here", external)
