"""The graph executor: `module.set_input("x", array); module.run(); module.get_output(0)`, with TVM's names."""

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mlc.runtime.arrays import Array, TensorSpec, address_of, aligned, as_array, check_array
from mlc.runtime.graph.benchmark import BenchmarkResult, measure
from mlc.runtime.graph.convert import COPY, NOP, PIECES
from mlc.runtime.graph.library import GraphLibrary
from mlc.runtime.graph.params import Params, read_params
from mlc.runtime.graph.plan import GraphPlan, PlannedNode, pieces_of
from mlc.support.abi import KERNEL
from mlc.support.dtypes import dtype_of
from mlc.support.errors import UserError, did_you_mean
from mlc.support.threads import thread_count


class GraphModule:
    """
    A graph with its kernels and its memory: one storage for each storage id, and a view of it for each entry.

    One thread at a time may use it. `plan` is what read_graph made of the JSON; `rt` is the address of an rt
    struct that the caller keeps alive; by default, the module makes its own with `threads` threads.
    """

    def __init__(
        self, plan: GraphPlan, library: GraphLibrary, params: Params = None, threads: int | None = None, rt: int = 0
    ) -> None:
        self.plan, self.library, self._keeper = plan, library, None
        self.threads = thread_count(threads)
        self._inputs = {plan.nodes[number].name: plan.nodes[number].outputs[0] for number in plan.arguments}
        """Name -> the entry of an input or a weight."""
        self._workspace = aligned(library.workspace_bytes)
        self._weights: set[str] = set()
        self._unset = set(self._inputs)
        self._roots = list(range(len(plan.entries)))
        """GraphEntry -> the one that it is a reshape of, or itself."""
        for node in plan.nodes:
            if node.function == NOP:
                self._roots[node.outputs[0]] = self._roots[node.inputs[0]]
        self._slots: dict[int, list[tuple[Any, int]]] = {root: [] for root in self._roots}
        """GraphEntry -> where calls have its address."""
        self._calls = {k: self._call(node) for k, node in enumerate(plan.nodes) if node.function not in ("", NOP)}
        self._storages = {storage: aligned(size) for storage, size in plan.storage_bytes().items()}
        self._arrays: dict[int, Array] = {}
        """The array of each entry that is no reshape."""
        for root in self._slots:
            self._bind(root, self._own(root))
        self.rt = rt
        if not rt:
            self.rt, self._keeper = library.code.runtime(self.threads, library.scratch_bytes)
        library.functions.attach(self.rt)
        self.load_params(params)

    def _own(self, root: int) -> Array:
        """The view of its storage that an entry is."""
        entry = self.plan.entries[root]
        return self._storages[entry.storage][: entry.bytes].view(dtype_of(entry.dtype)).reshape(entry.shape)

    def _call(self, node: PlannedNode) -> Callable[[], int]:
        """What runs a node: its function on the addresses of its entries."""
        entries = [*node.inputs, *node.outputs]
        addresses = (ctypes.c_void_p * (len(entries) + 1))()
        for index, entry in enumerate(entries):
            self._slots[self._roots[entry]].append((addresses, index))
        if node.function == COPY:
            size = self.plan.entries[node.outputs[0]].bytes
            return lambda: ctypes.memmove(addresses[1], addresses[0], size) * 0
        if node.function == PIECES:
            return _mover(addresses, pieces_of(self.plan, node))
        ins, outs = ([_operand(self.plan, i) for i in side] for side in (node.inputs, node.outputs))
        kernel = KERNEL(self.library.address(node.function, ins, outs, f"node '{node.name}'"))
        addresses[len(entries)] = address_of(self._workspace)
        at = ctypes.addressof(addresses)
        return lambda: kernel(at, self.rt)

    def _bind(self, root: int, array: Array) -> None:
        """Let the calls use this array for an entry."""
        self._arrays[root] = array
        address = address_of(array)
        for addresses, index in self._slots[root]:
            addresses[index] = address

    # inputs

    def get_num_inputs(self) -> int:
        """The number of inputs, weights included."""
        return len(self._inputs)

    def get_input_index(self, name: str) -> int:
        """The number of the input or weight of this name; -1 if there is none."""
        return list(self._inputs).index(name) if name in self._inputs else -1

    def get_input_info(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """The shapes and the dtypes of the inputs by name, without weights."""
        entries = {name: self.plan.entries[i] for name, i in self._inputs.items() if name not in self._weights}
        return {n: tuple(e.shape) for n, e in entries.items()}, {n: e.dtype for n, e in entries.items()}

    def get_input(self, key: int | str) -> Array:
        """The array of an input or weight that calls read."""
        return self._arrays[self._inputs[self._input(key)]]

    def set_input(self, key: "int | str | None" = None, value: object = None, **inputs: Any) -> None:
        """
        Copy an array, or several by name, into the graph's inputs; weights may be set so, too.

        Raises UserError for an unknown name or number and ValueError for a wrong shape or dtype.
        """
        given: dict[Any, object] = dict(inputs) if key is None else {key: value, **inputs}
        for name, array in given.items():
            name, checked = self._checked(name, array)
            entry = self._inputs[name]
            own = self._own(entry)
            np.copyto(own, checked)
            self._bind(entry, own)
            self._unset.discard(name)

    def set_input_zero_copy(self, key: int | str, value: object) -> None:
        """Let calls read an array where it lies; ValueError if it is not contiguous and aligned to its element."""
        name, array = self._checked(key, value)
        if not array.flags.c_contiguous:
            raise ValueError(f"expected input '{name}' to be contiguous to be read in place; call set_input")
        self._bind(self._inputs[name], array)
        self._unset.discard(name)

    def load_params(self, params: Params) -> None:
        """
        Weights by name, from a dict, a safetensors file or its bytes; names that the graph does not have are left out.

        Contiguous arrays are used where they lie.
        """
        for name, array in read_params(params).items():
            if name in self._inputs:
                _, checked = self._checked(name, array)
                self._bind(self._inputs[name], np.ascontiguousarray(checked))
                self._unset.discard(name)
                self._weights.add(name)

    def share_params(self, other: "GraphModule", params: Params) -> None:
        """Use the memory of another module for the weights that `params` names."""
        names = [name for name in read_params(params) if name in self._inputs]
        self.load_params({name: other.get_input(name) for name in names})

    def _input(self, key: int | str) -> str:
        names = list(self._inputs)
        if isinstance(key, int):
            if not 0 <= key < len(names):
                raise UserError(f"expected an input from 0 to {len(names) - 1}, but got {key}")
            return names[key]
        if key not in self._inputs:
            raise UserError(f"expected an input of the graph, but there is no '{key}'{did_you_mean(key, names)}")
        return key

    def _checked(self, key: int | str, value: object) -> tuple[str, Array]:
        name = self._input(key)
        entry = self.plan.entries[self._inputs[name]]
        array = as_array(f"input '{name}'", value)
        check_array(f"input '{name}'", array, TensorSpec(name, tuple(entry.shape), entry.dtype))
        return name, array

    # runs and outputs

    def run(self, **inputs: Any) -> None:
        """Run every node, after `set_input(**inputs)`; UserError if an input is not set."""
        self.set_input(**inputs)
        self._check_set()
        for number, call in self._calls.items():
            if status := call():
                raise self._failed(number, status)

    def _check_set(self) -> None:
        self.library.functions.check("the graph")
        if self._unset:
            raise UserError(f"expected inputs to be set before run, but {', '.join(sorted(self._unset))} are not")

    def _failed(self, number: int, status: int) -> Exception:
        return self.library.functions.failure(self.rt, f"node '{self.plan.nodes[number].name}'", status)

    def get_num_outputs(self) -> int:
        """The number of outputs."""
        return len(self.plan.heads)

    def get_output(self, index: int, out: "Array | None" = None) -> Array:
        """An output of the last run: a view that the next run overwrites, or a copy of it in `out`."""
        found = self._entry(self._head(index))
        if out is None:
            return found
        check_array(f"output {index}", out, TensorSpec(str(index), found.shape, found.dtype.name))
        np.copyto(out, found)
        return out

    def set_output_zero_copy(self, index: int, value: object) -> None:
        """Let calls write an output into an array of the caller's; ValueError if it does not fit."""
        from mlc.runtime.arrays import output_array

        entry = self.plan.entries[self._head(index)]
        root = self._roots[self._head(index)]
        if root in self._inputs.values():
            raise UserError(f"expected output {index} to be computed, but it is an input of the graph")
        array = output_array(value, TensorSpec(str(index), tuple(entry.shape), entry.dtype))
        self._bind(root, array.reshape(self.plan.entries[root].shape))

    def _head(self, index: int) -> int:
        if not 0 <= index < len(self.plan.heads):
            raise UserError(f"expected an output from 0 to {len(self.plan.heads) - 1}, but got {index}")
        return self.plan.heads[index]

    def _entry(self, index: int) -> Array:
        return self._arrays[self._roots[index]].reshape(self.plan.entries[index].shape)

    def benchmark(
        self,
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: float | None = None,
        end_to_end: bool = False,
        **inputs: Any,
    ) -> BenchmarkResult:
        """
        Time runs, `number` in each of `repeat` repeats; the first one does not count.

        With `end_to_end` a run copies inputs and outputs, too.
        """
        self.set_input(**inputs)
        self._check_set()
        return measure(self._end_to_end(inputs) if end_to_end else self.run, repeat, number, min_repeat_ms)

    def _end_to_end(self, inputs: Mapping[str, object]) -> Callable[[], object]:
        given = inputs or {n: self.get_input(n).copy() for n in self._inputs if n not in self._weights}

        def call() -> None:
            self.run(**given)
            for index in range(self.get_num_outputs()):
                self.get_output(index).copy()

        return call


def _mover(addresses: Any, pieces: list[tuple[int, int, int]]) -> Callable[[], int]:
    """Copies bytes of each input to their place in the output."""

    def move() -> int:
        for index, (source, target, size) in enumerate(pieces):
            ctypes.memmove((addresses[len(pieces)] or 0) + target, (addresses[index] or 0) + source, size)
        return 0

    return move


def _operand(plan: GraphPlan, index: int) -> tuple[tuple[int, ...], str]:
    entry = plan.entries[index]
    return tuple(entry.shape), entry.dtype


__all__ = ["GraphModule"]
