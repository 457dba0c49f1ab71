"""
What this machine reaches: fp32 FMA peak, bandwidth of each level of memory, the time a cache line takes between CPUs.

Every figure with two threads needs the last one beside it: on a virtual machine a line passes between the CPUs in
about 25 to 50 ns or in 165 to 370, depending on where the hypervisor put them, and nothing else shows it.
"""

import ctypes
import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from mlc.codegen.targets import native_target
from mlc.runtime.abi import RT_PARALLEL_FOR

if TYPE_CHECKING:
    from mlc.codegen.native import Library

_CHAINS = 10  # independent accumulators: latency 4 to 5, two FMA units
_STREAMS = 8
_NEAR_NS = 90.0

_HANDOVER = """
; Two tasks take turns on one cache line: task 0 makes it odd, task 1 even.
define i32 @handover(ptr %rt, ptr %ctx, i32 %task, i32 %thread) {
entry:
  %rounds.p = getelementptr i8, ptr %ctx, i64 128
  %rounds = load i32, ptr %rounds.p
  br label %spin
spin:
  %now = load atomic i32, ptr %ctx acquire, align 4
  %low = and i32 %now, 1
  %mine = icmp eq i32 %low, %task
  %over = icmp sge i32 %now, %rounds
  br i1 %over, label %end, label %look
look:
  br i1 %mine, label %hand, label %spin
hand:
  %next = add i32 %now, 1
  store atomic i32 %next, ptr %ctx release, align 4
  br label %spin
end:
  ret i32 0
}
define i32 @empty(ptr %rt, ptr %ctx, i32 %task, i32 %thread) {
  ret i32 0
}
; Dispatch the empty task many times.
define void @dispatch(ptr %rt, i32 %times, i32 %threads) {
entry:
  br label %loop
loop:
  %i = phi i32 [0, %entry], [%i.1, %loop]
  %for.p = getelementptr i8, ptr %rt, i64 {FOR}
  %for = load ptr, ptr %for.p
  %ignored = call i32 %for(ptr %rt, ptr @empty, ptr null, i32 %threads, i32 %threads)
  %i.1 = add i32 %i, 1
  %more = icmp slt i32 %i.1, %times
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""


def _loop(name: str, prologue: str, phis: list[str], body: str, finish: str, step: int) -> str:
    """Write a task `name` whose loop runs an index from 0 to the count at ctx + 8, by `step`."""
    listed = "\n  ".join(phis)
    return f"""
define i32 @{name}(ptr %rt, ptr %ctx, i32 %task, i32 %thread) {{
entry:
  %count.p = getelementptr i64, ptr %ctx, i64 1
  %count = load i64, ptr %count.p
{prologue}
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%i.1, %loop]
  {listed}
{body}
  %i.1 = add nuw nsw i64 %i, {step}
  %more = icmp ult i64 %i.1, %count
  br i1 %more, label %loop, label %end
end:
{finish}
  ret i32 0
}}"""


def _sink(vector: str, chains: int) -> str:
    """Add up the accumulators b0, b1, ... and store the sum on a page of the task's own."""
    adds = [f"  %s1 = fadd {vector} %b0, %b1"]
    adds += [f"  %s{k} = fadd {vector} %s{k - 1}, %b{k}" for k in range(2, chains)]
    return "\n".join(
        [
            "  %number = zext i32 %task to i64",
            "  %page = mul i64 %number, 4096",
            "  %offset = add i64 %page, 4096",
            "  %mine = getelementptr i8, ptr %ctx, i64 %offset",
            *adds,
            f"  store {vector} %s{chains - 1}, ptr %mine, align 64",
        ]
    )


def _flops(vector: str, lanes: int) -> str:
    """The task of the FMA peak: independent chains of b = a * 0.5 + 0.5."""
    fma, half = f"llvm.fma.v{lanes}f32", "splat (float 0.5)"
    phis = [f"%a{k} = phi {vector} [zeroinitializer, %entry], [%b{k}, %loop]" for k in range(_CHAINS)]
    body = [f"  %b{k} = call {vector} @{fma}({vector} %a{k}, {vector} {half}, {vector} {half})" for k in range(_CHAINS)]
    declaration = f"declare {vector} @{fma}({vector}, {vector}, {vector})\n"
    return declaration + _loop("flops", "", phis, "\n".join(body), _sink(vector, _CHAINS), 1)


def _stream(vector: str, lanes: int) -> str:
    """
    The task of the bandwidth: each sums its own part of the buffer whose address is at ctx, again and again.

    The floats of a part are a power of two, at ctx + 16.
    """
    prologue = """\
  %data = load ptr, ptr %ctx
  %size.p = getelementptr i64, ptr %ctx, i64 2
  %size = load i64, ptr %size.p
  %mask = sub i64 %size, 1
  %part = zext i32 %task to i64
  %skip = mul i64 %part, %size
  %base = getelementptr float, ptr %data, i64 %skip"""
    phis = [f"%a{k} = phi {vector} [zeroinitializer, %entry], [%b{k}, %loop]" for k in range(_STREAMS)]
    body = ["  %at = and i64 %i, %mask\n  %here = getelementptr float, ptr %base, i64 %at"]
    body += [
        f"  %p{k} = getelementptr float, ptr %here, i64 {k * lanes}\n"
        f"  %v{k} = load {vector}, ptr %p{k}, align 64\n  %b{k} = fadd {vector} %a{k}, %v{k}"
        for k in range(_STREAMS)
    ]
    return _loop("stream", prologue, phis, "\n".join(body), _sink(vector, _STREAMS), _STREAMS * lanes)


