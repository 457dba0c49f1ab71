"""Kernel by kernel: the graph executor and the profiler step through the calls of an artifact from Python."""

import ctypes
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlc.runtime.code import Code
from mlc.runtime.functions import CalledFunctions
from mlc.runtime.profile import Event, KernelProfile, Profile
from mlc.runtime.program import Runner
from mlc.runtime.reuse import memory_seconds, reuse_distances
from mlc.support.abi import KERNEL, RuntimeStruct
from mlc.support.dtypes import dtype_of_type

if TYPE_CHECKING:
    from mlc.runtime.peaks import Machine

__all__ = ["KernelProfile", "Profile", "Stepper"]

ObserveCall = Callable[[Mapping[str, Any], list[Any]], None]
"""Called after each call of a kernel: the node of the graph, and copies of what it wrote."""
_TRACES = 4
"""Runs that are traced; the quickest is kept."""


class Stepper:
    """Runs the calls of a model one at a time."""

    def __init__(
        self,
        graph: Mapping[str, Any],
        code: Code,
        bases: Mapping[str, int],
        rt: int,
        observe: "ObserveCall | None" = None,
        functions: CalledFunctions | None = None,
    ) -> None:
        self.observe = observe
        self._functions = functions or CalledFunctions(())
        self.nodes: Sequence[Mapping[str, Any]] = graph["nodes"]
        self.rt = rt
        self._code = code
        self._graph = graph
        self._values: Sequence[Mapping[str, Any]] = graph["values"]
        self._kernels = [KERNEL(code.address(node["kernel"])) for node in self.nodes]
        self._copies: Sequence[Sequence[int]] = graph["copies"]
        self._bases = bases
        self._runner: Runner | None = None
        self.counts = [1] * len(self.nodes)
        """Times that each call was made in the last run."""
        self._scratch = bases["workspace"] + graph["plan"]["bytes"]

    def _pointer(self, index: int, io: Mapping[str, Sequence[int]]) -> int:
        """The address of a value, given those of inputs and outputs."""
        value = self._values[index]
        kind = value["storage"]
        row = self._runner.offset(index) if "rows" in value and self._runner is not None else 0
        offset: int = value["offset"]
        if kind in io:
            at: int = value["index"]
            return io[kind][at] + offset + row
        return self._bases[kind] + offset + row

    def step(self, index: int, io: Mapping[str, Sequence[int]], rt: int | None = None) -> float:
        """Run one call, on another rt if that is given; return the seconds it took."""
        node = self.nodes[index]
        pointers = [self._pointer(i, io) for i in (*node["inputs"], *node["outputs"])]
        given = [*pointers, *node.get("sizes", ()), self._scratch]
        args = (ctypes.c_void_p * len(given))(*given)
        kernel, rt, address = self._kernels[index], rt or self.rt, ctypes.addressof(args)
        start = time.perf_counter()
        status = kernel(address, rt)
        seconds = time.perf_counter() - start
        if status:
            raise self._functions.failure(rt, f"kernel '{node['kernel']}'", status)
        if self.observe is not None:
            self.observe(node, [self._array(i, io) for i in node["outputs"]])
        return seconds

    def _array(self, index: int, io: Mapping[str, Sequence[int]]) -> Any:
        """A copy of the present content of a value."""
        import numpy as np

        value = self._values[index]
        dtype, shape = dtype_of_type(value["dtype"]), tuple(value["shape"])
        content = ctypes.string_at(self._pointer(index, io), math.prod(shape) * dtype.itemsize)
        return np.frombuffer(content, dtype).reshape(shape)

    def run(self, io: Mapping[str, Sequence[int]]) -> list[float]:
        """Run all calls, then the copies of outputs that no kernel writes; the seconds of each call."""
        if "program" in self._graph:
            return self._run_program(io)
        times = [self.step(index, io) for index in range(len(self.nodes))]
        for source, target, size in self._copies:
            ctypes.memmove(self._pointer(target, io), self._pointer(source, io), size)
        return times

    def _run_program(self, io: Mapping[str, Sequence[int]]) -> list[float]:
        """Run the branches that are taken, and each iteration of loops; the seconds of each call, summed."""
        times = [0.0] * len(self.nodes)
        self.counts = [0] * len(self.nodes)
        self._walk(io, lambda index: self._count(index, times, io))
        return times

    def _walk(self, io: Mapping[str, Sequence[int]], call: Callable[[int], None]) -> None:
        symbols = self._graph.get("symbol_values", {})
        self._runner = Runner(self._graph, call, lambda index: self._pointer(index, io), symbols)
        self._runner.run(self._graph["program"])

    def _count(self, index: int, times: list[float], io: Mapping[str, Sequence[int]]) -> None:
        times[index] += self.step(index, io)
        self.counts[index] += 1

    def trace(self, io: Mapping[str, Sequence[int]]) -> list[Event]:
        """Run all calls, and note when each ran, and each thread's parts of it."""
        from mlc.runtime.tracing import Tracer, now

        tracer = Tracer(self._code, self.rt)
        events: list[Event] = []

        def call(index: int) -> None:
            start = now()
            self.step(index, io, tracer.address)
            end = now()
            parts = tracer.take() or [(start, end, 0, 0)]  # without a parallel loop the caller does it all
            events.append(Event(index, -1, 0, start, end))
            events.extend(Event(index, thread, task, begin, stop) for begin, stop, task, thread in parts)

        if "program" in self._graph:
            self._walk(io, call)
        else:
            for index in range(len(self.nodes)):
                call(index)
        return events

    def profile(self, io: Mapping[str, Sequence[int]], repeat: int) -> Profile:
        """The median time of each call over some runs, the first left out, beside what the machine reaches."""
        from mlc.runtime.peaks import measure_machine

        machine = measure_machine(self._code, RuntimeStruct.from_address(self.rt).threads)
        self.run(io)
        runs = [self.run(io) for _ in range(repeat)]
        times = [sorted(times) for times in zip(*runs, strict=True)]
        distances = reuse_distances(self._graph)
        facts = zip(self.nodes, times, distances, self.counts, strict=True)
        rows = [_row(node, of, operands, count, machine) for node, of, operands, count in facts if count]
        traces = [self.trace(io) for _ in range(_TRACES)]
        quickest = min(traces, key=lambda events: sum(e.end - e.start for e in events))
        number = {index: k for k, index in enumerate(k for k, count in enumerate(self.counts) if count)}
        return Profile(rows, machine, [event._replace(call=number[event.call]) for event in quickest])


def _row(
    node: Mapping[str, Any],
    times: Sequence[float],
    operands: Sequence[tuple[int, int]],
    count: int,
    machine: "Machine",
) -> KernelProfile:
    """The profile of one node from its sorted times and the machine's peaks."""
    return KernelProfile(
        node["kernel"],
        times[len(times) // 2],
        node["flops"] * count,
        node["bytes"] * count,
        tuple(node["origins"]),
        times[0],
        node.get("schedule", ""),
        node["flops"] * count / machine.gflops / 1e9,
        {level: seconds * count for level, seconds in memory_seconds(operands, machine.level).items()},
        count,
        node.get("device", ""),
    )
