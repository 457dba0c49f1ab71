"""
How every figure here is taken.

Contenders run in turns, in blocks, within one process. Before each block the threads that the last one left spinning
come to rest (`let_threads_rest`), and one call is not counted. Two gates decide which blocks count:

- what other processes used of the CPUs meanwhile, from /proc/stat: a busy machine makes two threads wait for each other
  for whole time slices (numpy's matrix product was seen at a fiftieth of its speed);
- with two threads, the hand-over time of a cache line between the CPUs around each block: only blocks of one state
  (near or far) are compared.
"""

import ctypes
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlc.driver.host import is_near, measure_handover_ns, measure_peak_gflops

Run = Callable[[], Any]
_peaks: dict[int, float] = {}
_LOOK = 0.01  # seconds of a look at what the process uses: longer than a scheduler's tick, at which that is counted
_RESTING = 0.1  # CPUs that a process at rest uses less of
_LONGEST_REST = 0.5  # seconds
_FOREIGN = 0.05  # CPUs
_TICK = 0.01  # seconds: the resolution of /proc/stat


def figures(times: list[float]) -> dict[str, Any]:
    """Median, quartiles, least and number of some times."""
    low, middle, high = statistics.quantiles(times, n=4) if len(times) > 1 else times * 3
    return {"median": middle, "q1": low, "q3": high, "min": min(times), "count": len(times)}


@dataclass(frozen=True)
class _Sample:
    """One block of every contender, and the state of the machine meanwhile."""

    times: dict[str, list[float]]
    handover_ns: float
    foreign: float
    """CPUs that other processes used."""

    @property
    def quiet(self) -> bool:
        return self.foreign < _FOREIGN

    @property
    def near(self) -> bool:
        return is_near(self.handover_ns)


def let_threads_rest() -> None:
    """
    Wait until no thread of this process computes.

    The threads of peers spin after a call, in which they expect the next one: OpenBLAS's for 30 ms, onnxruntime's for
    40 ms. A thread of the next contender that shares a CPU with such a one takes twice the time.
    """
    end = time.monotonic() + _LONGEST_REST
    while time.monotonic() < end:
        before = time.process_time()
        time.sleep(_LOOK)
        if time.process_time() - before < _RESTING * _LOOK:
            return


def in_turns(runs: Mapping[str, Run], seconds: float, threads: int, blocks: int = 8) -> dict[str, Any]:
    """
    Figures in milliseconds by contender, about `seconds` each, from `blocks` blocks.

    Blocks that a gate rejects are repeated, up to four times as many; if hardly any is quiet, the result says "busy".
    """
    calls = {name: _calls(run, seconds / blocks) for name, run in runs.items()}
    samples: list[_Sample] = []
    kept: list[_Sample] = []
    while len(kept) < blocks and len(samples) < 4 * blocks:
        samples.append(_sample(runs, calls, threads))
        kept = _largest([one for one in samples if one.quiet])
    busy = len(kept) < 2
    if busy:
        kept = _largest(samples)
    result: dict[str, Any] = {
        "ms": {name: figures([t for one in kept for t in one.times[name]]) for name in runs},
        "threads": threads,
        "blocks": f"{len(kept)} of {len(samples)}",
        "busy": busy,
        "foreign_cpus": statistics.median(one.foreign for one in kept),
    }
    if threads > 1:
        result["handover_ns"] = statistics.median(one.handover_ns for one in kept)
        result["state"] = "near" if kept[0].near else "far"
    return result


def _largest(samples: list[_Sample]) -> list[_Sample]:
    """The samples of the more frequent state (near or far CPUs)."""
    near = [one for one in samples if one.near]
    far = [one for one in samples if not one.near]
    return near if len(near) >= len(far) else far


def _sample(runs: Mapping[str, Run], calls: Mapping[str, int], threads: int) -> _Sample:
    """One block of each contender; the slower of the hand-overs before and after it counts."""
    handover = measure_handover_ns() if threads > 1 else 0.0
    start, all_before, own_before = time.perf_counter(), _busy_seconds(), time.process_time()
    times = {name: _block(run, calls[name]) for name, run in runs.items()}
    own, seconds = time.process_time() - own_before, time.perf_counter() - start
    foreign = max(0.0, _busy_seconds() - all_before - own - _TICK) / seconds
    if threads > 1:
        handover = max(handover, measure_handover_ns())
    return _Sample(times, handover, foreign)


def _busy_seconds() -> float:
    """Seconds that all CPUs together have worked, or been taken away by the hypervisor."""
    try:
        fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    except OSError:
        return 0.0  # not Linux: nothing is known of other processes
    user, nice, system, _, _, irq, softirq, steal = map(int, fields[:8])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _calls(run: Run, seconds: float) -> int:
    """The number of calls that fill the time."""
    run()
    start = time.perf_counter()
    run()
    return max(1, min(2000, int(seconds / max(time.perf_counter() - start, 1e-7))))


def _block(run: Run, calls: int) -> list[float]:
    """Milliseconds of some calls in a row."""
    let_threads_rest()
    run()
    times: list[float] = []
    for _ in range(calls):
        start = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - start))
    return times


def gate(result: Mapping[str, Any]) -> str:
    """The state of the machine, which is printed with each figure."""
    parts = [f"{result['handover_ns']:.0f} ns {result['state']}"] if "state" in result else []
    return ", ".join([*parts, "BUSY"] if result["busy"] else parts)


def ratio(result: Mapping[str, Any], ours: str, peer: str) -> float:
    """Our median over the peer's: below 1 we are faster."""
    return result["ms"][ours]["median"] / result["ms"][peer]["median"]


def peak(threads: int) -> float:
    """GFLOP/s of multiply-add instructions alone: the best that was measured until now."""
    _peaks[threads] = max(_peaks.get(threads, 0.0), measure_peak_gflops(threads))
    return _peaks[threads]


def _blas() -> ctypes.CDLL:
    libraries = sorted((Path(np.__file__).parents[1] / "numpy.libs").glob("*openblas*"))
    if not libraries:
        raise SystemExit("expected numpy's wheel to bring OpenBLAS; install numpy from PyPI")
    return ctypes.CDLL(str(libraries[0]))


def blas_threads(threads: int) -> None:
    """Set the threads of numpy's OpenBLAS."""
    _blas().scipy_openblas_set_num_threads64_(threads)


def blas_core() -> str:
    """The CPU whose kernels numpy's OpenBLAS runs."""
    corename = _blas().scipy_openblas_get_corename64_
    corename.restype = ctypes.c_char_p
    return corename().decode()


def best_blas() -> None:
    """
    Start this program anew without OPENBLAS_* variables, so that numpy's OpenBLAS chooses its kernels by the CPU.

    A machine may set OPENBLAS_CORETYPE=Haswell so that results do not depend on the CPU: kernels that reach half of the
    peak where there is AVX-512. numpy would be no peer.
    """
    names = [name for name in os.environ if name.startswith("OPENBLAS_")]
    if names:
        for name in names:
            del os.environ[name]
        os.execv(sys.executable, [sys.executable, *sys.argv])
