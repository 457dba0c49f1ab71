"""An executable that runs the graph which it gives out: `exe.graph_json`, `exe.lib`, `exe.params`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from mlc.runtime.arrays import Array
from mlc.runtime.artifact import Artifact
from mlc.runtime.code import Toolchain
from mlc.runtime.executable import Executable
from mlc.runtime.graph.convert import GraphWriter
from mlc.runtime.graph.library import GraphLibrary
from mlc.runtime.graph.module import GraphModule
from mlc.runtime.graph.plan import read_graph
from mlc.runtime.states import CallState
from mlc.support.dtypes import dtype_of


class GraphExecutable(Executable):
    """A compiled model of a straight-line @main, run by the graph executor."""

    def __init__(
        self,
        artifact: Artifact,
        threads: int | None = None,
        executor: str = "graph",
        toolchain: Toolchain | None = None,
    ) -> None:
        writer = GraphWriter(artifact.model)
        self._graph = writer.write()
        super().__init__(artifact, threads, executor, toolchain)
        self._plan = read_graph(self._graph)
        self._library = GraphLibrary(artifact, self._code)
        self.params = {name: self._weight(value) for name, value in writer.params.items()}

    @property
    def graph_json(self) -> dict[str, Any]:
        """The graph, with the fields of TVM's JSON; a copy, which may be edited."""
        return copy.deepcopy(self._graph)

    @property
    def lib(self) -> GraphLibrary:
        """The kernels by name. It can be saved as long as it is held, also when this executable is gone."""
        return GraphLibrary(self.artifact, self._code, self)

    def module(self) -> GraphModule:
        """A graph module of the same graph, code and weights, with memory of its own."""
        return GraphModule(self._plan, self._library, self.params, self.threads)

    def _weight(self, value: Mapping[str, Any]) -> Array:
        """A weight: a view of weights.bin."""
        from mlc.runtime.reuse import size_of
        from mlc.support.dtypes import dtype_of_type

        start = value["offset"]
        part = self._weights[start : start + size_of(value)]
        return part.view(dtype_of(dtype_of_type(value["dtype"]).name)).reshape(value["shape"])

    def _run(self, state: CallState, arrays: list[Array], results: list[Array]) -> None:
        module: GraphModule | None = state.kept.get("module")
        if module is None:
            module = state.kept["module"] = GraphModule(self._plan, self._library, self.params, self.threads, state.rt)
        for index, array in enumerate(arrays):
            module.set_input_zero_copy(index, array)
        for index, array in enumerate(results):
            module.set_output_zero_copy(index, array)
        module.run()


__all__ = ["GraphExecutable"]
