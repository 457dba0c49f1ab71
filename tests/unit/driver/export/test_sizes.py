"""C libraries of models with symbolic sizes: shapes in, symbols, shapes and workspace out, and the same values."""

import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mlc
from mlc.dialects.syntax.source import parse_module
from mlc.driver.export.sizes import SizeFunctionWriter
from mlc.frontends.common.model import Model
from mlc.support.weights import WeightStore

PROGRAM = """
#include "net.h"
#include <stdio.h>
#include <stdlib.h>

/* main THREADS SIZES...: prints the status, the bytes of workspace and the output's shape; writes the output. */
int main(int argc, char **argv) {
  int64_t sizes[16], symbols[MLC_NET_SYMBOLS], out[MLC_NET_OUTPUT_0_RANK];
  const int64_t *shapes[MLC_NET_INPUTS];
  const int ranks[] = {RANKS};
  const void *inputs[MLC_NET_INPUTS];
  FILE *file = fopen("in.bin", "rb");
  int at = 0;
  for (int k = 0; k < MLC_NET_INPUTS; ++k) {
    size_t count = 1;
    shapes[k] = sizes + at;
    for (int axis = 0; axis < ranks[k]; ++axis, ++at) count *= (size_t)(sizes[at] = atoll(argv[2 + at]));
    float *data = aligned_alloc(64, (4 * count + 63) / 64 * 64);
    if (fread(data, 4, count, file) != count) return 3;
    inputs[k] = data;
  }
  fclose(file);
  if (argc != at + 2) return 4;
  int32_t status = mlc_net_symbols(shapes, symbols);
  if (status) return printf("%d", status), 0;
  int64_t *outs[] = {out};
  mlc_net_output_shapes(symbols, outs);
  size_t count = 1;
  for (int axis = 0; axis < MLC_NET_OUTPUT_0_RANK; ++axis) count *= (size_t)out[axis];
  float *y = malloc(4 * count), *again = malloc(4 * count);
  void *outputs[] = {y}, *outputs_again[] = {again};
  mlc_runtime *rt = mlc_runtime_create(atoi(argv[1]));
  if (mlc_net_run(inputs, outputs, symbols, rt)) return 5;
  int64_t bytes = mlc_net_workspace_bytes(symbols, rt->threads);
  void *workspace = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
  if (mlc_net_run_in(inputs, outputs_again, symbols, workspace, rt)) return 6;
  for (size_t i = 0; i < count; ++i) if (y[i] != again[i]) return 7;
  mlc_runtime_destroy(rt);
  file = fopen("out.bin", "wb");
  fwrite(y, 4, count, file);
  fclose(file);
  printf("0 %lld", (long long)bytes);
  for (int axis = 0; axis < MLC_NET_OUTPUT_0_RANK; ++axis) printf(" %lld", (long long)out[axis]);
  return 0;
}
"""


