"""
Measure the machine at hand, in the terms of the cost model (targets/machine.py).

    python benchmarks/calibrate.py --compare             # what is measured beside what is in use
    python benchmarks/calibrate.py --output mine.toml    # a description; compile for it with --target mine.toml

Times become cycles by a chain of instructions of one cycle each, so neither the clock's rate nor boosting matters.
Every figure is the best of some runs: on a shared machine, run it twice and keep the faster. Rates that only whole
convolutions show (`tile_cycles`, `transform_cycles_per_vector` ...) are not measured here: the description takes them
from the family of the machine.
"""

import argparse
import ctypes
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

import mlc
from mlc.codegen.native import Library, emit_object
from mlc.driver.host import measure_bandwidth, measure_dispatch_ns, measure_handover_ns
from mlc.targets.machine import FAMILIES, GENERIC, read_family
from mlc.targets.target import Target, native_target

CHAIN = 32
"""Instructions in a row in one turn of a probe's loop: beside them the loop itself costs nothing."""
CHAINS = 12
"""Independent chains: two units times a latency of up to 6 cycles."""
MIB = 1 << 20
SIZES = sorted({part << k for k in range(12, 27) for part in (2, 3)})
"""Bytes of the rings that are chased to find the sizes of the caches: 8 KiB to 192 MiB."""
FLAT, STEP = 1.15, 1.3
"""Within a cache, loads from a larger ring take up to `FLAT` times as long; at its end more than `STEP` times."""


@dataclass(frozen=True)
class Probe:
    """A loop in LLVM IR: values that go round it, and its body, which makes the next ones."""

    name: str
    type: str
    values: int
    body: list[str]

    @property
    def text(self) -> str:
        """`void NAME(ptr data, i64 turns)`; values begin as %start, and are folded into one that is stored."""
        phis = [f"  %v{k} = phi {self.type} [%start, %entry], [%w{k}, %loop]" for k in range(self.values)]
        bits = f"<{self.type.split()[0][1:]} x i32>" if self.type.startswith("<") else self.type
        folded, fold = [f"  %b{k} = bitcast {self.type} %w{k} to {bits}" for k in range(self.values)], "%b0"
        for k in range(1, self.values):
            folded.append(f"  %f{k} = xor {bits} {fold}, %b{k}")
            fold = f"%f{k}"
        return "\n".join(
            [
                f"define void @{self.name}(ptr %data, i64 %turns) {{",
                "entry:",
                f"  %start = load {self.type}, ptr %data",
                "  %a.p = getelementptr i64, ptr %data, i64 8",
                "  %a = load i64, ptr %a.p",
                "  br label %loop",
                "loop:",
                "  %i = phi i64 [0, %entry], [%i.1, %loop]",
                *phis,
                *self.body,
                "  %i.1 = add i64 %i, 1",
                "  %more = icmp ult i64 %i.1, %turns",
                "  br i1 %more, label %loop, label %end",
                "end:",
                *folded,
                f"  store {bits} {fold}, ptr %data",
                "  ret void",
                "}",
            ]
        )


def clock_probe() -> Probe:
    """A chain of additions and exclusive ors, which no compiler merges: one cycle each."""
    steps = [f"  %x{k} = {'xor' if k % 2 else 'add'} i64 {f'%x{k - 1}' if k else '%v0'}, %a" for k in range(CHAIN)]
    return Probe("clock", "i64", 1, [*steps, f"  %w0 = add i64 %x{CHAIN - 1}, 1"])


def fma_probe(name: str, lanes: int, chains: int) -> Probe:
    """Chains of v = v * v + v, `CHAIN` of them in all for one chain, else one turn for each."""
    vector = f"<{lanes} x float>"
    call = f"call {vector} @llvm.fma.v{lanes}f32"
    body: list[str] = []
    rounds = CHAIN if chains == 1 else 2
    for k in range(chains):
        last = f"%v{k}"
        for step in range(rounds):
            new = f"%w{k}" if step == rounds - 1 else f"%c{k}.{step}"
            body.append(f"  {new} = {call}({vector} {last}, {vector} {last}, {vector} {last})")
            last = new
    return Probe(name, vector, chains, body)


def load_probe(lanes: int, vectors: int) -> Probe:
    """Loads of vectors from a few KiB, each folded into one of some exclusive ors."""
    vector, body = f"<{lanes} x i32>", ["  %turn = and i64 %i, 15", "  %at = mul i64 %turn, 64"]
    body.append("  %here = getelementptr i8, ptr %data, i64 %at")
    for k in range(vectors):
        body.append(f"  %p{k} = getelementptr {vector}, ptr %here, i64 {k}")
        body.append(f"  %l{k} = load volatile {vector}, ptr %p{k}, align 64")
        body.append(f"  %w{k} = xor {vector} %v{k}, %l{k}")
    return Probe("loads", vector, vectors, body)


