"""
From the description of a straight-line @main (model.json) to the JSON of TVM's graph executor.

    a call               -> a node "tvm_op" with the kernel as func_name; its outputs are entries
    an input, a weight   -> a node "null"; weights are named p0, p1, ... in visiting order
    a reshape            -> a node with func_name "__nop": its entry has the storage of what it reshapes
    a copy of @main      -> a node with func_name "__copy"

A storage id stands for one offset of the memory plan's workspace, for an output, an input or a weight. Buffers at one
offset never live at the same time, so that giving each id memory of its own, as large as its largest entry, is as good
as the plan; that is what whoever reads the JSON does. `mlc.compile(executor="graph")` makes buffers that are written
and read as a whole; where a model compiled for another executor reads a buffer that was written in parts, or a part of
one, a node with func_name "__pieces" puts it together: `pieces` has the first byte in each input, that in the output,
and their number.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from mlc.runtime.reuse import size_of
from mlc.support.dtypes import dtype_of, dtype_of_type
from mlc.support.errors import UserError

VERSION = 1
"""Version of the JSON, in `attrs.mlc_graph`."""
NOP, COPY, PIECES = "__nop", "__copy", "__pieces"
Ref = tuple[int, int, int]
"""A node, which of its outputs, and TVM's version of it, always 0."""


@dataclass(frozen=True)
class GraphEntry:
    """An entry of the graph: one output of a node."""

    shape: Sequence[int]
    dtype: str
    """numpy's name of the element type."""
    storage: int

    @property
    def bytes(self) -> int:
        """The bytes of its elements."""
        return math.prod(self.shape) * dtype_of(self.dtype).itemsize


def dtype_text(value: Mapping[str, Any]) -> str:
    """numpy's name of a value's element type."""
    return dtype_of_type(value["dtype"]).name


def expect_graph(model: Mapping[str, Any]) -> None:
    """UserError if a compiled model is no straight line of kernels on buffers of static sizes."""
    if model.get("control_flow"):
        raise UserError(
            "expected a model without control flow for the graph executor, but this one branches or loops; use "
            'executor="aot"'
        )
    if model.get("symbols"):
        raise UserError(
            "expected a model of static sizes for the graph executor, but sizes of this one stay open; give shapes=, "
            'or use executor="aot"'
        )


