"""
Convolutions and dense layers in f32 and in bf16: by vectors, and by the matrix unit where the CPU has one (AMX).

    python benchmarks/precisions.py               # ms at 1 thread, and the rate of each in GFLOP/s
    python benchmarks/precisions.py --threads 2

All are measured in turns in one process. Without a matrix unit the table has no column for it, and says so.
"""

import argparse
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx
from measure import gate, in_turns
from onnx import helper, numpy_helper
from rich.console import Console
from rich.table import Table

import mlc
from mlc.targets.matrix import multiplies_matrices
from mlc.targets.target import native_target


@dataclass(frozen=True)
class Layer:
    """A dense layer (window 0) or a convolution of one picture, with a relu."""

    rows: int
    """Rows of the dense layer, or pixels along each side."""
    inputs: int
    outputs: int
    window: int = 0

    def __str__(self) -> str:
        if not self.window:
            return f"{self.rows} x {self.outputs} x {self.inputs}"
        return f"{self.inputs}x{self.rows}x{self.rows} -> {self.outputs}, {self.window}x{self.window}"

    @property
    def gflop(self) -> float:
        """Multiplications and additions, in 10^9."""
        points = self.rows * (self.rows * self.window**2 if self.window else 1)
        return 2e-9 * points * self.inputs * self.outputs

    def model(self) -> onnx.ModelProto:
        """The layer as a model of ONNX, with random weights."""
        window, rng = [self.window] * 2, np.random.default_rng(0)
        w_shape = (self.outputs, self.inputs, *window) if self.window else (self.inputs, self.outputs)
        weights = numpy_helper.from_array(rng.uniform(-0.1, 0.1, w_shape).astype(np.float32), "w")
        pads = {"pads": [self.window // 2] * 4} if self.window else {}
        nodes = [
            helper.make_node("Conv" if self.window else "MatMul", ["x", "w"], ["s"], **pads),
            helper.make_node("Relu", ["s"], ["y"]),
        ]
        side = [self.rows, self.rows]
        x, y = ([1, n, *side] if self.window else [self.rows, n] for n in (self.inputs, self.outputs))
        values = (helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", x), ("y", y)))
        given, result = values
        graph = helper.make_graph(nodes, "layer", [given], [result], [weights])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


LAYERS = [Layer(rows, n, n) for n in (256, 768, 1024, 2048) for rows in (16, 128, 512)] + [
    Layer(size, channels, channels, window)
    for size, channels in ((56, 64), (28, 128), (14, 256), (7, 512))
    for window in (1, 3)
]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="number of threads (default: 1)")
    parser.add_argument("--seconds", type=float, default=1.0, help="time of each figure (default: 1)")
    options = parser.parse_args()
    ways = {"f32": ("native", "f32"), "bf16": ("native", "bf16")}
    if has_unit := multiplies_matrices("bf16", native_target()):
        ways |= {"bf16": ("native,-amx-tile", "bf16"), "bf16, matrix unit": ("native", "bf16")}
    table = Table("layer", *ways, "state", title=f"ms (GFLOP/s), {options.threads} thread(s)")
    for layer in LAYERS:
        runs = {}
        for name, (target, precision) in ways.items():
            exe = mlc.compile(layer.model(), target=target, precision=precision, threads=options.threads)
            draw = np.random.default_rng(1).uniform
            runs[name] = partial(exe, {spec.name: draw(-1, 1, spec.shape).astype(np.float32) for spec in exe.inputs})
        found = in_turns(runs, options.seconds, options.threads)
        medians = [found["ms"][name]["median"] for name in ways]
        table.add_row(str(layer), *(f"{ms:.3f} ({1e3 * layer.gflop / ms:.0f})" for ms in medians), gate(found))
    Console().print(table, "" if has_unit else "This CPU has no matrix unit (AMX), or Linux does not grant it.")


if __name__ == "__main__":
    main()
