"""
Control flow: If, Loop and Scan become graph.if, graph.loop and graph.scan.

An If whose condition is known takes its branch. A Loop or Scan of few iterations is unrolled, and so is one whose body
cannot be a region, because its shapes change from one iteration to the next or it handles sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx

from mlc.dialects import graph as g
from mlc.dialects.graph.dims import DimExpr, greatest
from mlc.dialects.graph.ops.control import NO_ITERATION_BOUND, NUMBER, TRUTH
from mlc.dialects.graph.types import axis_of
from mlc.frontends.common.counted import marked, plain
from mlc.frontends.common.elementwise import add, cast, iota, select
from mlc.frontends.common.movement import index_axis, reshape, stack, transpose
from mlc.frontends.common.regions import RegionBuilder, counted_loop, filled_up, scan
from mlc.frontends.common.source_node import NeedsValues
from mlc.frontends.common.values import Value
from mlc.frontends.onnx import narrow
from mlc.frontends.onnx.files import dtype_of
from mlc.frontends.onnx.node import Converter, Node, node_path
from mlc.frontends.onnx.ordered import in_order
from mlc.support.errors import UserError

MAX_UNROLLED_ITERATIONS = 1024
"""Iterations of the longest loop that is unrolled."""
PREFER_UNROLLED_NODES = 64
"""Nodes in all iterations together up to which a loop is unrolled rather than made a graph.loop."""
MAX_STACK_BYTES = 1 << 30
"""Bytes of the largest stack of rows that is allocated for a bound of their number."""


def run_body(node: Node, graph: onnx.GraphProto, inputs: Sequence[Value], label: str) -> list[Value]:
    """The results of a subgraph on inputs; it may read the values of the graphs around it."""
    importer = node.importer
    outer, names = importer.values, importer.defined
    given = dict(zip((info.name for info in graph.input), inputs, strict=True))
    importer.values, importer.defined = {**outer, **given}, set(given)
    try:
        for tensor in graph.initializer:
            value = narrow.initializer(tensor, f"{node.path}: initializer '{tensor.name}'", importer.external)
            _check_hidden(node, tensor.name, value.array, outer.get(tensor.name))
            importer.values[tensor.name] = value
            importer.defined.add(tensor.name)
        for index, one in in_order(graph.node, importer.values):
            importer.convert(one, f"{node.path}/{label}{node_path(one, index)}", node.opsets)
        for info in graph.output:
            if info.name not in importer.values:
                raise node.fail(f"expected a node that gives '{info.name}', the output of its body")
        results = [importer.values[info.name] for info in graph.output]
        if element := next((v.narrow for v in results if v.narrow is not None), None):
            raise node.fail(f"expected a body to give elements of at least 8 bits, but got {element.name}")
        return results
    finally:
        importer.values, importer.defined = outer, names


def _check_hidden(node: Node, name: str, array: Any, outer: Value | None) -> None:
    """UserError for an initializer that shadows another value: readers of ONNX differ in which of the two is meant."""
    if outer is not None and (outer.array is None or not np.array_equal(outer.array, array)):
        raise node.fail(f"expected a name of its own for initializer '{name}' of a body; another value has it")


def _if(node: Node) -> list[Value]:
    condition = node.input(0)
    branches = [node.attr("then_branch"), node.attr("else_branch")]
    if condition.array is not None:
        return run_body(node, branches[0 if bool(condition.array.reshape(())) else 1], [], "")
    try:
        (then, other), axes = _branches(node, branches)
    except (UserError, ValueError) as error:  # sequences, or results of different ranks
        message = str(error) if isinstance(error, UserError) else str(node.fail(str(error)))
        if reason := node.importer.why_unknown(condition):
            message = message.removeprefix(f"{node.importer.source}: ")
            raise node.fail(f"{reason}, and {message}; give ranges with symbols=, or shapes=") from None
        raise NeedsValues(message, node.importer.sources(condition)) from error
    reads = list(dict.fromkeys([*then.captured(), *other.captured()]))
    isolated = [region.isolated(reads) for region in (then, other)]
    test = node.importer.materialize(reshape(node, condition, ()), node.path)
    results = then.add(g.IfOp(test, reads, *isolated))
    counts = iter(results[len(axes) :])
    return [y if axis is None else marked(y, axis, next(counts)) for y, axis in zip(results, axes, strict=False)]


def _branches(node: Node, branches: Sequence[onnx.GraphProto]) -> tuple[list[RegionBuilder], list[int | None]]:
    """
    The regions of an If, and the padded axis of each result (None of one that is not padded).

    Results that differ in one size are padded to the greater one; their counts follow the results.
    """

    def built(fill: Callable[[list[Value]], list[Value]]) -> list[RegionBuilder]:
        regions = [RegionBuilder(node, []) for _ in branches]
        try:
            for region, branch, label in zip(regions, branches, ("then/", "else/"), strict=True):
                region.build(lambda _, branch=branch, label=label: fill(run_body(node, branch, [], label)))
        except BaseException:
            for region in regions:
                region.discard()
            raise
        return regions

    found: list[list[Value]] = []
    regions = built(lambda values: found.append(values) or [plain(v) for v in values])
    axes = [_open_axis(node, *ways) for ways in zip(*found, strict=True)]
    if any(axis is not None for axis in axes):
        rooms = [None if k is None else greatest(a.shape[k], b.shape[k]) for k, a, b in zip(axes, *found, strict=True)]
        for region in regions:
            region.discard()
        regions = built(lambda values: filled_up(node, values, axes, rooms))
    if regions[0].types != regions[1].types:
        node.constant(0)
    return regions, axes


def _open_axis(node: Node, a: Value, b: Value) -> int | None:
    """The axis along which the sizes of two branches' results differ or are data-dependent; None if they are equal."""
    if a.items is not None or b.items is not None or len(a.shape) != len(b.shape):
        return None
    axes = {k for k, (m, n) in enumerate(zip(a.shape, b.shape, strict=True)) if m != n}
    axes |= {v.counted.axis for v in (a, b) if v.counted is not None}
    if len(axes) > 1:
        raise node.fail(f"expected branches whose results differ in one size, but got {a.shape} and {b.shape}")
    return next(iter(axes), None)


