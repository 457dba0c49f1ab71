"""The graph executor: its JSON is TVM's, it computes what the model computes, and can be edited and loaded again."""

import copy
import ctypes
import json
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_model
import tvm_graph

import mlc
from mlc.runtime import cpu
from mlc.runtime.arrays import address_of
from mlc.runtime.graph import GraphModule
from mlc.runtime.graph.executable import GraphExecutable
from mlc.support.abi import KERNEL
from mlc.support.errors import UserError
from mlc.targets.cpu_features import CPUS

ROOT = Path(__file__).parents[4]
# Parts of a concatenation, of which one is read twice; a split; outputs that are an input, a weight, twice the same.
PARTS = """
func.func @main(%x: tensor<1x8x4xf32> {graph.name = "x"}, %p: tensor<8xf32> {graph.name = "p0"})
    -> (tensor<1x24x4xf32> {graph.name = "all"}, tensor<1x4x4xf32> {graph.name = "half"},
        tensor<8xf32> {graph.name = "same"}, tensor<24x4xf32> {graph.name = "flat"},
        tensor<32xf32> {graph.name = "b"}) {
  %b = graph.param "b" : tensor<32xf32>
  %0 = graph.relu %x : tensor<1x8x4xf32>
  %1 = graph.exp %x : tensor<1x8x4xf32>
  %2 = graph.softmax %1 {axis = 1} : tensor<1x8x4xf32>
  %3 = graph.concatenate %0, %2, %1 {axis = 1}
    : (tensor<1x8x4xf32>, tensor<1x8x4xf32>, tensor<1x8x4xf32>) -> tensor<1x24x4xf32>
  %4 = graph.softmax %3 {axis = 2} : tensor<1x24x4xf32>
  %5 = graph.slice %2 {begin = [0, 4, 0], end = [1, 8, 4], strides = [1, 1, 1]}
    : (tensor<1x8x4xf32>) -> tensor<1x4x4xf32>
  %6 = graph.softmax %5 {axis = 1} : tensor<1x4x4xf32>
  %7 = graph.reshape %4 : (tensor<1x24x4xf32>) -> tensor<24x4xf32>
  return %4, %6, %p, %7, %b : tensor<1x24x4xf32>, tensor<1x4x4xf32>, tensor<8xf32>, tensor<24x4xf32>, tensor<32xf32>
}
"""


def compiled(path: Path) -> GraphExecutable:
    exe = mlc.compile(path, threads=1, executor="graph")
    assert isinstance(exe, GraphExecutable)
    return exe


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model.write(tmp_path_factory.mktemp("graph"))


@pytest.fixture(scope="module")
def exe(path: Path) -> GraphExecutable:
    return compiled(path)


@pytest.fixture
def module(exe: GraphExecutable) -> GraphModule:
    made = mlc.graph_executor.create(exe.graph_json, exe.lib, exe.params, threads=1)
    made.set_input(**small_model.inputs())
    return made


def caller(exe: GraphExecutable) -> Callable[[str, list[np.ndarray]], None]:
    """Calls a kernel of the library by name on arrays, by the calling convention of kernels."""
    workspace = np.empty(exe.lib.workspace_bytes + 64, np.uint8)

    def call(name: str, arrays: list[np.ndarray]) -> None:
        addresses = [array.ctypes.data for array in arrays] + [workspace.ctypes.data + -workspace.ctypes.data % 64]
        rt, keeper = exe._code.runtime(1, exe.lib.scratch_bytes)
        operands = (ctypes.c_void_p * len(addresses))(*addresses)
        assert KERNEL(exe._code.address(name))(ctypes.addressof(operands), rt) == 0
        del keeper

    return call


def draw(exe: GraphExecutable) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {spec.name: rng.standard_normal(spec.shape).astype(spec.dtype) for spec in exe.inputs}


@pytest.mark.parametrize("text", [small_model.TEXT, small_model.ONE_TEXT, PARTS], ids=["two", "one", "parts"])
def test_a_reader_of_the_format_runs_it(tmp_path: Path, text: str):
    """Storage ids mean what they mean to TVM: a reader with memory of its own gets what the model computes."""
    path = small_model.write(tmp_path, text)
    exe, given = compiled(path), draw(compiled(path))
    graph = json.loads(json.dumps(exe.graph_json))
    tvm_graph.check(graph)
    wanted = mlc.compile(path, threads=1)(given)
    got = tvm_graph.run(graph, caller(exe), {**given, **exe.params})
    assert len(got) == len(wanted)
    for array, (name, expected) in zip(got, wanted.items(), strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-6, atol=1e-6, err_msg=name)
    module = mlc.graph_executor.create(json.dumps(graph), exe.lib, exe.params)
    module.run(**given)
    for index, expected in enumerate(exe(given).values()):
        assert np.array_equal(module.get_output(index), expected)
        assert np.array_equal(got[index], expected)


