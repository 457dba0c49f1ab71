"""
The debug executor: the time of each node, every tensor of a run, and runs that stop at a node.

    DUMP_ROOT/graph.json            the nodes with their functions, shapes, dtypes, storage ids and seconds
    DUMP_ROOT/tensors.safetensors   every entry of the graph after its node has run: "node", or "node:1" for its second
"""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mlc.runtime.arrays import Array
from mlc.runtime.graph.benchmark import measure
from mlc.runtime.graph.convert import NOP
from mlc.runtime.graph.library import GraphLibrary
from mlc.runtime.graph.module import GraphModule
from mlc.runtime.graph.params import Params, save_params
from mlc.runtime.graph.plan import GraphPlan


class NodeTimes:
    """The seconds of each node of some runs; `print` it for a table, the slowest node first."""

    def __init__(self, plan: GraphPlan, runs: "list[dict[int, float]]") -> None:
        self.plan = plan
        self.runs = runs

    @property
    def seconds(self) -> dict[str, float]:
        """The median seconds of each node by name."""
        names = {number: self.plan.nodes[number].name for number in self.runs[0]}
        return {name: float(np.median([run[number] for run in self.runs])) for number, name in names.items()}

    def __str__(self) -> str:
        seconds = self.seconds
        total = sum(seconds.values())
        width = max((len(name) for name in seconds), default=4)
        rows = [f"{'node':{width}}  {'us':>10}  {'share':>6}  source nodes"]
        nodes = {node.name: node for node in self.plan.nodes}
        for name, one in sorted(seconds.items(), key=lambda pair: -pair[1]):
            share = one / total if total else 0.0
            origins = nodes[name].attrs.get("origins", "")
            rows.append(f"{name:{width}}  {one * 1e6:10.1f}  {share:6.1%}  {origins}".rstrip())
        return "\n".join([*rows, f"{'all':{width}}  {total * 1e6:10.1f}"])


class GraphModuleDebug(GraphModule):
    """A graph module that times each node and, given a `dump_root`, keeps every tensor of a run there."""

    def __init__(
        self,
        plan: GraphPlan,
        library: GraphLibrary,
        params: Params = None,
        threads: int | None = None,
        dump_root: "str | os.PathLike[str] | None" = None,
    ) -> None:
        super().__init__(plan, library, params, threads)
        self.dump_root = None if dump_root is None else Path(dump_root)
        self.tensors: dict[str, Array] = {}
        """Copies of every entry of the last run: "node", or "node:1" for the second output of a node."""
        self.times: NodeTimes | None = None
        """The seconds of each node in the last run."""

    def run(self, **inputs: Any) -> None:
        """Run node by node, time each and copy what it writes; write the dump if there is a `dump_root`."""
        self.set_input(**inputs)
        self._check_set()
        self.tensors = {}
        seconds: dict[int, float] = {}
        for number, node in enumerate(self.plan.nodes):
            if node.function not in ("", NOP):
                seconds[number] = self._timed(number)
            for index, entry in enumerate(node.outputs):
                self.tensors[f"{node.name}:{index}" if index else node.name] = self._entry(entry).copy()
        self.times = NodeTimes(self.plan, [seconds])
        if self.dump_root is not None:
            self._dump(self.dump_root, seconds)

    def _timed(self, number: int) -> float:
        start = time.perf_counter()
        status = self._calls[number]()
        seconds = time.perf_counter() - start
        if status:
            raise self._failed(number, status)
        return seconds

    def _dump(self, root: Path, seconds: Mapping[int, float]) -> None:
        nodes: list[dict[str, Any]] = []
        for number, node in enumerate(self.plan.nodes):
            entries = [self.plan.entries[i] for i in node.outputs]
            facts = [{"shape": list(e.shape), "dtype": e.dtype, "storage_id": e.storage} for e in entries]
            nodes.append(
                {"name": node.name, "func_name": node.function, "outputs": facts, "seconds": seconds.get(number)}
            )
        root.mkdir(parents=True, exist_ok=True)
        (root / "graph.json").write_text(json.dumps({"nodes": nodes}, indent=1))
        save_params(self.tensors, root / "tensors.safetensors")

    def execute_node(self, node: int | str) -> Array:
        """Run the nodes up to this one, and return its first output as it is then."""
        return self.get_node_output(node, 0)

    def get_node_output(self, node: int | str, index: int = 0) -> Array:
        """Run the nodes up to this one, and return a copy of one of its outputs."""
        self._check_set()
        last = self.plan.node(node)
        for number, call in self._calls.items():
            if number <= last and (status := call()):
                raise self._failed(number, status)
        return self._entry(self.plan.nodes[last].outputs[index]).copy()

    def debug_get_output(self, node: int | str, out: Array) -> Array:
        """Run the nodes up to this one, and copy its first output into `out`."""
        np.copyto(out, self.get_node_output(node))
        return out

    def run_individual(self, number: int = 5, repeat: int = 3, min_repeat_ms: float | None = None) -> list[float]:
        """The mean seconds of each node, in order; inputs and reshapes take none."""
        return [self.run_individual_node(k, number, repeat, min_repeat_ms) for k in range(len(self.plan.nodes))]

    def run_individual_node(
        self, node: int | str, number: int = 5, repeat: int = 3, min_repeat_ms: float | None = None
    ) -> float:
        """The mean seconds of one node, which runs `number` times in each of `repeat` repeats."""
        index = self.plan.node(node)
        if index not in self._calls:
            return 0.0
        self.get_node_output(index)  # its inputs
        return measure(lambda: self._timed(index), repeat, number, min_repeat_ms).mean

    def profile(self, repeat: int = 10, **inputs: Any) -> NodeTimes:
        """The seconds of each node over some runs; the first run does not count."""
        self.set_input(**inputs)
        self._check_set()
        runs = [{number: self._timed(number) for number in self._calls} for _ in range(max(1, repeat) + 1)]
        return NodeTimes(self.plan, runs[1:])


__all__ = ["GraphModuleDebug", "NodeTimes"]
