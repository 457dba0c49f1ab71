"""Peaks of this machine, measured without a model: `runtime/peaks.py` on probes compiled for this process."""

from mlc.driver.toolchain import host_probes
from mlc.runtime import peaks
from mlc.runtime.peaks import Level, Machine, is_near

__all__ = [
    "Level",
    "Machine",
    "is_near",
    "measure_bandwidth",
    "measure_dispatch_ns",
    "measure_handover_ns",
    "measure_machine",
    "measure_peak_gflops",
]


def measure_peak_gflops(threads: int = 1, repeats: int = 5) -> float:
    """Return the fp32 GFLOP/s of FMA instructions alone, all threads together; the best of some runs."""
    return peaks.measure_peak_gflops(host_probes(), threads, repeats)


def measure_bandwidth(threads: int = 1, megabytes: float = 128, repeats: int = 4, passes: int = 1) -> float:
    """Return the GB/s of reading a buffer of about that size, all threads together; the best of some runs."""
    return peaks.measure_bandwidth(host_probes(), threads, megabytes, repeats, passes)


def measure_machine(threads: int = 1) -> Machine:
    """Measure the FMA peak and the bandwidth of L2, L3 and memory: once in a process, in about 0.25 seconds."""
    return peaks.measure_machine(host_probes(), threads)


def measure_handover_ns(rounds: int = 20_000, repeats: int = 3) -> float:
    """Return the nanoseconds that a cache line takes from one CPU to another; the best of some runs."""
    return peaks.measure_handover_ns(host_probes(), rounds, repeats)


def measure_dispatch_ns(threads: int = 2, times: int = 10_000, repeats: int = 5) -> float:
    """Return the nanoseconds of one parallel loop that does nothing, back to back; the best of some runs."""
    return peaks.measure_dispatch_ns(host_probes(), threads, times, repeats)
