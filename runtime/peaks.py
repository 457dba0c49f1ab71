"""
Measured peaks of this machine: fp32 FMA, bandwidth of each level of memory, the time a cache line takes
between CPUs. The measurements run the probes that are linked into every artefact (codegen/probes.py).

Every figure with two threads needs the last one beside it: on a virtual machine a line passes between the CPUs in
about 25 to 50 ns or in 165 to 370, depending on where the hypervisor put them, and nothing else shows it.
"""

import ctypes
import time
from dataclasses import dataclass

from mlc.runtime.code import Code
from mlc.support.abi import PARALLEL_FOR, PROBE_CHAINS, RuntimeStruct
from mlc.targets.cost.thresholds import NEAR_HANDOVER_NS
from mlc.targets.host import cache_bytes


@dataclass(frozen=True)
class Level:
    """One level of memory: its bytes for all threads together, and their read bandwidth in GB/s."""

    name: str
    bytes: int
    gbytes: float


@dataclass(frozen=True)
class Machine:
    """The measured peaks of a number of threads: the roofs of the roofline model."""

    threads: int
    gflops: float
    levels: tuple[Level, ...]
    """The caches that hold more than their inner one, then the memory."""

    def __str__(self) -> str:
        reads = ", ".join(f"{level.name} {level.gbytes:.0f}" for level in self.levels)
        threads = "1 thread reaches" if self.threads == 1 else f"{self.threads} threads reach"
        return f"{threads} {self.gflops:.0f} GFLOP/s (fp32 FMA) and read {reads} GB/s"

    def level(self, distance: int) -> Level:
        """The innermost level that still holds data last used `distance` bytes of accesses ago."""
        return next((level for level in self.levels if distance <= level.bytes), self.levels[-1])


class _Bench:
    """Runs probes on the thread pool, with a block of memory as their context."""

    def __init__(self, code: Code, threads: int) -> None:
        self.code = code
        self.rt, self._keeper = code.runtime(threads, 0)
        self.parallel_for = PARALLEL_FOR(RuntimeStruct.from_address(self.rt).parallel_for)
        self.memory = ctypes.create_string_buffer(4096 * (threads + 2) + 4096)
        self.ctx = (ctypes.addressof(self.memory) + 4095) & -4096

    def set(self, offset: int, value: int, type_: type[ctypes.c_int64 | ctypes.c_int32] = ctypes.c_int64) -> None:
        type_.from_address(self.ctx + offset).value = value

    def seconds(self, name: str, tasks: int) -> float:
        task = self.code.address(name)
        begin = time.perf_counter()
        self.parallel_for(self.rt, task, self.ctx, tasks, tasks)
        return time.perf_counter() - begin


def lanes_of(code: Code) -> int:
    """How many f32 lanes the probes' vectors have."""
    return ctypes.CFUNCTYPE(ctypes.c_int32)(code.address("mlc_probe_lanes"))()


def measure_peak_gflops(code: Code, threads: int = 1, repeats: int = 5) -> float:
    """Return the fp32 GFLOP/s of FMA instructions alone, all threads together; the best of some runs."""
    bench = _Bench(code, threads)
    rounds = 1_000_000
    bench.set(8, rounds)
    best = min(bench.seconds("mlc_probe_flops", threads) for _ in range(repeats))
    return 2 * lanes_of(code) * PROBE_CHAINS * rounds * threads / best / 1e9


def measure_bandwidth(code: Code, threads: int = 1, megabytes: float = 128, repeats: int = 4, passes: int = 1) -> float:
    """
    Return the GB/s of reading a buffer of about that size, all threads together; the best of some runs.

    A size that no cache holds gives the memory's; a smaller one, read in several `passes`, that of a cache.
    """
    bench = _Bench(code, threads)
    part = 1 << max(12, int(megabytes * 2**20 / 4 / threads).bit_length() - 1)
    buffer = (ctypes.c_char * (part * 4 * threads + 4096))()
    ctypes.memset(buffer, 1, len(buffer))
    bench.set(0, (ctypes.addressof(buffer) + 4095) & -4096)
    bench.set(8, part * passes)
    bench.set(16, part)
    best = min(bench.seconds("mlc_probe_stream", threads) for _ in range(repeats))
    return part * passes * 4 * threads / best / 1e9


_machines: dict[int, Machine] = {}


def measure_machine(code: Code, threads: int = 1) -> Machine:
    """Measure the FMA peak and the bandwidth of L2, L3 and memory: once in a process, in about 0.25 seconds."""
    if threads not in _machines:
        _machines[threads] = _measure(code, threads)
    return _machines[threads]


def _measure(code: Code, threads: int) -> Machine:
    sizes = cache_bytes()
    own, shared = sizes[2] * threads, sizes[3]
    levels = [Level("L2", own, measure_bandwidth(code, threads, own / 2**21, passes=64))]
    if shared >= 4 * own:
        levels.append(Level("L3", shared, measure_bandwidth(code, threads, shared / 2**21, passes=4)))
    beyond = min(1024, max(128, 4 * shared >> 20))
    levels.append(Level("DRAM", 1 << 62, measure_bandwidth(code, threads, beyond)))
    return Machine(threads, measure_peak_gflops(code, threads), tuple(levels))


def measure_handover_ns(code: Code, rounds: int = 20_000, repeats: int = 3) -> float:
    """Return the nanoseconds that a cache line takes from one CPU to another; the best of some runs."""
    bench = _Bench(code, 2)
    best = float("inf")
    for _ in range(repeats):
        bench.set(0, 0)
        bench.set(128, rounds, ctypes.c_int32)
        best = min(best, bench.seconds("mlc_probe_handover", 2))
    return best / rounds * 1e9


def is_near(handover_ns: float) -> bool:
    """Whether two CPUs share a cache, by the time of a hand-over; figures of the two states must not be compared."""
    return handover_ns < NEAR_HANDOVER_NS


def measure_dispatch_ns(code: Code, threads: int = 2, times: int = 10_000, repeats: int = 5) -> float:
    """Return the nanoseconds of one parallel loop that does nothing, back to back; the best of some runs."""
    rt, keeper = code.runtime(threads, 0)
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32)
    dispatch = signature(code.address("mlc_probe_dispatch"))
    dispatch(rt, 100, threads)
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        dispatch(rt, times, threads)
        best = min(best, time.perf_counter() - begin)
    del keeper
    return best / times * 1e9
