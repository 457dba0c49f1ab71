"""
A graph in TVM's JSON, read and checked: what is wrong in an edited one is refused before anything runs.

    node_row_ptr   entry of output k of node n = node_row_ptr[n] + k
    storage_id     entries of one id share its memory, which is as large as the largest of them

The order of the nodes is the order in which they run. A node may not overwrite what a later node still reads.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlc.runtime.graph.convert import COPY, NOP, PIECES, VERSION, GraphEntry
from mlc.support.dtypes import dtype_of
from mlc.support.errors import UserError

LISTS = {"shape": list, "dltype": str, "storage_id": int}
"""The lists that every graph has as attributes -> the type of their items; each list has one item for each entry."""


@dataclass(frozen=True)
class PlannedNode:
    """A node: a function, or nothing for an input, and the numbers of the entries that it reads and writes."""

    name: str
    function: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attrs: Mapping[str, str]


@dataclass(frozen=True)
class GraphPlan:
    """A graph that is in order."""

    nodes: Sequence[PlannedNode]
    entries: Sequence[GraphEntry]
    arguments: Sequence[int]
    """The nodes of inputs and weights."""
    heads: Sequence[int]
    """The entries of the outputs."""

    def storage_bytes(self) -> dict[int, int]:
        """The bytes of each storage id."""
        sizes: dict[int, int] = {}
        for entry in self.entries:
            sizes[entry.storage] = max(sizes.get(entry.storage, 0), entry.bytes)
        return sizes

    def node(self, name: str | int) -> int:
        """The number of a node, by its name or number; UserError if there is none."""
        from mlc.support.errors import did_you_mean

        if isinstance(name, int):
            if 0 <= name < len(self.nodes):
                return name
            raise UserError(f"expected a node from 0 to {len(self.nodes) - 1}, but got {name}")
        names = [node.name for node in self.nodes]
        if name not in names:
            raise UserError(f"expected a node of the graph, but there is no '{name}'{did_you_mean(name, names)}")
        return names.index(name)


def read_graph(graph: "str | bytes | Mapping[str, Any]") -> GraphPlan:
    """The plan of a graph, given as a dict or as JSON text; UserError if it is not in order."""
    if isinstance(graph, str | bytes):
        try:
            graph = json.loads(graph)
        except ValueError as error:
            raise UserError(f"expected the graph as JSON, but got: {error}") from error
    if not isinstance(graph, Mapping):
        raise UserError(f"expected the graph as a dict or JSON text, but got {type(graph).__name__}")
    try:
        return _Reader(graph).plan()
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"expected a graph with TVM's fields, but got {type(error).__name__}: {error}") from error


class _Reader:
    def __init__(self, graph: Mapping[str, Any]) -> None:
        for field in ("nodes", "arg_nodes", "heads", "attrs", "node_row_ptr"):
            if field not in graph:
                raise UserError(f"expected a field '{field}' in the graph, but there is none")
        self.graph = graph
        version = graph["attrs"].get("mlc_graph", ["size_t", VERSION])[1]
        if version > VERSION:
            raise UserError(
                f"expected a graph of version {VERSION}, but got {version}, which a newer mlc wrote; update mlc"
            )

    def plan(self) -> GraphPlan:
        entries = self.entries()
        rows, nodes = list(self.graph["node_row_ptr"]), self.graph["nodes"]
        if len(rows) != len(nodes) + 1 or rows[0] != 0 or rows[-1] != len(entries) or rows != sorted(rows):
            raise UserError(
                f"expected node_row_ptr to rise from 0 to {len(entries)} in {len(nodes) + 1} steps, but got {rows}"
            )
        read = [self.node(number, rows) for number in range(len(nodes))]
        arguments = [number for number, node in enumerate(nodes) if node["op"] == "null"]
        if sorted(self.graph["arg_nodes"]) != arguments:
            raise UserError(f"expected arg_nodes to be the null nodes {arguments}, but got {self.graph['arg_nodes']}")
        heads = [self.entry(ref, rows, len(nodes), "heads") for ref in self.graph["heads"]]
        plan = GraphPlan(read, entries, list(self.graph["arg_nodes"]), heads)
        _check_names(plan)
        _check_storage(plan)
        return plan

    def entries(self) -> list[GraphEntry]:
        attrs = self.graph["attrs"]
        columns: dict[str, Any] = {}
        for name, kind in LISTS.items():
            columns[name] = attrs[name][1]
            if any(type(item) is not kind for item in columns[name]):
                raise UserError(f"expected attrs.{name} to be a list of {kind.__name__}, but got another item")
        if len({len(column) for column in columns.values()}) != 1:
            lengths = ", ".join(f"{name} {len(column)}" for name, column in columns.items())
            raise UserError(f"expected the lists of attrs to be of one length, but got {lengths}")
        for shape in columns["shape"]:
            if any(type(size) is not int or size < 0 for size in shape):
                raise UserError(f"expected shapes of static sizes, but got {shape}")
        for dtype in columns["dltype"]:
            if not _is_element_type(dtype):
                raise UserError(f"expected numpy's name of a numeric element type, but got '{dtype}'")
        return [
            GraphEntry(*row) for row in zip(columns["shape"], columns["dltype"], columns["storage_id"], strict=True)
        ]

    def node(self, number: int, rows: Sequence[int]) -> PlannedNode:
        node = self.graph["nodes"][number]
        name, outputs = node["name"], tuple(range(rows[number], rows[number + 1]))
        if not isinstance(name, str):
            raise UserError(f"expected the name of node {number} to be a string, but got {name!r}")
        if node["op"] not in ("null", "tvm_op"):
            raise UserError(f"expected node '{name}' to be null or tvm_op, but got '{node['op']}'")
        inputs = tuple(self.entry(ref, rows, number, f"node '{name}'") for ref in node["inputs"])
        if node["op"] == "null":
            if inputs or len(outputs) != 1:
                raise UserError(f"expected input '{name}' to have no inputs and one entry in node_row_ptr")
            return PlannedNode(name, "", (), outputs, {})
        attrs = node["attrs"]
        if any(not isinstance(value, str) for value in attrs.values()):
            raise UserError(f"expected strings as attrs of node '{name}', but got {attrs}")
        wanted = int(attrs["num_inputs"]), int(attrs["num_outputs"])
        if wanted != (got := (len(inputs), len(outputs))):
            raise UserError(f"expected node '{name}' to have {wanted} inputs and outputs, but got {got}")
        return PlannedNode(name, attrs["func_name"], inputs, outputs, attrs)

    def entry(self, ref: Sequence[int], rows: Sequence[int], before: int, where: str) -> int:
        """The number of an entry of a node before another."""
        node, index = ref[0], ref[1]
        if not (0 <= node < before and 0 <= index < rows[node + 1] - rows[node]):
            raise UserError(f"expected {where} to read an output of an earlier node, but got {list(ref)}")
        return rows[node] + index


def _is_element_type(name: str) -> bool:
    try:
        dtype = dtype_of(name)
    except TypeError:
        return False
    return dtype.name == name and dtype.kind in "biufcV"


def _check_names(plan: GraphPlan) -> None:
    for name, count in Counter(node.name for node in plan.nodes).items():
        if count > 1:
            raise UserError(f"expected every node to have a name of its own, but {count} are '{name}'")


def _check_storage(plan: GraphPlan) -> None:
    """UserError if a node overwrites an entry that is read later, if a reshape moves, or if an input is overwritten."""
    holds: dict[int, set[int]] = {}
    """Storage id -> the entries that it holds now: one, and its reshapes."""
    given = {plan.entries[plan.nodes[number].outputs[0]].storage for number in plan.arguments}
    for node in plan.nodes:
        for index in node.inputs:
            _check_held(plan, holds, index, f"node '{node.name}'")
        if node.function in (NOP, COPY):
            _check_move(plan, node)
        if node.function == PIECES:
            pieces_of(plan, node)
        for index in node.outputs:
            storage = plan.entries[index].storage
            if node.function == NOP:
                holds[storage].add(index)
                continue
            if storage in given if node.function else storage in holds:
                raise UserError(f"expected inputs to keep their storage, but node '{node.name}' overwrites {storage}")
            if any(plan.entries[i].storage == storage for i in node.inputs):
                raise UserError(
                    f"expected node '{node.name}' to write another storage than it reads, but got {storage}"
                )
            holds[storage] = {index}
    for index in plan.heads:
        _check_held(plan, holds, index, "an output")


def _check_held(plan: GraphPlan, holds: Mapping[int, set[int]], index: int, who: str) -> None:
    storage = plan.entries[index].storage
    if index not in holds[storage]:
        owner = _writer(plan, index).name
        other = _writer(plan, min(holds[storage])).name
        raise UserError(
            f"expected the entry of node '{owner}' to stay until {who} reads it, but node '{other}' overwrites storage "
            f"{storage}; give it a storage_id of its own"
        )


def _writer(plan: GraphPlan, index: int) -> PlannedNode:
    return next(node for node in plan.nodes if index in node.outputs)


def _check_move(plan: GraphPlan, node: PlannedNode) -> None:
    (source, target) = (plan.entries[i] for i in (*node.inputs, *node.outputs))
    same = source.dtype == target.dtype and math.prod(source.shape) == math.prod(target.shape)
    if not same or (node.function == NOP) != (source.storage == target.storage):
        raise UserError(
            f"expected {node.function} '{node.name}' to keep dtype and number of elements, and "
            f"{'its storage' if node.function == NOP else 'to write another storage'}"
        )


def pieces_of(plan: GraphPlan, node: PlannedNode) -> list[tuple[int, int, int]]:
    """For each input of a node "__pieces": its first byte, that in the output, their number; UserError if outside."""
    rows = [tuple(map(int, row.split())) for row in node.attrs["pieces"].split(",") if row.strip()]
    whole = plan.entries[node.outputs[0]].bytes
    pieces: list[tuple[int, int, int]] = []
    for (source, target, size), index in zip(rows, node.inputs, strict=True):
        if min(source, target, size) < 0 or source + size > plan.entries[index].bytes or target + size > whole:
            raise UserError(
                f"expected the pieces of node '{node.name}' inside its operands, but got {source, target, size}"
            )
        pieces.append((source, target, size))
    return pieces


__all__ = ["GraphPlan", "PlannedNode", "pieces_of", "read_graph"]