@cache
def _library() -> "Library":
    from mlc.codegen.native import Library, emit_object

    lanes = native_target().lanes("f32")
    vector = f"<{lanes} x float>"
    shared = _HANDOVER.replace("{FOR}", str(RT_PARALLEL_FOR))
    return Library.load([emit_object(_flops(vector, lanes) + _stream(vector, lanes) + shared)])


class _Bench:
    """A context block, and tasks run on it by the pool."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        from mlc.runtime.pool import Pool

        self.rt = Pool.get(threads).rt()
        self.memory = ctypes.create_string_buffer(4096 * (threads + 2) + 4096)
        self.ctx = (ctypes.addressof(self.memory) + 4095) & -4096

    def set(self, offset: int, value: int, type_: type = ctypes.c_int64) -> None:
        type_.from_address(self.ctx + offset).value = value

    def seconds(self, name: str, tasks: int) -> float:
        from mlc.runtime.pool import native

        task = _library().address(name)
        begin = time.perf_counter()
        native().parallel_for(self.rt.address, task, self.ctx, tasks, tasks)
        return time.perf_counter() - begin


def measure_peak_gflops(threads: int = 1, repeats: int = 5) -> float:
    """Return the fp32 GFLOP/s of FMA instructions alone, all threads together; the best of some runs."""
    bench = _Bench(threads)
    rounds = 1_000_000
    bench.set(8, rounds)
    best = min(bench.seconds("flops", threads) for _ in range(repeats))
    return 2 * native_target().lanes("f32") * _CHAINS * rounds * threads / best / 1e9


def measure_bandwidth(threads: int = 1, megabytes: float = 128, repeats: int = 4, passes: int = 1) -> float:
    """
    Return the GB/s of reading a buffer of about that size, all threads together; the best of some runs.

    A size that no cache holds gives the memory's; a smaller one, read in several `passes`, that of a cache.
    """
    bench = _Bench(threads)
    part = 1 << max(12, int(megabytes * 2**20 / 4 / threads).bit_length() - 1)
    buffer = (ctypes.c_char * (part * 4 * threads + 4096))()
    ctypes.memset(buffer, 1, len(buffer))
    bench.set(0, (ctypes.addressof(buffer) + 4095) & -4096)
    bench.set(8, part * passes)
    bench.set(16, part)
    best = min(bench.seconds("stream", threads) for _ in range(repeats))
    return part * passes * 4 * threads / best / 1e9


@dataclass(frozen=True)
class Level:
    """One level of memory: how much it holds for all threads together, and how fast they read it."""

    name: str
    bytes: int
    gbytes: float


@dataclass(frozen=True)
class Machine:
    """What a number of threads reach at best, as measured: the roofs above every kernel."""

    threads: int
    gflops: float
    levels: tuple[Level, ...]
    """The caches that hold more than their inner one, then the memory."""

    def __str__(self) -> str:
        reads = ", ".join(f"{level.name} {level.gbytes:.0f}" for level in self.levels)
        threads = "1 thread reaches" if self.threads == 1 else f"{self.threads} threads reach"
        return f"{threads} {self.gflops:.0f} GFLOP/s (fp32 FMA) and read {reads} GB/s"

    def level(self, distance: int) -> Level:
        """The level that still holds what was used so many bytes ago."""
        return next((level for level in self.levels if distance <= level.bytes), self.levels[-1])


@cache
def measure_machine(threads: int = 1) -> Machine:
    """Measure the FMA peak and the bandwidth of L2, L3 and memory; once in a process, in about half a second."""
    target = native_target()
    own, shared = target.l2_bytes * threads, target.l3_bytes
    levels = [Level("L2", own, measure_bandwidth(threads, own / 2**21, passes=64))]
    if shared >= 4 * own:
        levels.append(Level("L3", shared, measure_bandwidth(threads, shared / 2**21, passes=4)))
    beyond = min(1024, max(128, 4 * shared >> 20))
    levels.append(Level("DRAM", 1 << 62, measure_bandwidth(threads, beyond)))
    return Machine(threads, measure_peak_gflops(threads), tuple(levels))


def measure_handover_ns(rounds: int = 20_000, repeats: int = 3) -> float:
    """Return the nanoseconds that a cache line takes from one CPU to another; the best of some runs."""
    bench = _Bench(2)
    best = float("inf")
    for _ in range(repeats):
        bench.set(0, 0)
        bench.set(128, rounds, ctypes.c_int32)
        best = min(best, bench.seconds("handover", 2))
    return best / rounds * 1e9


def is_near(handover_ns: float) -> bool:
    """Tell whether two CPUs are near each other: figures of the two states must not be compared."""
    return handover_ns < _NEAR_NS


def measure_dispatch_ns(threads: int = 2, times: int = 10_000, repeats: int = 5) -> float:
    """Return the nanoseconds of one parallel loop that does nothing, back to back; the best of some runs."""
    from mlc.runtime.pool import Pool

    rt = Pool.get(threads).rt()
    dispatch = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32)(_library().address("dispatch"))
    dispatch(rt.address, 100, threads)
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        dispatch(rt.address, times, threads)
        best = min(best, time.perf_counter() - begin)
    return best / times * 1e9
