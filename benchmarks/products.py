"""
Matrix products beside the peers, in a process of their own.

    python benchmarks/products.py THREADS SECONDS STEP NAME..       # prints lines of JSON; STEP 1 measures every shape

Each shape is measured twice: with both operands given at the call, and with a right operand that is a weight, which a
program may pack ahead of time. The two groups must not be compared.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
import onnx
from measure import best_blas, blas_threads, in_turns, peak

import mlc

Shape = tuple[int, int, int]
Maker = Callable[[Shape, Any, Any, int, bool], Callable[[], Any] | None]
_CUBES = (64, 128, 256, 512, 1024, 2048)
_WIDTHS = (384, 768, 1536, 3072)
SHAPES: tuple[Shape, ...] = (
    *((size, size, size) for size in _CUBES),
    *((m, n, k) for m, k, n in product((1, 128), _WIDTHS, _WIDTHS)),
)
"""M, N and K."""


def _model(shape: Shape, b: Any, weight: bool) -> bytes:
    """The product as an ONNX model."""
    m, n, k = shape
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info("a", kind, (m, k))]
    if not weight:
        inputs.append(helper.make_tensor_value_info("b", kind, (k, n)))
    outputs = [helper.make_tensor_value_info("c", kind, (m, n))]
    weights = [onnx.numpy_helper.from_array(b, "b")] if weight else []
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["c"])], "product", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10).SerializeToString()


def _mlc(shape: Shape, a: Any, b: Any, threads: int, weight: bool) -> Callable[[], Any]:
    m, n, k = shape
    out = np.empty((m, n), np.float32)
    if weight:
        exe = mlc.compile(onnx.load_from_string(_model(shape, b, weight)), threads=threads)
        return lambda: exe({"a": a}, out={"c": out})["c"]
    te = mlc.te
    left, right = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    axis = te.reduce_axis(k, "k")
    result = te.compute((m, n), lambda i, j: te.sum(left[i, axis] * right[axis, j], axis=axis), name="C")
    op = mlc.build(te.func("matmul", [left, right], [result]), threads=threads)
    return lambda: (op(a, b, out=out), out)[1]


def _numpy(shape: Shape, a: Any, b: Any, threads: int, weight: bool) -> Callable[[], Any] | None:
    if weight:
        return None
    blas_threads(threads)
    return partial(np.matmul, a, b, out=np.empty(shape[:2], np.float32))


def _torch(shape: Shape, a: Any, b: Any, threads: int, weight: bool) -> Callable[[], Any] | None:
    if weight:
        return None
    import torch

    torch.set_num_threads(threads)
    left, right, out = torch.from_numpy(a), torch.from_numpy(b), torch.empty(shape[:2])
    return lambda: torch.mm(left, right, out=out).numpy()


def _onnxruntime(shape: Shape, a: Any, b: Any, threads: int, weight: bool) -> Callable[[], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
    session = onnxruntime.InferenceSession(_model(shape, b, weight), options, providers=["CPUExecutionProvider"])
    inputs = {"a": a} if weight else {"a": a, "b": b}
    return lambda: session.run(None, inputs)[0]


def _openvino(shape: Shape, a: Any, b: Any, threads: int, weight: bool) -> Callable[[], Any]:
    import openvino

    core = openvino.Core()
    config = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(_model(shape, b, weight)), "CPU", config)
    request, inputs = compiled.create_infer_request(), {"a": a} if weight else {"a": a, "b": b}
    return lambda: request.infer(inputs, share_inputs=True, share_outputs=True)[0]


CONTENDERS: dict[str, Maker] = {
    "mlc": _mlc,
    "numpy": _numpy,
    "torch": _torch,
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
}


def available(names: list[str]) -> list[str]:
    """The named contenders that are installed."""
    return [name for name in names if name in CONTENDERS and find_spec(name) is not None]


def measure(shape: Shape, threads: int, weight: bool, seconds: float, names: list[str]) -> dict[str, Any]:
    """Milliseconds and GFLOP/s of each contender, and its error beside float64."""
    m, n, k = shape
    rng = np.random.default_rng(0)
    a = rng.uniform(-1, 1, (m, k)).astype(np.float32)
    b = rng.uniform(-1, 1, (k, n)).astype(np.float32)
    wanted = a.astype(np.float64) @ b
    runs = {name: CONTENDERS[name](shape, a, b, threads, weight) for name in names}
    made = {name: run for name, run in runs.items() if run is not None}
    error = {name: float(np.max(np.abs(run() - wanted)) / np.max(np.abs(wanted))) for name, run in made.items()}
    record = in_turns(made, seconds, threads, blocks=4)
    rates = {name: 2e-6 * m * n * k / one["median"] for name, one in record["ms"].items()}
    bytes_moved = 4 * (m * k + k * n + m * n)
    width = 1e-6 * bytes_moved / record["ms"]["mlc"]["median"]
    facts = {"gflops": rates, "gbytes": width, "peak": peak(threads), "error": error}
    return {"shape": shape, "weight": weight, **record, **facts}


def main() -> None:
    """Measure and print one line of JSON a figure."""
    best_blas()
    threads, seconds, step, *names = sys.argv[1:]
    for weight in (False, True):
        for shape in SHAPES[:: int(step)]:
            record = measure(shape, int(threads), weight, float(seconds), names)
            print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
