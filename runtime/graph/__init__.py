"""
The graph executor, with TVM's names: a model as a JSON graph, a library of kernels, and weights.

    exe = mlc.compile("model.onnx", executor="graph")
    module = mlc.graph_executor.create(exe.graph_json, exe.lib, exe.params)
    module.set_input("x", array); module.run(); module.get_output(0)

The JSON can be edited and loaded again: `create` checks it. Nothing of the compiler is needed.
"""

import os
from collections.abc import Mapping
from typing import Any

from mlc.runtime.graph.benchmark import BenchmarkResult
from mlc.runtime.graph.debug import GraphModuleDebug, NodeTimes
from mlc.runtime.graph.library import GraphLibrary, load_lib
from mlc.runtime.graph.module import GraphModule
from mlc.runtime.graph.params import Params, read_params, save_params
from mlc.runtime.graph.plan import read_graph


def create(
    graph_json: "str | bytes | Mapping[str, Any]",
    lib: "GraphLibrary | str | os.PathLike[str]",
    params: Params = None,
    threads: int | None = None,
    *,
    debug: bool = False,
    dump_root: "str | os.PathLike[str] | None" = None,
) -> GraphModule:
    """
    A graph module: of a graph (a dict or JSON text), a library (or the directory where it was saved), and weights.

    `params` is a dict of arrays, a safetensors file or its bytes; names that the graph does not have are left out.
    `threads`: one for each CPU that this process may use. With `debug` it is a GraphModuleDebug. Raises UserError for
    a graph that is not in order: a field that is missing, a kernel that the library lacks or that takes other operands,
    a storage that is overwritten while it is read later, a version that is newer.
    """
    plan = read_graph(graph_json)
    library = lib if isinstance(lib, GraphLibrary) else load_lib(lib)
    if debug or dump_root is not None:
        return GraphModuleDebug(plan, library, params, threads, dump_root)
    return GraphModule(plan, library, params, threads)


def create_debug(
    graph_json: "str | bytes | Mapping[str, Any]",
    lib: "GraphLibrary | str | os.PathLike[str]",
    params: Params = None,
    threads: int | None = None,
    dump_root: "str | os.PathLike[str] | None" = None,
) -> GraphModuleDebug:
    """A graph module that times every node and keeps every tensor; `create` tells what it takes."""
    library = lib if isinstance(lib, GraphLibrary) else load_lib(lib)
    return GraphModuleDebug(read_graph(graph_json), library, params, threads, dump_root)


__all__ = [
    "BenchmarkResult",
    "GraphLibrary",
    "GraphModule",
    "GraphModuleDebug",
    "NodeTimes",
    "create",
    "create_debug",
    "load_lib",
    "read_graph",
    "read_params",
    "save_params",
]
