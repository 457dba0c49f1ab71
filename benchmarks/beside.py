"""One model file on mlc beside onnxruntime and OpenVINO in one process: values first, then times in turns."""

import os
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from contenders import CONTENDERS, Job
from paired import Medians, Ratio, Run, best_ratio, runs_of

import mlc
from mlc.runtime.executable import Executable

OURS = "mlc"
PEERS = ("onnxruntime", "openvino")
LIMITED_PEERS = ("openvino",)
"""Those that can be told to use AVX2 alone."""
_BOUND = 0.9  # of the measured bandwidth: nothing is left to win there


@dataclass
class Entry:
    """What was measured of a model; `reason` says why it has no figures."""

    name: str
    sizes: str
    threads: int
    runs: list[Medians] = field(default_factory=list[Medians])
    ratio: Ratio | None = None
    error: float = 0.0
    """Greatest difference from the nearest peer's values over their greatest magnitude; a peer may round weights."""
    kernel: str = ""
    """The kernel that takes longest, its share of the time, its schedule."""
    of_peak: float = 0.0
    """Share of the FMA peak that the whole model reaches."""
    of_bandwidth: float = 0.0
    """Share of the bandwidth of the level of memory that holds inputs, outputs and weights."""
    reason: str = ""
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    """Peers that fail on the model, and how."""

    @property
    def bound(self) -> bool:
        """Whether memory limits it: it runs at 90 % of the measured bandwidth."""
        return self.of_bandwidth >= _BOUND

    def add(self, other: "Entry") -> None:
        """Count the runs of another measurement of the same model, too, where the same peers ran it."""
        if other.runs and other.runs[0].keys() == self.runs[0].keys():
            self.runs += other.runs
            self.ratio = best_ratio(self.runs, OURS)

    def facts(self) -> dict[str, Any]:
        """The fields by name."""
        return vars(self) | {"ratio": self.ratio.facts() if self.ratio else None, "bound": self.bound}


def measure(name: str, sizes: str, path: Path, inputs: dict[str, Any], args: "Settings") -> Entry:
    """Measure a model; nothing is raised: what fails is the entry's reason."""
    entry = Entry(name, sizes, args.threads)
    try:
        exe = mlc.compile(path, threads=args.threads, target="x86-64-v3" if args.avx2 else "native")
        ours = list(exe(inputs).values())
    except Exception as error:  # an error of the compiler is a result here
        entry.reason = first_line(error)
        return entry
    runs, theirs = _peers(entry, path, inputs, args.avx2)
    if not runs:
        entry.reason = "no peer runs it"
        return entry
    errors = {name: max(map(_difference, ours, values)) for name, values in theirs.items()}
    entry.error = min(errors.values())
    if not entry.error <= args.tolerance:
        entry.reason = f"values differ: {entry.error:.1e} of the greatest, but {args.tolerance:.0e} are allowed"
    else:
        _leave_out_wrong(entry, runs, errors, args.tolerance)
    entry.runs = runs_of({OURS: lambda: exe(inputs), **runs}, args.seconds, args.threads)
    entry.ratio = best_ratio(entry.runs, OURS)
    _explain(entry, exe, path, inputs, ours)
    return entry


def _leave_out_wrong(entry: Entry, runs: dict[str, Run], errors: Mapping[str, float], tolerance: float) -> None:
    """Leave out peers whose values are wrong, since mlc and another peer agree."""
    for name in [name for name, error in errors.items() if not error <= tolerance]:
        entry.left_out[name] = f"its values are {errors[name]:.1e} away from those of mlc and the other peer"
        del runs[name]


@dataclass(frozen=True)
class Settings:
    """How a model is measured: threads, seconds a contender and run, and the error that is allowed."""

    threads: int
    seconds: float
    tolerance: float = 1e-3
    avx2: bool = False
    """As on a CPU with AVX2 alone, by the peers that can be limited to it."""


def first_line(error: BaseException) -> str:
    """An error's first line with its type."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


class Trial:
    """A process of its own, in which a peer runs a model once: it may crash."""

    def __init__(self) -> None:
        self.pool = self._start()

    @staticmethod
    def _start() -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, get_context("spawn"))

    def survives(self, name: str, job: Job) -> bool:
        """Whether the process is still there after the peer has run the model, or has refused it."""
        error = self.pool.submit(_run_once, name, job).exception()
        if not isinstance(error, BrokenProcessPool):
            return True
        self.pool = self._start()
        return False


@cache
def _trial() -> Trial:
    return Trial()


def _run_once(name: str, job: Job) -> None:
    CONTENDERS[name].load(job)()


def _peers(entry: Entry, path: Path, inputs: dict[str, Any], avx2: bool) -> tuple[dict[str, Run], dict[str, list[Any]]]:
    """The peers that run the model, and the values of each."""
    if avx2:
        os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX2"  # which OpenVINO reads when it is first used
    np.savez(path.parent / "inputs.npz", **inputs)
    job = Job(path.stem, path.parent, entry.threads, path, {})
    runs: dict[str, Run] = {}
    values: dict[str, list[Any]] = {}
    for name in LIMITED_PEERS if avx2 else PEERS:
        if missing := CONTENDERS[name].missing:
            entry.left_out[name] = f"not installed: {', '.join(missing)}"
            continue
        if avx2 and not _trial().survives(name, job):
            entry.left_out[name] = "it crashes when it is limited to AVX2"
            continue
        try:
            run = CONTENDERS[name].load(job)
            values[name] = [np.array(one) for one in run()]
            runs[name] = run
        except Exception as error:  # a peer's failure is a result
            entry.left_out[name] = first_line(error)
    return runs, values


def _difference(ours: Any, theirs: Any) -> float:
    """The greatest difference over the greatest magnitude."""
    if ours.shape != theirs.shape:
        return float("inf")
    if not ours.size:
        return 0.0
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    return float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-30))


def _explain(entry: Entry, exe: Executable, path: Path, inputs: dict[str, Any], outputs: list[Any]) -> None:
    """Add the kernel that takes longest and the shares of the machine's peaks."""
    profile = exe.profile(inputs)
    rows = profile.kernels
    seconds = min(one[OURS] for one in entry.runs) / 1e3
    if rows:
        share = rows[0].seconds / max(sum(row.seconds for row in rows), 1e-12)
        entry.kernel = f"{rows[0].kernel.rsplit('_', 1)[0]}: {rows[0].schedule} ({100 * share:.0f} % of {len(rows)})"
    entry.of_peak = sum(row.flops for row in rows) / seconds / 1e9 / profile.machine.gflops
    moved = _weight_bytes(path) + sum(np.asarray(one).nbytes for one in (*inputs.values(), *outputs))
    entry.of_bandwidth = moved / seconds / 1e9 / profile.machine.level(moved).gbytes


def _weight_bytes(path: Path) -> int:
    """The bytes of the weights, without the tables of Gather, of which few rows are read."""
    graph = onnx.load(path).graph
    tables = {node.input[0] for node in graph.node if node.op_type == "Gather"}
    return sum(len(one.raw_data) for one in graph.initializer if one.name not in tables)
