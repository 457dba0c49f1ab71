"""Layouts on record: weights are packed, when the model is compiled, in the blocks that a record says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from tuning_records import dense_model

import mlc
from mlc.passes.graph.layout.alter_op_layout.records import LAYOUTS
from mlc.runtime.executable import Executable
from mlc.support.errors import collected_warnings
from mlc.support.records import KnobValues
from mlc.targets.target import native_target
from mlc.tuning.records.context import Snapshot, SnapshotEntry

NOTHING = Snapshot("nothing", {})


def conv_model(path: Path) -> Path:
    """Two convolutions, of windows that Winograd's algorithm is not for, and a residual sum, on disk."""
    rng = np.random.default_rng(3)
    shapes = {"w0": (24, 16, 2, 2), "w1": (24, 24, 1, 1)}
    weights = [
        helper.make_tensor(name, TensorProto.FLOAT, shape, rng.standard_normal(shape).ravel() / 16)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[0, 0, 1, 1], kernel_shape=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["c"], kernel_shape=[1, 1]),
        helper.make_node("Add", ["b", "c"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 9, 9])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 24, 9, 9])]
    graph = helper.make_graph(nodes, "convs", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.write_bytes(model.SerializeToString())
    return path


def with_layouts(path: Path, values: KnobValues) -> Executable:
    """The program of a model under a record of its layouts."""
    asked = mlc.compile(path, threads=1, records=NOTHING).report["records"]
    row = next(row for row in asked if not row["kernel"])
    key = (row["hash"], row["target"], row["threads"])
    return mlc.compile(path, threads=1, records=Snapshot("test", {key: SnapshotEntry(values, "", "layouts")}))


def weights_of(exe: Executable) -> list[list[int]]:
    """The shapes of the weights that the kernels read."""
    return [value["shape"] for value in exe.artifact.model["values"] if value["storage"] == "weights"]


@pytest.mark.parametrize("packed", [8, 32, 48])
def test_a_dense_weight_is_packed_as_the_record_says(tmp_path: Path, packed: int) -> None:
    path = dense_model(tmp_path / "m.onnx", (64, 96))
    exe = with_layouts(path, {"strategy": LAYOUTS, "in_blocks": (0,), "out_blocks": (packed,)})
    assert weights_of(exe) == [[96 // packed, 64, packed]]
    x = np.random.default_rng(2).standard_normal((8, 64), np.float32)
    expected = mlc.compile(path, threads=1, records=False)({"x0": x})["x1"]
    np.testing.assert_allclose(exe({"x0": x})["x1"], expected, rtol=1e-5, atol=1e-5)
    assert len(exe.artifact.model["nodes"]) == 1, "the transform of the weight is folded"


@pytest.mark.parametrize("blocks", [((8, 12), (12, 24)), ((4, 24), (24, 8)), ((0, 0), (3, 0))])
def test_convolutions_compute_in_the_blocks_of_the_record(
    tmp_path: Path, blocks: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    path = conv_model(tmp_path / "m.onnx")
    plain = mlc.compile(path, threads=1, records=False)
    exe = with_layouts(path, {"strategy": LAYOUTS, "in_blocks": blocks[0], "out_blocks": blocks[1]})
    if blocks[0][0]:
        (inner, _), (outer, _) = blocks
        assert [24 // outer, 16 // inner, 2, 2, inner, outer] in weights_of(exe)
    x = np.random.default_rng(2).standard_normal((1, 16, 9, 9), np.float32)
    np.testing.assert_allclose(exe({"x": x})["y"], plain({"x": x})["y"], rtol=1e-4, atol=1e-4)
    assert exe.report["records"][0]["values"]["out_blocks"] == list(blocks[1])


def test_a_record_of_other_sites_is_ignored_with_a_note(tmp_path: Path) -> None:
    path = dense_model(tmp_path / "m.onnx", (64, 96))
    with collected_warnings() as warned:
        exe = with_layouts(path, {"strategy": LAYOUTS, "in_blocks": (0, 0), "out_blocks": (8, 8)})
    assert ["it has other sites; tune again" in text for text in warned] == [True]
    panel = 2 * native_target().lanes("f32")
    assert weights_of(exe) == [[96 // panel, 64, panel]]