def first_that_works(*ways: Callable[[], list[Value]]) -> list[Value]:
    """The results of the first way that raises no UserError; if all do, the error that names inputs, else the first."""
    errors: list[UserError] = []
    for way in ways:
        try:
            return way()
        except UserError as error:
            errors.append(error)
    needs = [e for e in errors if isinstance(e, NeedsValues)]
    raise next((e for e in needs if e.inputs), next(iter(needs), errors[0]))


def _loop(node: Node) -> list[Value]:
    """A graph.loop, or the body unrolled where the number of iterations is known."""
    body: onnx.GraphProto = node.attr("body")
    limit = node.input(0).array if node.has(0) else None
    unrolled, region = lambda: _unrolled(node, body), lambda: _region_loop(node, body)
    if any(v is not None and (v.items is not None or v.absent) for v in node.inputs[2:]):
        return unrolled()
    if limit is not None and isinstance(limit.reshape(()).item(), DimExpr):
        return _symbolic_loop(node, body, limit.reshape(()).item())
    few = limit is not None and int(limit.reshape(())) * len(body.node) <= PREFER_UNROLLED_NODES
    return first_that_works(unrolled, region) if few else first_that_works(region, unrolled)


class _EndsEarly(Exception):
    """A loop has a condition that may end it early."""


def _symbolic_loop(node: Node, body: onnx.GraphProto, length: DimExpr) -> list[Value]:
    """A loop whose number of iterations is a symbolic size: a scan over the iteration numbers."""
    carried, numbers = [node.input(i) for i in range(2, len(node.inputs))], [iota(node, (length,), 0)]
    first = reshape(node, node.input(1), ()) if node.has(1) else node.array(np.array(True))

    def always(args: list[Value]) -> list[Value]:
        *states, number = args
        condition, *results = run_body(node, body, [number, node.array(np.array(True)), *states], "")
        if condition.array is None or not bool(condition.array.reshape(())):
            raise _EndsEarly
        return results

    def while_it_holds(args: list[Value]) -> list[Value]:
        *states, holds, count, number = args
        condition, *results = run_body(node, body, [number, holds, *states], "")
        kept = [select(node, holds, new, old) for new, old in zip(results, states, strict=False)]
        more = node.emit(g.LogicalAndOp, holds, reshape(node, condition, ()))
        count = add(node, count, cast(node, holds, np.int64))
        return [*kept, more, count, *results[len(states) :]]

    if first.array is not None and first.array:
        try:
            return scan(node, carried, numbers, always)
        except _EndsEarly:
            pass
    none = node.array(np.array(0, np.int64))
    results = scan(node, [*carried, first, none], numbers, while_it_holds)
    states, count, rows = results[: len(carried)], results[len(carried) + 1], results[len(carried) + 2 :]
    return [*states, *(marked(y, 0, count) for y in rows)]


