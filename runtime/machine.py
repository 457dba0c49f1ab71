"""
What this machine reaches: fp32 FMA peak, memory bandwidth, and the time a cache line takes between two CPUs.

Every figure with two threads needs the last one beside it: on a virtual machine a line passes between the CPUs in
about 25 to 50 ns or in 165 to 370, depending on where the hypervisor put them, and nothing else shows it.
"""

import ctypes
import time
from functools import cache

from mlc.codegen.native import Library, emit_object
from mlc.codegen.targets import native_target
from mlc.runtime.abi import RT_PARALLEL_FOR
from mlc.runtime.pool import Pool, native

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
    """The task of the bandwidth: each sums its own part of the buffer whose address is at ctx."""
    prologue = """\
  %data = load ptr, ptr %ctx
  %part = zext i32 %task to i64
  %skip = mul i64 %part, %count
  %base = getelementptr float, ptr %data, i64 %skip"""
    phis = [f"%a{k} = phi {vector} [zeroinitializer, %entry], [%b{k}, %loop]" for k in range(_STREAMS)]
    body = [
        f"  %at{k} = add i64 %i, {k * lanes}\n  %p{k} = getelementptr float, ptr %base, i64 %at{k}\n"
        f"  %v{k} = load {vector}, ptr %p{k}, align 64\n  %b{k} = fadd {vector} %a{k}, %v{k}"
        for k in range(_STREAMS)
    ]
    return _loop("stream", prologue, phis, "\n".join(body), _sink(vector, _STREAMS), _STREAMS * lanes)


@cache
def _library() -> Library:
    lanes = native_target().lanes("f32")
    vector = f"<{lanes} x float>"
    shared = _HANDOVER.replace("{FOR}", str(RT_PARALLEL_FOR))
    return Library.load([emit_object(_flops(vector, lanes) + _stream(vector, lanes) + shared)])


class _Bench:
    """A context block, and tasks run on it by the pool."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.rt = Pool.get(threads).rt()
        self.memory = ctypes.create_string_buffer(4096 * (threads + 2) + 4096)
        self.ctx = (ctypes.addressof(self.memory) + 4095) & -4096

    def set(self, offset: int, value: int, type_: type = ctypes.c_int64) -> None:
        type_.from_address(self.ctx + offset).value = value

    def seconds(self, name: str, tasks: int) -> float:
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


def measure_bandwidth(threads: int = 1, megabytes: int = 128, repeats: int = 4) -> float:
    """Return the GB/s of reading memory that no cache holds, all threads together; the best of some runs."""
    bench = _Bench(threads)
    step = _STREAMS * native_target().lanes("f32")
    count = (megabytes << 20) // 4 // threads // step * step
    buffer = (ctypes.c_char * (count * 4 * threads + 4096))()
    ctypes.memset(buffer, 1, len(buffer))
    bench.set(0, (ctypes.addressof(buffer) + 4095) & -4096)
    bench.set(8, count)
    best = min(bench.seconds("stream", threads) for _ in range(repeats))
    return count * 4 * threads / best / 1e9


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
    rt = Pool.get(threads).rt()
    dispatch = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32)(_library().address("dispatch"))
    dispatch(rt.address, 100, threads)
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        dispatch(rt.address, times, threads)
        best = min(best, time.perf_counter() - begin)
    return best / times * 1e9