def model_of(nodes, inputs, constants):
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    graph = helper.make_graph(nodes, "net", infos, [onnx.ValueInfoProto(name="y")], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def joined():
    """Rows of two inputs through a layer, and a third of as many rows added: P + S of them, an even number of each."""
    rng = np.random.default_rng(0)
    w = onnx.numpy_helper.from_array(rng.standard_normal((8, 48)).astype(np.float32), "w")
    nodes = [
        helper.make_node("Concat", ["p", "s"], ["all"], axis=0),
        helper.make_node("MatMul", ["all", "w"], ["h"]),
        helper.make_node("Softmax", ["h"], ["t"], axis=1),
        helper.make_node("Add", ["t", "mask"], ["y"]),
    ]
    return model_of(nodes, {"p": ["P", 8], "s": ["S", 8], "mask": ["T", 48]}, [w])


def pooled():
    """Windows on a picture of any size that holds two of them."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["a"], kernel_shape=[3, 3], strides=[2, 2]),
        helper.make_node("Exp", ["a"], ["e"]),
        helper.make_node("MaxPool", ["e"], ["b"], kernel_shape=[2, 2]),
        helper.make_node("Sqrt", ["b"], ["y"]),
    ]
    return model_of(nodes, {"x": [1, 2, "H", "W"]}, [])


def cut():
    """A row that is longer than another one, by an odd number and by what another input's size says of it."""
    longer = "tensor<?xf32, #graph.dims<[D + N * 2 + 1]>>"
    text = f"""
func.func @main(%x: {longer} {{graph.name = "x"}}, %n: tensor<?x2xf32, #graph.dims<[N]>> {{graph.name = "n"}})
    -> ({longer} {{graph.name = "y"}})
    attributes {{graph.symbols = {{N = #graph.symbol<1 to 64>, D = #graph.symbol<0 to 64 step 4>}}}} {{
  %s = graph.sum %n {{axes = [0, 1]}} : (tensor<?x2xf32, #graph.dims<[N]>>) -> tensor<f32>
  %y = graph.add %x, %s : ({longer}, tensor<f32>) -> {longer}
  return %y : {longer}
}}"""
    return Model(parse_module(text), WeightStore())


CASES = {
    "cut": (cut, None, [[(7,), (3, 2)], [(15,), (5, 2)]]),
    "joined": (joined, {"P": (2, 1000, 2)}, [[(4, 8), (3, 8), (7, 48)], [(100, 8), (29, 8), (129, 48)]]),
    "pooled": (pooled, None, [[(1, 2, 5, 17)], [(1, 2, 64, 33)]]),
}
REFUSED = {
    "cut": [[(6,), (3, 2)], [(9,), (3, 2)], [(5,), (3, 2)], [(75,), (3, 2)]],
    "joined": [
        [(3, 8), (3, 8), (6, 48)],
        [(4, 8), (3, 8), (8, 48)],
        [(4, 9), (3, 8), (7, 48)],
        [(1002, 8), (1, 8), (1003, 48)],
    ],
    "pooled": [[(1, 2, 2, 17)], [(2, 2, 5, 17)], [(1, 2, 5, 4)]],
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("suffix", [".so", ".a"])
def test_a_c_program_asks_for_sizes_and_runs(name, suffix, tmp_path):
    make, symbols, cases = CASES[name]
    exe = mlc.compile(make(), symbols=symbols, threads=2)
    exe.export(tmp_path / f"net{suffix}")
    ranks = ", ".join(str(len(spec.shape)) for spec in exe.inputs)
    (tmp_path / "main.c").write_text(PROGRAM.replace("{RANKS}", f"{{{ranks}}}"))
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "main.c", f"./net{suffix}", "-lm", "-lpthread"]
    subprocess.run([*command, f"-Wl,-rpath,{tmp_path}", "-o", "main"], check=True, cwd=tmp_path)

    def run(shapes, threads=2):
        rng = np.random.default_rng(1)
        arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
        (tmp_path / "in.bin").write_bytes(b"".join(a.tobytes() for a in arrays))
        words = [str(n) for shape in shapes for n in shape]
        done = subprocess.run(
            ["./main", str(threads), *words], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return dict(zip((spec.name for spec in exe.inputs), arrays, strict=True)), list(map(int, done.stdout.split()))

    for shapes in cases:
        for threads in (1, 2):
            given, (status, room, *shape) = run(shapes, threads)
            wanted = exe(given)["y"]
            assert (status, shape) == (0, list(wanted.shape))
            assert room >= exe._sizes.bind(shapes).bytes
            assert np.array_equal(np.fromfile(tmp_path / "out.bin", np.float32).reshape(shape), wanted)
    for shapes in REFUSED[name]:
        given, answer = run(shapes)
        assert answer == [22]
        with pytest.raises(ValueError, match="expected"):
            exe(given)


def test_the_header_says_what_symbols_are(tmp_path):
    mlc.compile(joined(), symbols={"P": (2, 1000, 2)}, threads=1).export(tmp_path / "net.h")
    text = (tmp_path / "net.h").read_text()
    for line in (
        "#define MLC_NET_SYMBOLS 2",
        '#define MLC_NET_SYMBOL_0_NAME "P"',
        "#define MLC_NET_SYMBOL_0_HIGH 500",
        '#define MLC_NET_INPUT_0_SIZES "P * 2, 8"',
        "#define MLC_NET_INPUT_2_RANK 2",
        "int64_t mlc_net_workspace_bytes(const int64_t *symbols, int32_t threads);",
    ):
        assert line in text
    assert "WORKSPACE_BYTES " not in text


def test_a_shared_library_shows_only_its_interface(tmp_path):
    mlc.compile(pooled(), threads=1).export(tmp_path / "net.so")
    done = subprocess.run(["nm", "-D", "--defined-only", tmp_path / "net.so"], capture_output=True, text=True)
    names = {line.split()[-1] for line in done.stdout.splitlines()}
    own = {name for name in names if name.startswith("mlc_net_")}
    assert own == {
        f"mlc_net_{n}" for n in ("check_cpu", "run", "run_in", "symbols", "output_shapes", "workspace_bytes")
    }


def test_each_size_is_computed_once():
    w = SizeFunctionWriter({"H": "%h"})
    size = [[2, [[[[1, ["H"]], [1, []]], 2]]], [3, []]]
    assert w.size(size) == w.size(size)
    assert sum("sdiv" in line for line in w.lines) == 1
    assert w.size([[1, ["H"]]]) == "%h"
    assert w.size(7) == "7"