def _region_loop(node: Node, body: onnx.GraphProto) -> list[Value]:
    condition = node.input(1) if node.has(1) else node.array(np.array(True))
    if condition.array is not None and not condition.array.reshape(()):
        return _unrolled(node, body)
    carried = [node.input(i) for i in range(2, len(node.inputs))]
    most, limit = NO_ITERATION_BOUND, None
    if node.has(0):
        value = node.input(0)
        if value.array is None:
            limit = reshape(node, value, ())
        elif int(value.array.reshape(())) < np.iinfo(np.int64).max:
            most = max(0, int(value.array.reshape(())))
    region = RegionBuilder(node, [NUMBER, *(node.importer.materialize(v, node.path).type for v in carried)])
    region.trace(1, carried)
    always = node.array(np.array(True))  # the body runs while the condition holds
    results = region.build(lambda args: run_body(node, body, [args[0], always, *args[1:]], ""))
    ends = results[0].array is None or not bool(results[0].array.reshape(()))
    test = None
    if ends or condition.array is None:
        test = reshape(node, condition, ())
        region.set_first(node, TRUTH)
    else:
        region.drop_first()
    region.check(carried, 1 if test is not None else 0)
    rows = len(body.output) - 1 - len(carried)
    if rows and (most < 0 or most * region.row_bytes(rows) > MAX_STACK_BYTES):
        region.discard()
        if limit is not None:
            node.known(limit, "the number of iterations")
        message = "expected a known number of iterations, which bounds the outputs that stack rows, but got none"
        raise NeedsValues(str(node.fail(message)), set())
    return counted_loop(region, carried, most, limit, test)


def _unrolled(node: Node, body: onnx.GraphProto) -> list[Value]:
    """The body once per iteration; their number must be known."""
    limit = int(node.constant(0).reshape(())) if node.has(0) else MAX_UNROLLED_ITERATIONS + 1
    condition = node.input(1) if node.has(1) else node.array(np.array(True))
    carried = [v if v is not None else node.input(i) for i, v in enumerate(node.inputs[2:], 2)]
    scanned: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    count = 0
    while count < limit and bool(node.known(condition, "the condition").reshape(())):
        if count == MAX_UNROLLED_ITERATIONS:
            raise NeedsValues(
                str(node.fail(f"expected at most {MAX_UNROLLED_ITERATIONS} iterations, but got more")), set()
            )
        index = node.array(np.array(count, np.int64))
        condition, *results = run_body(node, body, [index, condition, *carried], f"{count}/")
        carried, rows = results[: len(carried)], results[len(carried) :]
        for row, into in zip(rows, scanned, strict=True):
            into.append(row)
        count += 1
    return [*carried, *(_stacked(node, rows, 0, body.output[1 + len(carried) + i]) for i, rows in enumerate(scanned))]


def _stacked(node: Node, rows: Sequence[Value], axis: int, info: onnx.ValueInfoProto) -> Value:
    """The rows of all iterations; of no iterations an empty tensor of the type that the body's output declares."""
    if rows:
        return stack(node, rows, axis)
    declared = info.type.tensor_type
    if not declared.HasField("shape"):
        raise node.fail(f"expected the type of '{info.name}', which a body gives that never runs, but got none")
    sizes = [d.dim_value for d in declared.shape.dim]
    return node.array(np.zeros((0, *sizes), dtype_of(declared.elem_type, f"{node.path}: output '{info.name}'")))