def test_the_fields(exe: GraphExecutable):
    graph = exe.graph_json
    nodes = graph["nodes"]
    assert [node["name"] for node in nodes if node["op"] == "null"] == ["x", "y", "p0", "p1", "p2"]
    assert {node["attrs"]["func_name"] for node in nodes if node["op"] == "tvm_op"} <= {*exe.lib.signatures, "__nop"}
    assert set(exe.params) == {"p0", "p1", "p2"}
    storage = graph["attrs"]["storage_id"][1]
    assert sorted(set(storage)) == list(range(len(set(storage))))
    nodes.clear()
    assert len(exe.graph_json["nodes"]) > 5


def test_storage_is_shared(tmp_path: Path):
    body = "".join(f"  %{k + 1} = graph.softmax %{k} : tensor<64x64xf32>\n" for k in range(6)).replace("%0", "%x")
    text = f"""
func.func @main(%x: tensor<64x64xf32> {{graph.name = "x"}}) -> (tensor<64x64xf32> {{graph.name = "y"}}) {{
{body}  return %6 : tensor<64x64xf32>
}}"""
    exe = compiled(small_model.write(tmp_path, text))
    storage = exe.graph_json["attrs"]["storage_id"][1]
    assert len(storage) == 7
    assert len(set(storage)) == 4  # the input, the output, and two that take turns


def test_inputs_and_outputs(module: GraphModule, exe: GraphExecutable):
    given = small_model.inputs()
    wanted = exe(given)
    assert (module.get_num_inputs(), module.get_num_outputs()) == (5, 2)
    assert (module.get_input_index("y"), module.get_input_index("nothing")) == (1, -1)
    assert module.get_input_info() == ({"x": (4, 64), "y": (4, 32)}, {"x": "float32", "y": "float32"})
    module.run()
    assert np.array_equal(module.get_output(0), wanted["hidden"])
    out = np.empty((2, 64), np.float32)
    assert module.get_output(1, out) is out
    assert np.array_equal(out, wanted["sum"])
    assert np.array_equal(module.get_input("x"), given["x"])
    other = small_model.inputs(5)
    module.set_input(0, other["x"])
    module.run(y=other["y"])
    assert np.array_equal(module.get_output(1), exe(other)["sum"])


def test_without_copies(module: GraphModule, exe: GraphExecutable):
    given = small_model.inputs(6)
    out = np.zeros((2, 64), np.float32)
    module.set_input_zero_copy("x", given["x"])
    module.set_output_zero_copy(1, out)
    module.run(y=given["y"])
    assert address_of(module.get_input("x")) == address_of(given["x"])
    assert np.array_equal(out, exe(given)["sum"])
    given["x"] *= 2
    module.run()
    assert np.array_equal(out, exe(given)["sum"])
    kept = given["x"].copy()
    module.set_input("x", given["x"])  # a copy again
    given["x"][:] = 0
    assert np.array_equal(module.get_input("x"), kept)
    with pytest.raises(ValueError, match="input 'x' to be contiguous to be read in place"):
        module.set_input_zero_copy("x", np.asfortranarray(kept))


def test_params_are_safetensors(module: GraphModule, exe: GraphExecutable, tmp_path: Path):
    module.run()
    before = module.get_output(0).copy()
    data = mlc.graph_executor.save_params(exe.params)
    mlc.graph_executor.save_params({**exe.params, "unused": np.zeros(3)}, tmp_path / "p.safetensors")
    read = mlc.graph_executor.read_params(data)
    assert all(np.array_equal(read[name], array) for name, array in exe.params.items())
    for params in (data, tmp_path / "p.safetensors", exe.params):
        fresh = mlc.graph_executor.create(exe.graph_json, exe.lib, params)
        fresh.run(**small_model.inputs())
        assert np.array_equal(fresh.get_output(0), before)
    module.load_params({name: array * 0 for name, array in exe.params.items()})
    module.run()
    assert not module.get_output(0).any()
    module.share_params(fresh, data)
    module.run()
    assert np.array_equal(module.get_output(0), before)
    assert address_of(module.get_input("p0")) == address_of(fresh.get_input("p0"))