class GraphWriter:
    """Writes one graph; `params` maps the name of each weight to its value in model.json."""

    def __init__(self, model: Mapping[str, Any]) -> None:
        expect_graph(model)
        self.model = model
        self.values: Sequence[Mapping[str, Any]] = model["values"]
        self.nodes: list[dict[str, Any]] = []
        self.shapes: list[list[int]] = []
        self.dtypes: list[str] = []
        self.storage: list[int] = []
        self.rows = [0]
        self.params: dict[str, Mapping[str, Any]] = {}
        self._ids: dict[tuple[Any, ...], int] = {}
        self._now: dict[tuple[Any, ...], list[Written]] = {}
        """Input, output, weight or workspace -> what its bytes hold now, by their first byte."""
        self._names: set[str] = set()

    def write(self) -> dict[str, Any]:
        """The graph."""
        for index, (name, shape, dtype) in enumerate(self.model["inputs"]):
            self._null(name, ("input", index), GraphEntry(shape, dtype, self._storage(("input", index))))
        self._weights()
        for node in self.model["nodes"]:
            self._call(node)
        for source, target, _ in self.model["copies"]:
            value = self._value(target)
            self._op("copy", COPY, [self._read(self._value(source), value["shape"])], [value], {})
        heads: list[Ref] = []
        for index, (_, shape, dtype) in enumerate(self.model["outputs"]):
            size = GraphEntry(shape, dtype, 0).bytes
            heads.append(self._read_bytes(("output", index), 0, size, shape, dtype))
        return {
            "nodes": self.nodes,
            "arg_nodes": [k for k, node in enumerate(self.nodes) if node["op"] == "null"],
            "heads": [list(ref) for ref in heads],
            "attrs": {
                "dltype": ["list_str", self.dtypes],
                "shape": ["list_shape", self.shapes],
                "storage_id": ["list_int", self.storage],
                "mlc_graph": ["size_t", VERSION],
            },
            "node_row_ptr": self.rows,
        }

    def _value(self, index: int) -> Mapping[str, Any]:
        return self.values[index]

    def _weights(self) -> None:
        """A node for each weight, in the order in which they are read."""
        reads = [i for node in self.model["nodes"] for i in node["inputs"]]
        reads += [source for source, _, _ in self.model["copies"]]
        taken = {name for name, _, _ in self.model["inputs"]}
        names = (name for name in (f"p{k}" for k in count()) if name not in taken)
        for value in (self._value(i) for i in reads):
            place = place_of(value)
            if value["storage"] == "weights" and place not in self._ids:
                name = next(names)
                self._null(name, place, GraphEntry(value["shape"], dtype_text(value), self._storage(place)))
                self.params[name] = value

    def _null(self, name: str, place: tuple[Any, ...], entry: GraphEntry) -> None:
        self._names.add(name)
        root = place if place[0] == "weights" else place[:2]
        self._now[root] = [Written(0, entry.bytes, (len(self.nodes), 0, 0))]
        self._node({"op": "null", "name": name, "inputs": []}, [entry])

    def _call(self, node: Mapping[str, Any]) -> None:
        inputs = [self._read(self._value(i), self._value(i)["shape"]) for i in node["inputs"]]
        kernel: str = node["kernel"]
        attrs = {
            "hash": kernel.rpartition("_")[2],
            "origins": ", ".join(node["origins"]),
            "flops": str(node["flops"]),
            "schedule": node.get("schedule", ""),
        }
        self._op(kernel, kernel, inputs, [self._value(i) for i in node["outputs"]], attrs)

    def _op(
        self, name: str, func: str, inputs: Sequence[Ref], outputs: Sequence[Mapping[str, Any]], attrs: dict[str, str]
    ) -> None:
        entries: list[GraphEntry] = []
        for k, value in enumerate(outputs):
            entries.append(GraphEntry(value["shape"], dtype_text(value), self._storage(place_of(value))))
            root, start = root_of(value)
            written = Written(start, start + entries[-1].bytes, (len(self.nodes), k, 0))
            self._now[root] = overwritten(self._now.get(root, []), written)
        self._node(op_node(self._unique(name), func, inputs, len(outputs), attrs), entries)

    def _read(self, value: Mapping[str, Any], shape: Sequence[int]) -> Ref:
        """The entry that holds a value; of another shape, a reshape of it."""
        root, start = root_of(value)
        return self._read_bytes(root, start, size_of(value), shape, dtype_text(value))

    def _read_bytes(self, root: tuple[Any, ...], start: int, size: int, shape: Sequence[int], dtype: str) -> Ref:
        """The entry that holds these bytes of a root: one that was written, or one put together of several."""
        found = [one for one in self._now.get(root, ()) if one.start < start + size and start < one.end]
        if size == 0:  # nothing is read
            found = [one for one in self._now.get(root, ()) if one.start == start == one.end]
        if len(found) == 1 and (found[0].first, found[0].start, found[0].end) == (found[0].start, start, start + size):
            whole = self.rows[found[0].ref[0]] + found[0].ref[1]
            if GraphEntry(self.shapes[whole], self.dtypes[whole], 0).bytes == size:
                return self._reshaped(found[0].ref, shape)
        pieces: list[str] = []
        for one in found:
            low, high = max(start, one.start), min(start + size, one.end)
            pieces.append(f"{low - one.first} {low - start} {high - low}")
        new = (len(self.nodes), 0, 0)
        attrs = {"pieces": ", ".join(pieces)}
        node = op_node(self._unique("pieces"), PIECES, [one.ref for one in found], 1, attrs)
        self._node(node, [GraphEntry(shape, dtype, self._storage(("pieces", len(self.nodes))))])
        return new

    def _reshaped(self, ref: Ref, shape: Sequence[int]) -> Ref:
        at = self.rows[ref[0]] + ref[1]
        if self.shapes[at] == list(shape):
            return ref
        new = (len(self.nodes), 0, 0)
        entry = GraphEntry(shape, self.dtypes[at], self.storage[at])
        self._node(op_node(self._unique("reshape"), NOP, [ref], 1, {}), [entry])
        return new

    def _node(self, node: dict[str, Any], entries: Sequence[GraphEntry]) -> None:
        self.nodes.append(node)
        for entry in entries:
            self.shapes.append(list(entry.shape))
            self.dtypes.append(entry.dtype)
            self.storage.append(entry.storage)
        self.rows.append(len(self.shapes))

    def _storage(self, place: tuple[Any, ...]) -> int:
        return self._ids.setdefault(place, len(self._ids))

    def _unique(self, name: str) -> str:
        found = next(
            one for one in (name, *(f"{name}_{k}" for k in range(1, len(self._names) + 2))) if one not in self._names
        )
        self._names.add(found)
        return found


