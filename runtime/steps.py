"""Kernel by kernel: the graph executor and the profiler step through the calls of an artifact from Python."""

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlc.runtime.abi import KERNEL


@dataclass(frozen=True)
class KernelProfile:
    """What one call of a kernel took and did."""

    kernel: str
    seconds: float
    """The median over the repetitions."""
    flops: int
    bytes: int
    """The bytes of its operands: each read or written once."""
    origins: tuple[str, ...]
    """The source nodes that became it."""


class Profile(list[KernelProfile]):
    """The calls of a model, in order; `str` of it is a table, the slowest first."""

    @property
    def seconds(self) -> float:
        """All calls together."""
        return sum(row.seconds for row in self)

    def __str__(self) -> str:
        total = self.seconds or 1.0
        lines = ["      us      %   GFLOP/s     GB/s  kernel  (source nodes)"]
        for row in sorted(self, key=lambda row: -row.seconds):
            rate, width = row.flops / row.seconds / 1e9, row.bytes / row.seconds / 1e9
            share = 100 * row.seconds / total
            nodes = ", ".join(row.origins)
            lines.append(f"{row.seconds * 1e6:8.1f} {share:6.1f} {rate:9.1f} {width:8.1f}  {row.kernel}  ({nodes})")
        return "\n".join([*lines, f"{total * 1e6:8.1f}  100.0  all {len(self)} calls"])


class Stepper:
    """Runs the calls of a model one at a time."""

    def __init__(
        self, graph: Mapping[str, Any], address: Callable[[str], int], bases: Mapping[str, int], rt: int
    ) -> None:
        self.nodes: Sequence[Mapping[str, Any]] = graph["nodes"]
        self.rt = rt
        self._values: Sequence[Mapping[str, Any]] = graph["values"]
        self._kernels = [KERNEL(address(node["kernel"])) for node in self.nodes]
        self._copies: Sequence[Sequence[int]] = graph["copies"]
        self._bases = bases
        self._scratch = bases["workspace"] + graph["plan"]["bytes"]

    def _pointer(self, index: int, io: Mapping[str, Sequence[int]]) -> int:
        """The address of a value, given those of inputs and outputs."""
        value = self._values[index]
        kind = value["storage"]
        return (io[kind][value["index"]] if kind in io else self._bases[kind]) + value["offset"]

    def step(self, index: int, io: Mapping[str, Sequence[int]]) -> float:
        """Run one call; return the seconds it took."""
        node = self.nodes[index]
        pointers = [self._pointer(i, io) for i in (*node["inputs"], *node["outputs"])]
        args = (ctypes.c_void_p * (len(pointers) + 1))(*pointers, self._scratch)
        kernel, rt = self._kernels[index], self.rt
        start = time.perf_counter()
        status = kernel(ctypes.addressof(args), rt)
        seconds = time.perf_counter() - start
        if status:
            raise RuntimeError(f"kernel '{node['kernel']}' returned error {status}")
        return seconds

    def run(self, io: Mapping[str, Sequence[int]]) -> list[float]:
        """Run all calls, then the copies of outputs that no kernel writes; the seconds of each call."""
        times = [self.step(index, io) for index in range(len(self.nodes))]
        for source, target, size in self._copies:
            ctypes.memmove(self._pointer(target, io), self._pointer(source, io), size)
        return times

    def profile(self, io: Mapping[str, Sequence[int]], repeat: int) -> Profile:
        """The median time of each call over some runs, the first left out."""
        self.run(io)
        runs = [self.run(io) for _ in range(repeat)]
        rows = Profile()
        for index, node in enumerate(self.nodes):
            times = sorted(run[index] for run in runs)
            origins = tuple(node["origins"])
            rows.append(KernelProfile(node["kernel"], times[repeat // 2], node["flops"], node["bytes"], origins))
        return rows
