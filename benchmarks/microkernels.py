"""
The yardstick of matrix products: micro-kernels as one writes them by hand, of each shape of register tile.

    python benchmarks/microkernels.py                 # a table: GFLOP/s by tile and by where the panel of B comes from
    python benchmarks/microkernels.py --products      # mlc's products and 1x1 convolutions as shares of the best tile

A micro-kernel multiplies `depth` columns of A, packed in rows of the tile, with a panel of B, packed in vectors, and
keeps all sums in registers (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008). Its LLVM
IR is written here, apart from mlc's code generator; nothing is blocked, padded or fused, so no product runs faster.
"""

import argparse
import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import llvmlite.binding as llvm
import numpy as np
from kernels import Conv, Product
from rich.console import Console
from rich.table import Table

from mlc.driver.host import measure_peak_gflops
from mlc.targets.target import Target, native_target

DEPTH = 256
"""Products of each sum: a panel of A of 14 rows takes 14 KiB of L1."""
NEAR_BYTES, FAR_PANELS = 24 * 1024, 12
"""Bytes of a panel of B that stays in L1 with a panel of A; panels of B that are taken in turns, out of L2."""
CALLS = 240
"""Micro-kernels in one run: a run takes less than a millisecond, as a product does, so that few are interrupted."""

POINTWISE = tuple(
    Conv(inputs, size, size, outputs, kernel=1)
    for size, narrow, wide in ((56, 64, 256), (28, 128, 512), (14, 256, 1024), (7, 512, 2048))
    for inputs, outputs in ((narrow, wide), (wide, narrow))
)
"""The 1x1 convolutions of a residual network with 50 layers."""
PRODUCTS = tuple(Product(n, n, n, weight=weight) for weight in (False, True) for n in (256, 512, 1024, 2048))


@dataclass(frozen=True)
class Tile:
    """Rows, and vectors of each row, whose sums are in registers."""

    rows: int
    vectors: int
    lanes: int

    def __str__(self) -> str:
        return f"{self.rows}x{self.vectors}"

    @property
    def ir(self) -> str:
        """`kernel(a, b, c, k)`: c[rows, vectors * lanes] = the sum over k of a[k, rows] * b[k, vectors * lanes]."""
        vector, wide = f"<{self.lanes} x float>", self.vectors * self.lanes
        sums = [(i, j) for i in range(self.rows) for j in range(self.vectors)]
        lines = [
            f"declare {vector} @llvm.fma.v{self.lanes}f32({vector}, {vector}, {vector})",
            "define void @kernel(ptr noalias %a, ptr noalias %b, ptr noalias %c, i64 %n) {",
            "entry:",
            "  br label %loop",
            "loop:",
            "  %k = phi i64 [0, %entry], [%next, %loop]",
            *(f"  %s{i}.{j} = phi {vector} [zeroinitializer, %entry], [%t{i}.{j}, %loop]" for i, j in sums),
            f"  %ak = mul i64 %k, {self.rows}",
            f"  %bk = mul i64 %k, {wide}",
        ]
        for j in range(self.vectors):
            lines += [
                f"  %bi{j} = add i64 %bk, {j * self.lanes}",
                f"  %bp{j} = getelementptr float, ptr %b, i64 %bi{j}",
                f"  %b{j} = load {vector}, ptr %bp{j}, align 64",
            ]
        for i in range(self.rows):
            lines += [
                f"  %ai{i} = add i64 %ak, {i}",
                f"  %ap{i} = getelementptr float, ptr %a, i64 %ai{i}",
                f"  %a{i} = load float, ptr %ap{i}, align 4",
                f"  %i{i} = insertelement {vector} poison, float %a{i}, i64 0",
                f"  %v{i} = shufflevector {vector} %i{i}, {vector} poison, <{self.lanes} x i32> zeroinitializer",
            ]
            for j in range(self.vectors):
                call = f"call {vector} @llvm.fma.v{self.lanes}f32({vector} %v{i}, {vector} %b{j}, {vector} %s{i}.{j})"
                lines.append(f"  %t{i}.{j} = {call}")
        lines += [
            "  %next = add i64 %k, 1",
            "  %more = icmp ult i64 %next, %n",
            "  br i1 %more, label %loop, label %done",
            "done:",
        ]
        for i, j in sums:
            lines += [
                f"  %c{i}.{j} = getelementptr float, ptr %c, i64 {i * wide + j * self.lanes}",
                f"  store {vector} %t{i}.{j}, ptr %c{i}.{j}, align 64",
            ]
        return "\n".join([*lines, "  ret void", "}", *self._driver])

    @property
    def _driver(self) -> list[str]:
        """`run(a, b, c, k, panels, rounds)`: the micro-kernel on each panel of B, so often; not inlined."""
        return [
            "define void @run(ptr %a, ptr %b, ptr %c, i64 %k, i64 %panels, i64 %rounds) {",
            "entry:",
            "  %calls = mul i64 %panels, %rounds",
            "  br label %loop",
            "loop:",
            "  %n = phi i64 [0, %entry], [%next, %loop]",
            "  %panel = urem i64 %n, %panels",
            f"  %wide = mul i64 %k, {self.vectors * self.lanes}",
            "  %at = mul i64 %panel, %wide",
            "  %bp = getelementptr float, ptr %b, i64 %at",
            "  call void @kernel(ptr %a, ptr %bp, ptr %c, i64 %k) noinline",
            "  %next = add i64 %n, 1",
            "  %more = icmp ult i64 %next, %calls",
            "  br i1 %more, label %loop, label %done",
            "done:",
            "  ret void",
            "}",
        ]


