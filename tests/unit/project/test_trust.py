"""What mlc promises about itself: the same objects every time, and sizes at run time that nothing can hold."""

import ctypes
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import small_model
from onnx_graphs import model_of

import mlc

PROGRAM = """
import json, sys, mlc
exe = mlc.compile(sys.argv[1], threads=2, cache=False)
files = exe.artifact.model["files"]
print(json.dumps([files["objects.bin"]["sha256"], files["weights.bin"]["sha256"], exe.artifact.model["nodes"]]))
"""


def test_objects_are_the_same_bytes_in_every_process(tmp_path):
    path = small_model.write(tmp_path)
    found = []
    for seed in ("0", "1"):  # sets of names are in another order
        environment = os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, check=True, env=environment
        )
        found.append(json.loads(done.stdout))
    assert found[0] == found[1]


SYMBOLIC = """func.func @main(%x: tensor<?x70xf32, #graph.dims<[N]>>) -> tensor<?x70xf32, #graph.dims<[N]>> {
  %1 = graph.exp %x : tensor<?x70xf32, #graph.dims<[N]>>
  return %1 : tensor<?x70xf32, #graph.dims<[N]>>
}
"""


@pytest.mark.parametrize("rows", [1 << 40, 1 << 50])
def test_sizes_that_no_memory_holds_are_refused_before_a_kernel_runs(tmp_path, rows):
    (tmp_path / "m.mlir").write_text(SYMBOLIC)
    exe = mlc.compile(tmp_path / "m.mlir", threads=1)
    huge = np.broadcast_to(np.float32(0), (rows, 70))
    with pytest.raises((ValueError, MemoryError), match=r"expected|allocate"):
        exe({"input0": huge})


def cube():
    """A model of N numbers with a tensor of N x N x N inside."""
    axes = {"a": np.array([0, 1]), "b": np.array([1, 2]), "c": np.array([0, 2])}
    nodes = [onnx.helper.make_node("Unsqueeze", ["x", name], [f"x{name}"]) for name in axes]
    nodes += [onnx.helper.make_node("Add", ["xa", "xb"], ["s"]), onnx.helper.make_node("Add", ["s", "xc"], ["t"])]
    nodes += [onnx.helper.make_node("Softmax", ["t"], ["e"], axis=1)]
    nodes += [onnx.helper.make_node("ReduceMax", ["e", "a"], ["y"], keepdims=0)]
    proto = model_of(nodes, {"x": np.zeros(1, np.float32)}, axes)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    return proto


def test_products_of_sizes_past_64_bits_are_refused(tmp_path):
    """Of 2^22 the tensor's bytes are 2^68, which 64 bits would take for 0."""
    exe = mlc.compile(cube(), threads=1)
    assert exe({"x": np.zeros(3, np.float32)})["y"].shape == (3,)
    with (tmp_path / "x").open("wb") as file:
        file.truncate(4 << 22)
    with pytest.raises(ValueError, match=r"expected smaller inputs than x \(4194304,\), with which a tensor"):
        exe({"x": np.memmap(tmp_path / "x", np.float32, "r")})
    exe.export(tmp_path / "cube.so")
    library = ctypes.CDLL(str(tmp_path / "cube.so"))
    for size, status in ((3, 0), (1 << 16, 0), (2642246, 22), (1 << 22, 22), (1 << 28, 22), (1 << 62, 22)):
        shape, symbols = ctypes.c_int64(size), ctypes.c_int64()
        shapes = (ctypes.c_void_p * 1)(ctypes.addressof(shape))
        assert library.mlc_cube_symbols(shapes, ctypes.byref(symbols)) == status, size


def test_every_test_that_the_page_names_exists():
    tests = Path(__file__).parents[2]
    folders = (tests / "unit", tests / "torch")
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", (tests.parent / "docs" / "trust.md").read_text())
    assert len(named) > 30
    for file, name in named:
        texts = [(folder / file).read_text() for folder in folders if (folder / file).exists()]
        assert any(re.search(rf"^def {name}\b", text, re.MULTILINE) for text in texts), f"{file}::{name}"
