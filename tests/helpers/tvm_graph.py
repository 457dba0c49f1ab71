"""
A reader of TVM's graph JSON, written against the published description of the format alone; it knows nothing of mlc.

`check` compares a graph with the description, field by field. `run` does what TVM's graph executor does: one piece of
memory for each storage id, as large as the largest entry of it, filled with a poison; every entry is a view of its
start; nodes run in order.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

POISON = 0xA7
KINDS = {"shape": "list_shape", "dltype": "list_str", "storage_id": "list_int"}


def check(graph: Mapping[str, Any]) -> None:
    """AssertionError if a graph is not as the format is described."""
    assert {"nodes", "arg_nodes", "heads", "attrs", "node_row_ptr"} <= set(graph)
    nodes, rows = graph["nodes"], graph["node_row_ptr"]
    assert len(rows) == len(nodes) + 1
    assert rows[0] == 0
    for number, node in enumerate(nodes):
        assert node["op"] in ("null", "tvm_op")
        outputs = 1
        if node["op"] == "tvm_op":
            attrs = node["attrs"]
            assert all(isinstance(value, str) for value in attrs.values())
            assert {"func_name", "num_inputs", "num_outputs", "flatten_data"} <= set(attrs)
            assert attrs["flatten_data"] == "0"
            assert int(attrs["num_inputs"]) == len(node["inputs"])
            outputs = int(attrs["num_outputs"])
        else:
            assert node["inputs"] == []
        assert rows[number + 1] - rows[number] == outputs
        for source, index, version in node["inputs"]:
            assert source < number  # topological order
            assert 0 <= index < rows[source + 1] - rows[source]
            assert version == 0
    assert len({node["name"] for node in nodes}) == len(nodes)
    assert graph["arg_nodes"] == [k for k, node in enumerate(nodes) if node["op"] == "null"]
    for source, index, version in graph["heads"]:
        assert 0 <= index < rows[source + 1] - rows[source]
        assert version == 0
    for name, kind in KINDS.items():
        assert graph["attrs"][name][0] == kind
        assert len(graph["attrs"][name][1]) == rows[-1]
    given = [graph["attrs"]["storage_id"][1][rows[k]] for k in graph["arg_nodes"]]
    assert len(set(given)) == len(given), "inputs and weights have storage of their own"


def dtype_of(text: str) -> np.dtype:
    """numpy's dtype of one of TVM's names."""
    return np.dtype(ml_dtypes.bfloat16) if text == "bfloat16" else np.dtype(text)


def run(
    graph: Mapping[str, Any], call: Callable[[str, list[np.ndarray]], None], given: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    """The outputs; `call` runs a function on arrays, inputs then outputs, `given` has what arg_nodes name."""
    rows, attrs = graph["node_row_ptr"], {name: values for name, (_, values) in graph["attrs"].items()}
    facts = list(zip(attrs["shape"], map(dtype_of, attrs["dltype"]), attrs["storage_id"], strict=True))
    sizes: dict[int, int] = {}
    for shape, dtype, storage in facts:
        sizes[storage] = max(sizes.get(storage, 0), math.prod(shape) * dtype.itemsize)
    pool = {storage: np.full(size + 64, POISON, np.uint8) for storage, size in sizes.items()}
    entries = []
    for shape, dtype, storage in facts:
        start = -pool[storage].ctypes.data % 64
        entries.append(pool[storage][start : start + math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape))
    for number in graph["arg_nodes"]:
        entries[rows[number]][...] = given[graph["nodes"][number]["name"]]
    for number, node in enumerate(graph["nodes"]):
        if node["op"] == "null" or node["attrs"]["func_name"] == "__nop":
            continue
        arrays = [entries[rows[source] + index] for source, index, _ in node["inputs"]]
        arrays += entries[rows[number] : rows[number + 1]]
        if node["attrs"]["func_name"] == "__copy":
            arrays[1][...] = arrays[0]
        else:
            call(node["attrs"]["func_name"], arrays)
    return [entries[rows[source] + index].copy() for source, index, _ in graph["heads"]]
