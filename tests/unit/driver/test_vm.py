"""Models that AOT refuses, run by the vm: values that decide ranks, axes and sizes, loops that grow, recursion."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from onnx_graphs import one_node

import mlc
from mlc.runtime.vm.executable import VmExecutable
from mlc.support.errors import UserError, collected_warnings

RNG = np.random.default_rng(7)
F = np.float32


def info(name: str, element: int, shape: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element, shape)


def model(nodes: list[Any], inputs: list[Any], outputs: list[str], constants: dict[str, Any] | None = None):
    """A model of opset 18, whose outputs have open shapes."""
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()]
    infos = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(nodes, "g", inputs, infos, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def compiled(proto: onnx.ModelProto, **options: Any) -> VmExecutable:
    """The model by executor="auto", which takes the vm with one warning."""
    with collected_warnings() as warnings:
        exe = mlc.compile(proto, cache=False, threads=1, opt_level=1, **options)
    assert isinstance(exe, VmExecutable)
    (warning,) = warnings
    assert warning.startswith("the vm runs the model, since AOT code of it cannot be made: ")
    return exe


def check(exe: VmExecutable, proto: onnx.ModelProto, **inputs: Any) -> None:
    """Compare with onnxruntime."""
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    wanted = session.run(None, inputs)
    found = exe(inputs)
    for name, want in zip([o.name for o in session.get_outputs()], wanted, strict=True):
        assert found[name].shape == np.shape(want)
        assert found[name].dtype == np.asarray(want).dtype
        np.testing.assert_allclose(found[name], want, rtol=1e-5, atol=1e-6)


def test_a_value_decides_the_rank_and_an_open_rank_has_no_shape():
    nodes = [helper.make_node("Reshape", ["x", "s"], ["r"]), helper.make_node("Exp", ["r"], ["y"])]
    proto = model(nodes, [info("x", T.FLOAT, None), info("s", T.INT64, [None])], ["y"])
    exe = compiled(proto)
    assert [spec.shape for spec in exe.inputs] == [None, ("s_0",)]
    assert str(exe.inputs[0]) == "x: any shape float32"
    x = RNG.standard_normal(12).astype(F)
    check(exe, proto, x=x, s=np.array([3, 4]))
    check(exe, proto, x=x.reshape(2, 6), s=np.array([2, 3, 2]))
    before = exe.machine.misses
    check(exe, proto, x=-x, s=np.array([3, 4]))
    assert exe.machine.misses == before


def test_computed_axes_cut_the_model_where_they_are_needed():
    """The axes are what kernels compute: they run first, and their values decide the code of the rest."""
    nodes = [
        helper.make_node("ArgMax", ["w"], ["axis"], axis=0, keepdims=1),
        helper.make_node("Exp", ["x"], ["e"]),
        helper.make_node("ReduceSum", ["e", "axis"], ["y"], keepdims=0),
    ]
    proto = model(nodes, [info("w", T.FLOAT, [3]), info("x", T.FLOAT, [2, 3, 4])], ["y", "axis"])
    exe = compiled(proto)
    x = RNG.standard_normal((2, 3, 4)).astype(F)
    for axis in (0, 2, 0):
        check(exe, proto, w=np.eye(3, dtype=F)[axis], x=x)
    assert [f.name for f in exe.machine.functions] == ["main", "main from ReduceSum:y"]
    assert "  resolve 1 'main from ReduceSum:y'" in exe.disassemble().replace("1  resolve", "  resolve")


def test_two_counted_axes_in_one_value():
    """The rows and the columns of a table that conditions select."""
    nodes = [
        helper.make_node("Compress", ["x", "rows"], ["a"], axis=0),
        helper.make_node("Compress", ["a", "columns"], ["b"], axis=1),
        helper.make_node("Softmax", ["b"], ["y"], axis=1),
    ]
    inputs = [info("x", T.FLOAT, [3, 4]), info("rows", T.BOOL, [3]), info("columns", T.BOOL, [4])]
    proto = model(nodes, inputs, ["y"])
    exe = compiled(proto)
    x = RNG.standard_normal((3, 4)).astype(F)
    for columns in ([1, 0, 1, 1], [0, 1, 0, 0]):
        check(exe, proto, x=x, rows=np.array([True, False, True]), columns=np.array(columns, bool))


def growing_loop() -> onnx.ModelProto:
    """A loop that appends its number as often as `m` says, and while the sum is below `most`; it stacks the sums."""
    body = helper.make_graph(
        [
            helper.make_node("Cast", ["i"], ["f"], to=T.FLOAT),
            helper.make_node("Unsqueeze", ["f", "zero"], ["one"]),
            helper.make_node("Concat", ["v", "one"], ["w"], axis=0),
            helper.make_node("ReduceSum", ["w"], ["row"], keepdims=0),
            helper.make_node("Less", ["row", "most"], ["more"]),
        ],
        "body",
        [info("i", T.INT64, []), info("c", T.BOOL, []), info("v", T.FLOAT, None)],
        [info("more", T.BOOL, []), info("w", T.FLOAT, None), info("row", T.FLOAT, [])],
    )
    nodes = [helper.make_node("Loop", ["m", "", "x"], ["grown", "rows"], body=body)]
    nodes.append(helper.make_node("Neg", ["grown"], ["y"]))
    inputs = [info("m", T.INT64, []), info("x", T.FLOAT, [2]), info("most", T.FLOAT, [])]
    return model(nodes, inputs, ["y", "rows"], {"zero": np.array([0])})


def test_values_that_grow_in_a_loop_as_long_as_inputs_say():
    proto = growing_loop()
    exe = compiled(proto)
    x = np.array([1, 2], F)
    for count, most in ((4, 1e9), (9, 8), (1, 1e9)):
        check(exe, proto, m=np.array(count), x=x, most=np.array(most, F))
    body = next(f for f in exe.machine.functions if f.name.endswith("body"))
    assert len(body.general) == 1  # from the second size on, one code serves all
    none = exe({"m": np.array(0), "x": x, "most": np.array(0, F)})
    assert none["rows"].shape == (0,)
    np.testing.assert_array_equal(none["y"], -x)


def test_a_profile_has_the_kernels_of_each_part_that_a_call_runs_and_how_often(tmp_path: Path):
    exe = compiled(growing_loop())
    inputs = {"m": np.array(6), "x": np.array([1, 2], F), "most": np.array(1e9, F)}
    wanted = exe(inputs)
    profile = exe.profile(inputs, repeat=2)
    counts: dict[str, int] = {}
    for row in profile:
        counts[row.origins[0]] = counts.get(row.origins[0], 0) + row.count
        assert row.seconds > 0
    assert max(counts.values()) == 6
    assert any(name.startswith("Neg") for name in counts)
    assert {event.call for event in profile.events} == set(range(len(profile)))
    starts = [event.start for event in profile.events if event.thread == -1]
    assert starts == sorted(starts)
    profile.save_trace(tmp_path / "trace.json")
    np.testing.assert_array_equal(exe(inputs)["y"], wanted["y"])
    exe.save(tmp_path / "saved")
    assert [row.kernel for row in mlc.load_executable(tmp_path / "saved").profile(inputs)] == [
        r.kernel for r in profile
    ]


def test_a_call_without_kernels_has_no_profile_and_the_vm_makes_no_library(tmp_path: Path):
    proto = model(
        [helper.make_node("Reshape", ["x", "s"], ["y"])],
        [info("x", T.FLOAT, [4, 6]), info("s", T.INT64, [None])],
        ["y"],
    )
    exe = compiled(proto)
    with pytest.raises(UserError, match="expected a call that runs kernels, but this one runs none"):
        exe.profile({"x": np.zeros((4, 6), F), "s": np.array([24])})
    with pytest.raises(UserError, match=r"one of the vm; save it for mlc\.load_executable instead"):
        exe.export(tmp_path / "m.so")
    static = mlc.compile(one_node("Relu", {"x": np.zeros(3, F)}), executor="vm", cache=False)
    with pytest.raises(UserError, match='one of the vm; compile it with executor="aot"'):
        static.export(tmp_path / "m.so")
    assert len(static.profile({"x": np.zeros(3, F)})) == 1


def test_branches_of_different_ranks():
    def branch(op: str, **attrs: Any) -> onnx.GraphProto:
        return helper.make_graph(
            [helper.make_node(op, ["x"], [f"{op}_out"], **attrs)], op, [], [info(f"{op}_out", T.FLOAT, None)]
        )

    flat, kept = branch("Flatten", axis=0), branch("Neg")
    node = helper.make_node("If", ["c"], ["r"], then_branch=flat, else_branch=kept)
    nodes = [helper.make_node("Greater", ["s", "zero"], ["c"]), node, helper.make_node("Abs", ["r"], ["y"])]
    inputs = [info("s", T.FLOAT, []), info("x", T.FLOAT, [2, 3, 2])]
    proto = model(nodes, inputs, ["y"], {"zero": np.array(0, F)})
    exe = compiled(proto)
    x = RNG.standard_normal((2, 3, 2)).astype(F)
    for s in (1, -1):
        check(exe, proto, s=np.array(s, F), x=x)


def test_empty_batches_are_resolved():
    proto = model([helper.make_node("Relu", ["x"], ["y"])], [info("x", T.FLOAT, ["n", 4])], ["y"])
    exe = mlc.compile(proto, executor="vm", cache=False, threads=1, opt_level=1)
    for rows in (3, 0, 5):
        check(exe, proto, x=RNG.standard_normal((rows, 4)).astype(F))
    assert exe.machine.misses == 1  # the empty one; AOT's code serves the others


def test_sequences_and_absent_optionals_go_in_and_out():
    sequence = helper.make_value_info(
        "s", helper.make_sequence_type_proto(helper.make_tensor_type_proto(T.FLOAT, None))
    )
    nodes = [helper.make_node("SequenceInsert", ["s", "x"], ["t"])]
    exe = compiled(model(nodes, [sequence, info("x", T.FLOAT, [2])], ["t"]))
    assert exe.inputs[0].dtype == "list of float32"
    x = np.array([1, 2], F)
    found = exe({"s": [x + 1, np.zeros((1, 3), F)], "x": x})["t"]
    assert [a.shape for a in found] == [(2,), (1, 3), (2,)]
    np.testing.assert_array_equal(found[2], x)


RECURSIVE = """
func.func @power(%n: tensor<i64>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = graph.constant dense<0> : tensor<i64>
  %done = graph.less_equal %n, %zero : (tensor<i64>, tensor<i64>) -> tensor<i1>
  %r = graph.if %done : tensor<i1> reads(%n, %x : tensor<i64>, tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%m: tensor<i64>, %a: tensor<4xf32>):
    %1 = graph.constant dense<1.0> : tensor<4xf32>
    graph.yield %1 : tensor<4xf32>
  } else {
  ^bb0(%m: tensor<i64>, %a: tensor<4xf32>):
    %one = graph.constant dense<1> : tensor<i64>
    %2 = graph.subtract %m, %one : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %3 = graph.call @power(%2, %a) : (tensor<i64>, tensor<4xf32>) -> tensor<4xf32>
    %4 = graph.multiply %3, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %4 : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
func.func @main(%n: tensor<i64>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %1 = func.call @power(%n, %x) : (tensor<i64>, tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.neg %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}
"""


def test_a_function_that_calls_itself(tmp_path: Path):
    path = tmp_path / "power.mlir"
    path.write_text(RECURSIVE)
    with collected_warnings() as warnings:
        exe = mlc.compile(path, cache=False, threads=1, opt_level=1)
    assert warnings == ["the vm runs the model, since AOT code of it cannot be made: a function of it calls itself"]
    assert isinstance(exe, VmExecutable)
    x = np.array([1, 1.001, -1, 0.99], F)
    for n in (0, 1, 3, 400):
        np.testing.assert_allclose(exe.invoke("main", np.array(n), x)[0], -(x.astype(np.float64) ** n), rtol=1e-3)
    exe.save(tmp_path / "saved")
    again = mlc.load_executable(tmp_path / "saved")
    assert isinstance(again, VmExecutable)
    np.testing.assert_array_equal(again.invoke("main", np.array(3), x)[0], exe.invoke("main", np.array(3), x)[0])
    with pytest.raises(UserError, match="expected at most 10000 nested calls, but got more"):
        exe.invoke("main", np.array(20_000), x)


def test_a_saved_model_knows_what_it_met_and_refuses_the_rest_by_name_and_sizes(tmp_path: Path):
    from mlc.runtime.executable import load_executable

    x, s = np.arange(6, dtype=F), np.array([2, 3])
    exe = compiled(one_node("Reshape", {"x": x, "s": s}))
    exe({"x": x, "s": s})
    exe.save(tmp_path / "saved")
    alone = load_executable(tmp_path / "saved")  # without the compiler
    np.testing.assert_array_equal(alone({"x": x, "s": s})["y"], x.reshape(2, 3))
    refused = r"expected 'main' for sizes .* called with before, but got float32\[6\], int64\[2\] = \[3 2\]; compile"
    with pytest.raises(UserError, match=refused):
        alone({"x": x, "s": np.array([3, 2])})
    more = mlc.load_executable(tmp_path / "saved")  # with the compiler
    np.testing.assert_array_equal(more({"x": x, "s": np.array([3, 2])})["y"], x.reshape(3, 2))


def test_parts_of_a_loaded_model_are_compiled_as_before_it_was_saved(tmp_path: Path):
    proto = growing_loop()
    exe = compiled(proto)
    inputs = {"m": np.array(2), "x": np.array([1, 2], F), "most": np.array(99, F)}
    exe(inputs)
    exe.save(tmp_path / "saved")
    again = mlc.load_executable(tmp_path / "saved")
    assert isinstance(again, VmExecutable)
    assert [f.name for f in again.machine.functions] == [f.name for f in exe.machine.functions]
    check(again, proto, **(inputs | {"m": np.array(3)}))
    assert len(again.machine.functions) == len(exe.machine.functions)


def test_only_so_many_functions_are_kept():
    x = np.arange(6, dtype=F)
    exe = compiled(one_node("Reshape", {"x": x, "s": np.array([2, 3])}), vm_functions=1)
    for shape in ((2, 3), (3, 2), (2, 3)):
        np.testing.assert_array_equal(exe({"x": x, "s": np.array(shape)})["y"], x.reshape(shape))
    assert len(exe.machine.resolved) == 1


def test_aot_still_refuses_and_errors_of_the_model_are_errors():
    x = np.arange(6, dtype=F)
    proto = one_node("Reshape", {"x": x, "s": np.array([2, 3])})
    with pytest.raises(UserError, match=r"expected input 1 \('s'\) to be constant"):
        mlc.compile(proto, executor="aot", cache=False)
    with pytest.raises(UserError, match="no node before it gives its input 'z'"):
        mlc.compile(one_node("Relu", {"x": x}, names=["z"]), cache=False)
    with pytest.raises(UserError, match="expected specialize= with the executor aot or graph"):
        mlc.compile(proto, executor="vm", specialize=True)
    with pytest.raises(UserError, match="expected vm_functions to be a number from 1 on, but got 0"):
        mlc.compile(proto, vm_functions=0)
    exe = compiled(proto)
    with pytest.raises(UserError, match="Reshape"):
        exe({"x": x, "s": np.array([4, 4])})