def op_node(name: str, func: str, inputs: Sequence[Ref], outputs: int, attrs: Mapping[str, str]) -> dict[str, Any]:
    """A node that calls a function; all its attributes are strings."""
    counts = {"num_inputs": str(len(inputs)), "num_outputs": str(outputs), "flatten_data": "0"}
    return {
        "op": "tvm_op",
        "name": name,
        "attrs": {"func_name": func, **counts, **attrs},
        "inputs": [list(ref) for ref in inputs],
    }


@dataclass(frozen=True)
class Written:
    """Bytes that hold what a node wrote there: all of it, or what is left since others were written over it."""

    start: int
    end: int
    ref: Ref
    first: int = -1
    """Where the first byte of the entry is, or was; by default at `start`."""

    def __post_init__(self) -> None:
        if self.first < 0:
            object.__setattr__(self, "first", self.start)


def overwritten(old: Sequence[Written], new: Written) -> list[Written]:
    """What bytes hold after another node wrote some of them, by their first byte."""
    kept: list[Written] = [new]
    if new.start == new.end:
        kept += [one for one in old if (one.start, one.end) != (new.start, new.end)]
        return sorted(kept, key=lambda one: (one.start, one.end))
    for one in old:
        if one.end <= new.start or one.start >= new.end:
            kept.append(one)
            continue
        if one.start < new.start:
            kept.append(Written(one.start, new.start, one.ref, one.first))
        if new.end < one.end:
            kept.append(Written(new.end, one.end, one.ref, one.first))
    return sorted(kept, key=lambda one: (one.start, one.end))


def root_of(value: Mapping[str, Any]) -> tuple[tuple[Any, ...], int]:
    """What a value is a part of - an input, an output, the workspace - and its first byte there; a weight is whole."""
    kind = value["storage"]
    if kind == "weights":
        return place_of(value), 0
    return ((kind, value["index"]) if kind != "workspace" else (kind,)), value["offset"]


def place_of(value: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells the buffers of a model apart: their place; an empty one shares its offset with others."""
    kind = value["storage"]
    if kind == "weights":
        return kind, value["offset"], tuple(value["shape"]), value["dtype"]
    if kind != "workspace":
        return (kind, value["index"]) if not value["offset"] else (kind, value["index"], value["offset"])
    return (kind, value["offset"]) if size_of(value) else (kind, value["offset"], "empty", tuple(value["shape"]))


__all__ = ["COPY", "NOP", "PIECES", "VERSION", "GraphEntry", "GraphWriter", "dtype_text", "expect_graph", "place_of"]