def test_benchmark(module: GraphModule):
    for end_to_end in (False, True):
        result = module.benchmark(repeat=3, number=2, end_to_end=end_to_end)
        assert len(result.results) == 3
        assert 0 < result.min <= result.median <= result.max < 1
        assert "mean (ms)" in str(result)
    calls: list[int] = []
    from mlc.runtime.graph.benchmark import measure

    measure(lambda: calls.append(1), 2, 3, None)
    assert len(calls) == 7  # one does not count


def test_an_edited_graph(exe: GraphExecutable):
    """The first layer alone: the later nodes are cut off, and its result is the output."""
    graph, given = exe.graph_json, small_model.inputs()
    number = next(k for k, node in enumerate(graph["nodes"]) if node["op"] == "tvm_op")
    graph["nodes"] = graph["nodes"][: number + 1]
    graph["node_row_ptr"] = graph["node_row_ptr"][: number + 2]
    for name in ("shape", "dltype", "storage_id"):
        graph["attrs"][name][1] = graph["attrs"][name][1][: number + 1]
    graph["heads"] = [[number, 0, 0]]
    module = mlc.graph_executor.create(graph, exe.lib, exe.params)
    module.run(x=given["x"], y=given["y"])
    assert module.get_num_outputs() == 1
    np.testing.assert_allclose(module.get_output(0), small_model.expected(given)["hidden"], rtol=1e-4, atol=1e-4)


def _first_op(graph: dict[str, Any]) -> dict[str, Any]:
    return next(node for node in graph["nodes"] if node["op"] == "tvm_op")


def _newer(graph: dict[str, Any]) -> None:
    graph["attrs"]["mlc_graph"][1] = 2


def _renamed(graph: dict[str, Any]) -> None:
    _first_op(graph)["attrs"]["func_name"] = "dense_of_another"


def _resized(graph: dict[str, Any]) -> None:
    graph["attrs"]["shape"][1][0] = [4, 65]


def _clobbered(graph: dict[str, Any]) -> None:
    """The storage of the first result, which is an output, is that of the last."""
    storage = graph["attrs"]["storage_id"][1]
    first = next(k for k, node in enumerate(graph["nodes"]) if node["op"] == "tvm_op")
    storage[:] = [storage[first] if one == storage[-1] else one for one in storage]


def _onto_input(graph: dict[str, Any]) -> None:
    storage = graph["attrs"]["storage_id"][1]
    storage[:] = [storage[0] if one == storage[-1] else one for one in storage]


def _later(graph: dict[str, Any]) -> None:
    _first_op(graph)["inputs"][0] = [len(graph["nodes"]) - 1, 0, 0]


def _short(graph: dict[str, Any]) -> None:
    graph["attrs"]["shape"][1].pop()


def _fieldless(graph: dict[str, Any]) -> None:
    del graph["heads"]


def _twice(graph: dict[str, Any]) -> None:
    graph["nodes"][1]["name"] = "x"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (_newer, "expected a graph of version 1, but got 2, which a newer mlc wrote"),
        (_renamed, "to call a kernel of the library, but there is no 'dense_of_another'"),
        (_resized, "to have inputs 4x64 float32, .*, but got 4x65 float32"),
        (_clobbered, "overwrites storage [0-9]+; give it a storage_id of its own"),
        (_onto_input, "expected inputs to keep their storage, but node '.*' overwrites 0"),
        (_later, "to read an output of an earlier node"),
        (_short, "expected the lists of attrs to be of one length, but got shape"),
        (_fieldless, "expected a field 'heads' in the graph, but there is none"),
        (_twice, "expected every node to have a name of its own, but 2 are 'x'"),
    ],
)
def test_graphs_that_are_not_in_order(exe: GraphExecutable, edit: Callable[[dict[str, Any]], None], message: str):
    graph = exe.graph_json
    edit(graph)
    with pytest.raises(UserError, match=message):
        mlc.graph_executor.create(graph, exe.lib, exe.params)


def test_wrong_uses(exe: GraphExecutable, module: GraphModule, tmp_path: Path):
    for wrong, message in (("{", "expected the graph as JSON"), ("[]", "as a dict or JSON text, but got list")):
        with pytest.raises(UserError, match=message):
            mlc.graph_executor.create(wrong, exe.lib)
    with pytest.raises(UserError, match=r"expected a directory that GraphLibrary.save wrote"):
        mlc.graph_executor.create(exe.graph_json, tmp_path / "nothing")
    with pytest.raises(UserError, match="expected inputs to be set before run, but p0, p1, p2, x, y are not"):
        mlc.graph_executor.create(exe.graph_json, exe.lib).run()
    with pytest.raises(UserError, match="expected an input of the graph, but there is no 'X'"):
        module.set_input(X=1)
    with pytest.raises(UserError, match="expected an input from 0 to 4, but got 5"):
        module.set_input(5, 1)
    with pytest.raises(ValueError, match=r"input 'x' of shape \(4, 64\), but got \(1, 2\)"):
        module.set_input("x", np.zeros((1, 2), np.float32))
    with pytest.raises(UserError, match="expected an output from 0 to 1, but got 2"):
        module.get_output(2)