def _scan(node: Node) -> list[Value]:
    """The body once per row of the scanned inputs."""
    body: onnx.GraphProto = node.attr("body")
    if node.opset < 9:
        return _scan_batches(node, body)
    inputs = [node.input(i) for i in range(len(node.inputs))]
    axis = axis_of(node.attr("scan_input_axes", [0])[-1], len(inputs[-1].shape))
    length: Any = inputs[-1].shape[axis]
    if not isinstance(length, int):
        return _region_scan(node, body, inputs)
    unrolled, region = lambda: _scan_once(node, body, inputs, ""), lambda: _region_scan(node, body, inputs)
    few = length * len(body.node) <= PREFER_UNROLLED_NODES
    return first_that_works(unrolled, region) if few else first_that_works(region, unrolled)


def _states_and_rows(node: Node, inputs: Sequence[Value]) -> tuple[list[Value], Sequence[Value], list[int]]:
    """The states, the scanned inputs, and the axis along which each of these is scanned."""
    count = node.attr("num_scan_inputs")
    states, rows = list(inputs[: len(inputs) - count]), inputs[len(inputs) - count :]
    axes = node.attr("scan_input_axes", [0] * count)
    return states, rows, [axis_of(a, len(x.shape)) for a, x in zip(axes, rows, strict=True)]


def _region_scan(node: Node, body: onnx.GraphProto, inputs: Sequence[Value]) -> list[Value]:
    states, rows, axes = _states_and_rows(node, inputs)
    outputs = len(body.output) - len(states)
    rows = [_axis_moved(node, x, axis, 0) for x, axis in zip(rows, axes, strict=True)]
    backward = [
        *node.attr("scan_input_directions", [0] * len(rows)),
        *node.attr("scan_output_directions", [0] * outputs),
    ]
    results = scan(node, states, rows, lambda args: run_body(node, body, args, ""), list(map(bool, backward)))
    places = node.attr("scan_output_axes", [0] * outputs)
    stacks = results[len(states) :]
    return [
        *results[: len(states)],
        *(_axis_moved(node, y, 0, axis_of(axis, len(y.shape))) for y, axis in zip(stacks, places, strict=True)),
    ]


def _axis_moved(node: Node, x: Value, source: int, target: int) -> Value:
    """`x` with one axis moved."""
    order = [a for a in range(len(x.shape)) if a != source]
    return transpose(node, x, [*order[:target], source, *order[target:]])


def _scan_batches(node: Node, body: onnx.GraphProto) -> list[Value]:
    """Scan of opset 8: each batch is scanned on its own."""
    if node.has(0):
        raise node.fail("expected no sequence_lens, but got them")
    inputs = [node.input(i) for i in range(1, len(node.inputs))]
    each = [
        _scan_once(node, body, [index_axis(node, x, 0, batch) for x in inputs], f"{batch}/")
        for batch in range(inputs[0].shape[0])
    ]
    return [stack(node, values, 0) for values in zip(*each, strict=True)]


def _scan_once(node: Node, body: onnx.GraphProto, inputs: Sequence[Value], label: str) -> list[Value]:
    states, rows, axes = _states_and_rows(node, inputs)
    outputs = len(body.output) - len(states)
    old = "directions" if node.opset < 9 else "scan_input_directions"
    backward = node.attr(old, [0] * len(rows))
    length = rows[0].shape[axes[0]]
    if length > MAX_UNROLLED_ITERATIONS:
        raise node.fail(f"expected at most {MAX_UNROLLED_ITERATIONS} iterations, but got {length}")
    scanned: list[list[Value]] = [[] for _ in range(outputs)]
    for step in range(length):
        at = [length - 1 - step if back else step for back in backward]
        parts = [index_axis(node, x, axis, i) for x, axis, i in zip(rows, axes, at, strict=True)]
        results = run_body(node, body, [*states, *parts], f"{label}{step}/")
        states = results[: len(states)]
        for row, into in zip(results[len(states) :], scanned, strict=True):
            into.append(row)
    reverse: Any = node.attr("scan_output_directions", [0] * outputs)
    places = node.attr("scan_output_axes", [0] * outputs)
    final = [
        _stacked(node, list(reversed(into)) if back else into, axis, body.output[len(states) + i])
        for i, (into, back, axis) in enumerate(zip(scanned, reverse, places, strict=True))
    ]
    return [*states, *final]


CONVERTERS: dict[str, Converter] = {"If": _if, "Loop": _loop, "Scan": _scan}