def chase_probe() -> Probe:
    """Follow addresses in memory: each load waits for the one before."""
    steps: list[str] = []
    last = "%v0"
    for k in range(8):
        new = "%w0" if k == 7 else f"%n{k}"
        steps += [f"  %p{k} = inttoptr i64 {last} to ptr", f"  {new} = load i64, ptr %p{k}"]
        last = new
    return Probe("chase", "i64", 1, steps)


@dataclass
class Bench:
    """The probes for a machine, and the time of a cycle."""

    target: Target
    library: Library = field(init=False)
    cycle_seconds: float = field(init=False)

    def __post_init__(self) -> None:
        lanes = self.target.lanes("f32")
        probes = [clock_probe(), load_probe(lanes, 8), chase_probe()]
        if self.target.fma:
            probes += [fma_probe("latency", lanes, 1), fma_probe("rate", lanes, CHAINS)]
        vector = f"<{lanes} x float>"
        declared = f"declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})"
        text = "\n".join([f'target triple = "{self.target.triple}"', declared, *(probe.text for probe in probes)])
        self.library = Library.load([emit_object(text + "\n", self.target)])
        self.memory = np.zeros(1 << 16, np.uint8)
        self.data = -(-self.memory.ctypes.data // 4096) * 4096
        self.cycle_seconds = self.seconds("clock", 200_000) / (CHAIN + 1)

    def seconds(self, name: str, turns: int, data: int | None = None, repeats: int = 15) -> float:
        """Seconds of one turn of a probe's loop; the best of some runs."""
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(self.library.address(name))
        return best(lambda: function(self.data if data is None else data, turns), repeats) / turns

    def cycles(self, name: str, turns: int, data: int | None = None, repeats: int = 15) -> float:
        """Cycles of one turn."""
        return self.seconds(name, turns, data, repeats) / self.cycle_seconds

    def bytes_per_cycle(self, gbytes: float) -> float:
        """A rate in GB/s by the cycle."""
        return gbytes * 1e9 * self.cycle_seconds


def best(call: Callable[[], object], repeats: int) -> float:
    """The least seconds of a call."""
    times: list[float] = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def measure_issue(bench: Bench) -> dict[str, float]:
    """FMAs and loads a cycle, and the latency of an FMA."""
    found = {"loads_per_cycle": 8 / bench.cycles("loads", 100_000)}
    if bench.target.fma:
        found["fmas_per_cycle"] = 2 * CHAINS / bench.cycles("rate", 100_000)
        found["fma_latency_cycles"] = bench.cycles("latency", 50_000) / CHAIN
    return found


def measure_streams(bench: Bench) -> dict[str, float]:
    """Bytes a cycle of plain reads, by one core, from a buffer that half fills a level; from one that none holds."""
    target = bench.target
    levels = {
        "l2_bytes_per_cycle": (target.l2_bytes / 2, 64),
        "l3_bytes_per_cycle": (max(2 * target.l2_bytes, target.l3_bytes / 4), 8),
        "memory_bytes_per_cycle": (max(128 * MIB, 4 * target.l3_bytes), 1),
    }
    rates = {name: measure_bandwidth(1, size / MIB, 6, passes) for name, (size, passes) in levels.items()}
    return {name: bench.bytes_per_cycle(rate) for name, rate in rates.items()}


COPIES = {
    "copy_bytes_per_cycle": (
        "graph.slice %x {begin = [0, 0, 0, 0], end = [2, 64, 56, 56], "
        "strides = [1, 1, 1, 1]} : (tensor<2x128x56x56xf32>) -> tensor<2x64x56x56xf32>",
        "tensor<2x128x56x56xf32>",
        "tensor<2x64x56x56xf32>",
    ),
    "reorder_bytes_per_cycle": (
        'graph.layout_transform %x {src = "NCHW", dst = "NCHW16c"} : '
        "(tensor<2x64x56x56xf32>) -> tensor<2x4x56x56x16xf32>",
        "tensor<2x64x56x56xf32>",
        "tensor<2x4x56x56x16xf32>",
    ),
}
"""Copies as kernels that mlc makes: what the cost model reckons with."""


def measure_copies(bench: Bench) -> dict[str, float]:
    """Bytes a cycle, read and written, of copies as mlc compiles them, between L2 and L3."""
    found: dict[str, float] = {}
    moved = 2 * 4 * 2 * 64 * 56 * 56
    for name, (op, source, result) in COPIES.items():
        text = f"func.func @main(%x : {source}) -> {result} {{\n  %0 = {op}\n  func.return %0 : {result}\n}}\n"
        with tempfile.TemporaryDirectory(prefix="mlc.") as directory:
            path = Path(directory) / "copy.mlir"
            path.write_text(text)
            run = mlc.compile(path, threads=1, cache=False)
            (spec,) = run.inputs
            x = {spec.name: np.ones(spec.shape, np.float32)}
            profile = run.profile(x, repeat=30)
            seconds = sum(kernel.least_seconds * kernel.count for kernel in profile.kernels)
        found[name] = moved * bench.cycle_seconds / seconds
    return found


def measure_threads(bench: Bench) -> dict[str, float]:
    """Cycles of a parallel loop that does nothing, on two threads; nothing on one CPU."""
    if bench.target.cores < 2:
        return {}
    return {"dispatch_cycles": measure_dispatch_ns(2) * 1e-9 / bench.cycle_seconds}


def measure_latencies(bench: Bench, sizes: list[int] = SIZES) -> dict[int, float]:
    """Cycles of a load that waits for the one before, by the bytes of the ring of lines that they go round."""
    rng, found = np.random.default_rng(0), {}
    for size in sizes:
        lines = size // 64
        raw = np.zeros(size + 4096, np.uint8)
        base = -(-raw.ctypes.data // 4096) * 4096
        order = rng.permutation(lines).astype(np.int64)
        ring = raw[base - raw.ctypes.data :][:size].view(np.int64)
        ring[order * 8] = base + 64 * np.roll(order, -1)
        turns = max(4096, min(200_000, lines // 8))
        found[size] = bench.cycles("chase", turns, base + 64 * int(order[0]), 5) / 8
        del raw
    return found


def cache_sizes(latencies: Mapping[int, float]) -> list[int]:
    """The sizes of caches, by the cycles of loads from rings of some sizes: where a flat stretch ends in a step."""
    sizes, found, flat = sorted(latencies), list[int](), True
    for size, larger in pairwise(sizes):
        growth = latencies[larger] / latencies[size]
        if flat and growth > STEP:
            found.append(size)
        flat = growth <= FLAT
    return found


def family_of(target: Target) -> str:
    """The file whose rates stand for the machine."""
    for family in FAMILIES:
        if any(cpu.llvm_cpu == target.cpu for cpu in read_family(family).values()):
            return family
    return GENERIC.get(target.architecture, GENERIC["x86_64"])


def description(name: str, target: Target, rates: Mapping[str, float]) -> str:
    """The TOML text of a machine: its rates, where measured, on top of its family's."""
    instructions = ", ".join(f'"{x}"' for x in target.instructions)
    lines = [
        f"# {name}: measured by benchmarks/calibrate.py; the other rates are those of core_from.",
        "",
        f'triple = "{target.triple}"',
        f'core_from = "{family_of(target)}"',
        "",
        "[core]",
        *(f"{key} = {value:.3g}" if value < 1000 else f"{key} = {value:.0f}" for key, value in rates.items()),
        "",
        f"[cpus.{name}]",
        f'llvm_cpu = "{target.cpu}"',
        f'features = "{target.features}"',
        f"vector_bits = {target.vector_bits}",
        f"vector_registers = {target.vector_registers}",
        f"masked_memory = {str(target.masked_memory).lower()}",
        f"fma = {str(target.fma).lower()}",
        f"instructions = [{instructions}]",
        *(f"l{level}_bytes = {getattr(target, f'l{level}_bytes')}" for level in (1, 2, 3)),
    ]
    return "\n".join(lines) + "\n"


def comparison(target: Target, rates: Mapping[str, float]) -> str:
    """A table: each rate as measured, and as the cost model has it."""
    lines = [f"{'':<28}{'measured':>10}{'in use':>10}{'ratio':>8}"]
    for key, value in rates.items():
        used = getattr(target.core, key)
        lines.append(f"{key:<28}{value:>10.2f}{used:>10.2f}{value / used:>8.2f}")
    return "\n".join(lines)


def main() -> None:
    """Measure, then write or compare."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").strip(), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, metavar="FILE.toml", help="write the description of the machine")
    parser.add_argument("--name", default="host", help="the CPU's name in it (default: host)")
    parser.add_argument("--compare", action="store_true", help="show what was measured beside what is in use")
    args = parser.parse_args()
    target = native_target()
    bench = Bench(target)
    rates: dict[str, float] = {}
    for measure in (measure_issue, measure_streams, measure_copies, measure_threads):
        rates |= measure(bench)
    if args.output is not None:
        args.output.write_text(description(args.name, target, rates))
        print(f"wrote {args.output}")
    if args.compare or args.output is None:
        print(f"{target.cpu}, {os.cpu_count()} CPUs, {1e-9 / bench.cycle_seconds:.2f} GHz")
        print(comparison(target, rates))
        if target.cores > 1:
            print(f"a cache line passes from one CPU to another in {measure_handover_ns():.0f} ns")
        found = ", ".join(f"{size >> 10} KiB" for size in cache_sizes(measure_latencies(bench)))
        told = ", ".join(f"{size >> 10} KiB" for size in (target.l1_bytes, target.l2_bytes, target.l3_bytes))
        print(f"loads become slower beyond {found or 'no size'}; the operating system tells of {told}")


if __name__ == "__main__":
    main()