IF_TEXT = """
func.func @main(%x: tensor<4xf32> {graph.name = "x"}, %c: tensor<i1> {graph.name = "c"})
    -> (tensor<4xf32> {graph.name = "y"}) {
  %0 = graph.if %c : tensor<i1> reads(%x : tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>):
    %1 = graph.relu %a : tensor<4xf32>
    graph.yield %1 : tensor<4xf32>
  } else {
  ^bb0(%a: tensor<4xf32>):
    %2 = graph.exp %a : tensor<4xf32>
    graph.yield %2 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
"""
OPEN_TEXT = small_model.ONE_TEXT.replace("<4x64xf32>", "<?x64xf32, #graph.dims<[n]>>").replace(
    "<4x32xf32>", "<?x32xf32, #graph.dims<[n]>>"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [(IF_TEXT, "a model without control flow for the graph executor"), (OPEN_TEXT, "a model of static sizes for the")],
    ids=["control flow", "open sizes"],
)
def test_what_has_no_graph_is_refused(tmp_path: Path, text: str, message: str):
    with pytest.raises(UserError, match=message):
        mlc.compile(small_model.write(tmp_path, text), executor="graph", threads=1)


def test_models_compiled_for_other_executors(tmp_path: Path):
    """Parts that are written in place are put together; a model compiled for this executor has none."""
    path = small_model.write(tmp_path, PARTS)
    mlc.compile(path, threads=1).save(tmp_path / "saved")
    exe = mlc.load_executable(tmp_path / "saved", executor="graph", threads=1)
    given = draw(exe)
    wanted = mlc.load_executable(tmp_path / "saved")(given)
    for name, array in exe(given).items():
        assert np.array_equal(array, wanted[name])
    graph = exe.graph_json
    tvm_graph.check(graph)
    pieces = [node for node in graph["nodes"] if node.get("attrs", {}).get("func_name") == "__pieces"]
    assert len(pieces) >= 2
    pieces[0]["attrs"]["pieces"] = pieces[0]["attrs"]["pieces"].replace("128", "1280")
    with pytest.raises(UserError, match="expected the pieces of node 'pieces' inside its operands"):
        mlc.graph_executor.create(graph, exe.lib, exe.params)
    assert all(node.get("attrs", {}).get("func_name") != "__pieces" for node in compiled(path).graph_json["nodes"])