def tiles(target: Target) -> Iterator[Tile]:
    """Tiles of one to four vectors and as many rows as the registers hold beside a row of B and one element of A."""
    lanes = target.lanes("f32")
    for vectors in range(1, 5):
        most = (target.vector_registers - vectors - 1) // vectors
        for rows in range(max(1, most - 4), most + 1):
            yield Tile(rows, vectors, lanes)


class Compiled:
    """A micro-kernel in memory, for this CPU."""

    def __init__(self, tile: Tile, target: Target) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_triple(target.triple).create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2
        )
        self._module = llvm.parse_assembly(tile.ir)
        self._engine = llvm.create_mcjit_compiler(self._module, machine)
        self._engine.finalize_object()
        signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3)
        self.run = signature(self._engine.get_function_address("run"))


def aligned(count: int) -> np.ndarray:
    """That many random f32 from an address that is a multiple of 64."""
    raw = np.random.default_rng(0).standard_normal(count + 16).astype(np.float32)
    at = -raw.ctypes.data % 64 // 4
    return raw[at : at + count]


def rates(runs: Sequence[tuple[Callable[[], object], float]], seconds: float) -> list[float]:
    """
    The GFLOP/s of the fastest run of each (function, its operations), `seconds` in all, in turns.

    Times are CPU time, so what other processes take is not counted; turns, since the clock changes with the heat.
    """
    least, until = [float("inf")] * len(runs), time.perf_counter() + seconds
    while time.perf_counter() < until:
        for index, (run, _) in enumerate(runs):
            start = time.thread_time_ns()
            run()
            least[index] = min(least[index], time.thread_time_ns() - start)
    return [flops / ns for (_, flops), ns in zip(runs, least, strict=True)]


def tile_run(tile: Tile, target: Target, panels: int) -> tuple[Callable[[], None], float]:
    """A run of a tile over so many panels of B, in turns, the panel of A stays; and its operations."""
    compiled, wide = Compiled(tile, target), tile.vectors * tile.lanes
    depth = DEPTH if panels > 1 else min(DEPTH, NEAR_BYTES // (4 * wide))
    a, b, c = aligned(depth * tile.rows), aligned(panels * depth * wide), aligned(tile.rows * wide)
    rounds = max(1, CALLS // panels)

    def run() -> None:
        compiled.run(a.ctypes.data, b.ctypes.data, c.ctypes.data, depth, panels, rounds)

    run()
    _check(tile, depth, a, b[-depth * wide :], c)
    return run, 2.0 * tile.rows * wide * depth * rounds * panels


def _check(tile: Tile, depth: int, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    """ValueError unless the sums are those of numpy."""
    wanted = a.reshape(depth, tile.rows).T @ b.reshape(depth, -1)
    if not np.allclose(c.reshape(wanted.shape), wanted, atol=1e-3, rtol=1e-4):
        raise ValueError(f"expected the micro-kernel {tile} to give numpy's sums, but they differ")


def work_run(work: Conv | Product) -> tuple[Callable[[], object], float]:
    """A run of mlc's kernel on one thread, and its operations."""
    operator, inputs = work.operator(1)
    results = operator(*inputs)
    return partial(operator, *inputs, out=results), 1e9 * work.gflop


def print_tiles(target: Target, seconds: float) -> Tile:
    """Print a table of all tiles; the one that is best with B from L2."""
    table = Table("tile", "B from L1", "B from L2", title="GFLOP/s of micro-kernels")
    found = dict[Tile, float]()
    for tile in tiles(target):
        near, far = rates([tile_run(tile, target, panels) for panels in (1, FAR_PANELS)], 2 * seconds)
        found[tile] = far
        table.add_row(str(tile), f"{near:.0f}", f"{far:.0f}")
    Console().print(table, f"registers only: {measure_peak_gflops():.0f} GFLOP/s")
    return max(found, key=lambda tile: found[tile])


def print_shares(best: Tile, target: Target, seconds: float) -> None:
    """Print mlc's products and 1x1 convolutions as shares of the rate of a micro-kernel, measured in turns with it."""
    table = Table("kernel", "GFLOP/s", f"{best} GFLOP/s", "share", title="mlc beside the best micro-kernel, 1 thread")
    yardstick = tile_run(best, target, FAR_PANELS)
    for work in (*PRODUCTS, *POINTWISE):
        reached, possible = rates([work_run(work), yardstick], seconds)
        table.add_row(str(work), f"{reached:.0f}", f"{possible:.0f}", f"{reached / possible:.0%}")
    Console().print(table)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--products", action="store_true", help="mlc's products and convolutions, too")
    parser.add_argument("--seconds", type=float, default=0.3, help="time of each figure (default: 0.3)")
    options = parser.parse_args()
    target = native_target()
    best = print_tiles(target, options.seconds)
    if options.products:
        print_shares(best, target, 6 * options.seconds)


if __name__ == "__main__":
    main()