WITHOUT_COMPILER = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("xdsl", "llvmlite", "onnx"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
import numpy as np
import mlc

directory = sys.argv[1]
graph = open(directory + "/graph.json").read()
module = mlc.graph_executor.create(graph, directory + "/lib", directory + "/p.safetensors")
module.run(**np.load(directory + "/in.npz"))
np.save(directory + "/out.npy", module.get_output(1))
"""


def test_it_runs_without_the_compiler(exe: GraphExecutable, tmp_path: Path):
    given = small_model.inputs()
    (tmp_path / "graph.json").write_text(json.dumps(exe.graph_json))
    exe.lib.save(tmp_path / "lib")
    mlc.graph_executor.save_params(exe.params, tmp_path / "p.safetensors")
    np.savez(tmp_path / "in.npz", **given)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", WITHOUT_COMPILER, str(tmp_path)], check=True, env=environment)
    assert np.array_equal(np.load(tmp_path / "out.npy"), exe(given)["sum"])


def test_the_parts_outlive_the_executable(path: Path, tmp_path: Path):
    exe = mlc.compile(path, threads=1, executor="graph", cache=False)
    assert isinstance(exe, GraphExecutable)
    graph, lib, params, given = exe.graph_json, exe.lib, exe.params, small_model.inputs()
    wanted = exe(given)["sum"]
    ended = weakref.ref(exe)
    module = mlc.graph_executor.create(graph, lib, params)
    del exe
    lib.save(tmp_path / "lib")
    del lib
    module.library = mlc.graph_executor.load_lib(tmp_path / "lib")
    assert ended() is None
    module.run(**given)
    assert np.array_equal(module.get_output(1), wanted)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the machine is not an x86-64")
def test_a_library_names_the_cpu_that_it_needs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cpu, "host_features", lambda: CPUS["x86-64-v2"])
    exe = mlc.compile(path, target="x86-64-v3", threads=1, executor="graph")
    tvm_graph.check(exe.graph_json)
    exe.save(tmp_path / "lib")
    with pytest.raises(UserError, match=r"expected a CPU with avx, avx2, bmi, .*, which this one lacks"):
        mlc.graph_executor.create(exe.graph_json, tmp_path / "lib")


def test_bf16(tmp_path: Path):
    path = small_model.write(tmp_path, small_model.ONE_TEXT)
    exe = mlc.compile(path, threads=1, executor="graph", precision="bf16")
    assert isinstance(exe, GraphExecutable)
    graph, given = exe.graph_json, draw(exe)
    assert "bfloat16" in graph["attrs"]["dltype"][1]
    got = tvm_graph.run(graph, caller(exe), {**given, **exe.params})
    assert np.array_equal(got[0], exe(given)["out"])
    params = mlc.graph_executor.save_params(exe.params)
    module = mlc.graph_executor.create(graph, exe.lib, params)
    module.run(**given)
    assert np.array_equal(module.get_output(0), got[0])


def test_calls_from_several_threads(exe: GraphExecutable):
    given = [small_model.inputs(seed) for seed in range(6)]
    wanted = [exe(one)["sum"] for one in given]
    futures = [exe.submit(given[k % 6]) for k in range(60)]
    assert all(np.array_equal(future.result(60)["sum"], wanted[k % 6]) for k, future in enumerate(futures))
    one, two = exe.module(), exe.clone()
    one.run(**given[0])
    assert np.array_equal(one.get_output(1), two(given[0])["sum"])


def test_debug(exe: GraphExecutable, tmp_path: Path):
    given = small_model.inputs()
    create = mlc.graph_executor.create_debug
    debug = create(exe.graph_json, exe.lib, exe.params, dump_root=tmp_path / "dump")
    debug.run(**given)
    wanted = exe(given)
    assert np.array_equal(debug.get_output(1), wanted["sum"])
    names = [node["name"] for node in exe.graph_json["nodes"]]
    first = next(node["name"] for node in exe.graph_json["nodes"] if node["op"] == "tvm_op")
    tensors = mlc.graph_executor.read_params(tmp_path / "dump" / "tensors.safetensors")
    assert set(tensors) == set(debug.tensors) == set(names)
    assert np.array_equal(tensors[first], wanted["hidden"])
    assert np.array_equal(tensors["x"], given["x"])
    dumped = json.loads((tmp_path / "dump" / "graph.json").read_text())["nodes"]
    assert [node["name"] for node in dumped] == names
    assert all(node["seconds"] > 0 for node in dumped if node["func_name"] not in ("", "__nop"))
    assert np.array_equal(debug.get_node_output(first), wanted["hidden"])
    out = np.empty_like(wanted["hidden"])
    assert debug.debug_get_output(first, out) is out
    assert np.array_equal(debug.execute_node(names[-1]).reshape(2, 64), wanted["sum"])
    times = debug.profile(repeat=3)
    assert len(times.runs) == 3
    assert f"\n{'all':{max(map(len, times.seconds))}}  " in str(times)
    assert len(each := debug.run_individual(number=2, repeat=2)) == len(names)
    assert all((seconds > 0) == (name in times.seconds) for seconds, name in zip(each, names, strict=True))
    with pytest.raises(UserError, match="expected a node of the graph, but there is no 'nothing'"):
        debug.get_node_output("nothing")
    assert isinstance(mlc.graph_executor.create(exe.graph_json, exe.lib, debug=True), type(debug))


def test_a_dump_keeps_what_later_nodes_overwrite(tmp_path: Path):
    body = "".join(f"  %{k + 1} = graph.softmax %{k} : tensor<8x8xf32>\n" for k in range(5)).replace("%0", "%x")
    text = f"""
func.func @main(%x: tensor<8x8xf32> {{graph.name = "x"}}) -> (tensor<8x8xf32> {{graph.name = "y"}}) {{
{body}  return %5 : tensor<8x8xf32>
}}"""
    exe = compiled(small_model.write(tmp_path, text))
    debug = mlc.graph_executor.create_debug(exe.graph_json, exe.lib, exe.params)
    value = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    debug.run(x=value)
    for name, tensor in copy.copy(debug.tensors).items():
        if name != "x":
            e = np.exp(value - value.max(1, keepdims=True))
            value = e / e.sum(1, keepdims=True)
        np.testing.assert_allclose(tensor, value, rtol=1e-4, atol=1e-6)
