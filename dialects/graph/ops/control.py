"""
Control flow: `graph.if`, `graph.loop` and `graph.scan`. Their regions are isolated: values from outside are arguments.

    if    condition, reads                       -> then(reads), other(reads)
    loop  limit?, condition?, carried, reads     -> body(number of the iteration, carried, reads)
    scan  carried, rows, reads                   -> body(carried, one row of each, reads)

A region ends in `graph.yield`. In an if it yields the results; in a loop or scan the condition to continue (if the loop
has one), the carried values, and one row for each stacked result. Weights and constants are cloned into the regions
that read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import I64, ArrayAttr, BoolAttr, IntegerAttr, TensorType, i1, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsolatedFromAbove, RecursiveMemoryEffect, SingleBlockImplicitTerminator
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.ops.structure import YieldOp
from mlc.dialects.graph.types import element_of, shape_of, tensor

NUMBER, TRUTH = tensor((), i64), tensor((), i1)
NO_ITERATION_BOUND = -1
"""`at_most` of a loop that only its limit or its condition bounds."""
_ISOLATED = (IsolatedFromAbove(), SingleBlockImplicitTerminator(YieldOp), RecursiveMemoryEffect())


class ControlOp(IRDLOperation):
    """The base of control ops: block arguments are inferred from operands, results from the yielded values."""

    def arguments(self) -> list[Attribute]:
        """The inferred types of each region's block arguments."""
        raise VerifyException(f"{self.name} has no arguments")

    def inferred(self) -> list[Attribute]:
        """The result types."""
        raise VerifyException(f"{self.name} has no results")

    def yielded(self, region: int = 0) -> list[SSAValue]:
        """The values that a region yields."""
        last = self.regions[region].block.last_op
        if not isinstance(last, YieldOp):
            raise VerifyException("expected a graph.yield at the end of each region")
        return list(last.operands)

    def verify_(self) -> None:
        """Block arguments have the inferred types, and the results the types that the regions yield."""
        expected = self.arguments()
        for region in self.regions:
            if list(region.block.arg_types) != expected:
                raise VerifyException(
                    f"expected a region with arguments ({_types(expected)}), as the operands imply, "
                    f"but got ({_types(region.block.arg_types)})"
                )
        inferred = self.inferred()
        if inferred != list(self.result_types):
            raise VerifyException(
                f"expected results of types ({_types(inferred)}), as the regions imply, "
                f"but got ({_types(self.result_types)})"
            )

    def infer_results(self) -> None:
        """Set the result types to the inferred ones."""
        for result, type_ in zip(self.results, self.inferred(), strict=True):
            result._type = type_


@irdl_op_definition
class IfOp(ControlOp):
    """
    Runs one of two regions, selected by a condition.

    ```
    %1 = graph.if %c : tensor<i1> reads(%x : tensor<4xf32>) -> (tensor<4xf32>) {
    ^bb0(%a: tensor<4xf32>):
      graph.yield %a : tensor<4xf32>
    } else {
    ^bb0(%a: tensor<4xf32>):
      %2 = graph.neg %a : tensor<4xf32>
      graph.yield %2 : tensor<4xf32>
    }
    ```
    """

    name = "graph.if"
    condition = operand_def(TensorType)
    reads = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)
    then = region_def("single_block")
    other = region_def("single_block")
    traits = traits_def(*_ISOLATED)
    assembly_format = (
        "$condition `:` type($condition) (`reads` `(` $reads^ `:` type($reads) `)`)? "
        "`->` `(` type($outputs) `)` $then `else` $other attr-dict"
    )

    def __init__(self, condition: SSAValue, reads: Sequence[SSAValue], then: Region, other: Region) -> None:
        types = _ends(then)
        super().__init__(operands=[condition, reads], result_types=[types], regions=[then, other])

    def arguments(self) -> list[Attribute]:
        return [v.type for v in self.reads]

    def inferred(self) -> list[Attribute]:
        if self.condition.type != TRUTH:
            raise VerifyException(f"expected a condition of type {TRUTH}, but got {self.condition.type}")
        then, other = ([v.type for v in self.yielded(k)] for k in (0, 1))
        if then != other:
            raise VerifyException(f"expected both regions to yield ({_types(then)}), but got ({_types(other)})")
        return then


@irdl_op_definition
class LoopOp(ControlOp):
    """
    Repeats its region at most `at_most` times, at most `limit` times, and while the condition holds.

    The results are the carried values, the stacked rows (`at_most` of them; zeros beyond the last iteration), and the
    number of iterations.

    ```
    %s, %rows, %n = graph.loop at_most 10 while(%c : tensor<i1>) carried(%x : tensor<4xf32>)
        -> (tensor<4xf32>, tensor<10x4xf32>, tensor<i64>) {
    ^bb0(%i: tensor<i64>, %a: tensor<4xf32>):
      ..
      graph.yield %more, %next, %row : tensor<i1>, tensor<4xf32>, tensor<4xf32>
    }
    ```
    """

    name = "graph.loop"
    at_most = prop_def(IntegerAttr[I64])
    limit = opt_operand_def(TensorType)
    condition = opt_operand_def(TensorType)
    carried = var_operand_def(TensorType)
    reads = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)
    body = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(*_ISOLATED)
    assembly_format = (
        "`at_most` $at_most (`limit` `(` $limit^ `:` type($limit) `)`)? "
        "(`while` `(` $condition^ `:` type($condition) `)`)? "
        "(`carried` `(` $carried^ `:` type($carried) `)`)? (`reads` `(` $reads^ `:` type($reads) `)`)? "
        "`->` `(` type($outputs) `)` $body attr-dict"
    )

    def __init__(
        self,
        body: Region,
        carried: Sequence[SSAValue],
        reads: Sequence[SSAValue],
        at_most: int = NO_ITERATION_BOUND,
        limit: SSAValue | None = None,
        condition: SSAValue | None = None,
    ) -> None:
        operands = [[] if limit is None else [limit], [] if condition is None else [condition], carried, reads]
        rows = _ends(body)[len(carried) + (condition is not None) :]
        types = [*(v.type for v in carried), *(_stacked(at_most, t) for t in rows), NUMBER]
        super().__init__(
            operands=operands,
            result_types=[types],
            properties={"at_most": IntegerAttr(at_most, i64)},
            regions=[body],
        )

    def arguments(self) -> list[Attribute]:
        return [NUMBER, *(v.type for v in (*self.carried, *self.reads))]

    def inferred(self) -> list[Attribute]:
        for name, value, wanted in (("limit", self.limit, NUMBER), ("condition", self.condition, TRUTH)):
            if value is not None and value.type != wanted:
                raise VerifyException(f"expected a {name} of type {wanted}, but got {value.type}")
        bound = self.at_most.value.data
        if bound < 0 and self.limit is None and self.condition is None:
            raise VerifyException("expected a loop that ends, but got no at_most, no limit and no condition")
        types = [v.type for v in self.yielded()]
        if self.condition is not None and types[:1] != [TRUTH]:
            raise VerifyException(f"expected the condition, of type {TRUTH}, to be yielded first")
        types = types[self.condition is not None :]
        rows = _carried_on(self.carried, types)
        if rows and bound < 0:
            raise VerifyException("expected at_most to bound a loop that stacks rows, but it does not; give it a bound")
        return [*(v.type for v in self.carried), *(_stacked(bound, t) for t in rows), NUMBER]

    @property
    def always(self) -> bool:
        """Whether the loop runs exactly `at_most` times."""
        return self.limit is None and self.condition is None


@irdl_op_definition
class ScanOp(ControlOp):
    """
    Runs its region once for each row (slice along axis 0) of the scanned values, which have equally many rows.

    `backward` flags each scanned value, then each stacked result, that is traversed from the last row to the first.

    ```
    %s, %ys = graph.scan carried(%h : tensor<4xf32>) rows(%x : tensor<7x4xf32>)
        -> (tensor<4xf32>, tensor<7x4xf32>) {
    ^bb0(%a: tensor<4xf32>, %row: tensor<4xf32>):
      %1 = graph.add %a, %row : tensor<4xf32>
      graph.yield %1, %1 : tensor<4xf32>, tensor<4xf32>
    }
    ```
    """

    name = "graph.scan"
    backward = prop_def(ArrayAttr[BoolAttr], default_value=ArrayAttr([]))
    carried = var_operand_def(TensorType)
    rows = var_operand_def(TensorType)
    reads = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)
    body = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(*_ISOLATED)
    assembly_format = (
        "(`backward` $backward^)? (`carried` `(` $carried^ `:` type($carried) `)`)? "
        "`rows` `(` $rows `:` type($rows) `)` (`reads` `(` $reads^ `:` type($reads) `)`)? "
        "`->` `(` type($outputs) `)` $body attr-dict"
    )

    def __init__(
        self,
        body: Region,
        carried: Sequence[SSAValue],
        rows: Sequence[SSAValue],
        reads: Sequence[SSAValue],
        backward: Sequence[bool] = (),
    ) -> None:
        length = shape_of(rows[0].type)[0]
        stacked = [_stacked(length, t) for t in _ends(body)[len(carried) :]]
        flags = ArrayAttr([BoolAttr.from_bool(b) for b in backward] if any(backward) else [])
        super().__init__(
            operands=[carried, rows, reads],
            result_types=[[*(v.type for v in carried), *stacked]],
            properties={"backward": flags},
            regions=[body],
        )

    @property
    def length(self) -> Any:
        """The number of rows."""
        return shape_of(self.rows[0].type)[0]

    def is_backward(self, index: int) -> bool:
        """Whether scanned value number `index`, or the stacked result after these, is traversed backward."""
        flags = self.backward.data
        return bool(flags) and bool(flags[index].value.data)

    def arguments(self) -> list[Attribute]:
        rows = [tensor(shape_of(v.type)[1:], element_of(v)) for v in self.rows]
        return [*(v.type for v in self.carried), *rows, *(v.type for v in self.reads)]

    def inferred(self) -> list[Attribute]:
        lengths = {shape_of(v.type)[:1] for v in self.rows}
        if len(lengths) != 1 or lengths == {()}:
            found = ", ".join(str(v.type) for v in self.rows)
            raise VerifyException(f"expected scanned values with one number of rows, but got ({found})")
        rows = _carried_on(self.carried, [v.type for v in self.yielded()])
        flags = len(self.backward.data)
        if flags not in (0, len(self.rows) + len(rows)):
            raise VerifyException(
                f"expected backward to have {len(self.rows) + len(rows)} flags, one for each scanned value "
                f"and stacked result, but got {flags}"
            )
        return [*(v.type for v in self.carried), *(_stacked(self.length, t) for t in rows)]


def _carried_on(carried: Sequence[SSAValue], types: Sequence[Attribute]) -> Sequence[Attribute]:
    """The yielded types after those of the carried values, which must match: the types of the rows."""
    wanted = [v.type for v in carried]
    if list(types[: len(wanted)]) != wanted:
        raise VerifyException(
            f"expected the region to yield what is carried, ({_types(wanted)}), but got ({_types(types)})"
        )
    return types[len(wanted) :]


def _stacked(count: Dim, row: Attribute) -> Attribute:
    assert isinstance(row, TensorType)
    return tensor((count, *shape_of(row)), row.element_type)


def _ends(region: Region) -> list[Attribute]:
    last = region.block.last_op
    assert isinstance(last, YieldOp)
    return list(last.operand_types)


def _types(types: Sequence[Attribute]) -> str:
    return ", ".join(map(str, types))


def _inside(block: Block) -> set[SSAValue]:
    """Every value that a block or a region in it defines."""
    found: set[SSAValue] = set(block.args)
    for op in block.walk():
        found.update(op.results)
        for region in op.regions:
            for inner in region.blocks:
                found.update(inner.args)
    return found


def _is_source(value: SSAValue) -> bool:
    """Whether a value is a weight or a constant, which is cloned into each region that reads it."""
    owner = value.owner
    return isinstance(owner, Operation) and not owner.operands and not owner.regions


def captured(block: Block) -> list[SSAValue]:
    """The values from outside that a block reads, except weights and constants."""
    inside = _inside(block)
    outside = (v for op in block.walk() for v in op.operands if v not in inside and not _is_source(v))
    return list(dict.fromkeys(outside))


def isolate(block: Block, reads: Sequence[SSAValue]) -> None:
    """Turn `reads` into block arguments, used or not, and clone the weights and constants that a block reads."""
    inside, known = _inside(block), dict[SSAValue, SSAValue]()
    first = block.first_op
    for value in reads:
        known[value] = block.insert_arg(value.type, len(block.args))
        known[value].name_hint = value.name_hint
    for op in list(block.walk()):
        for index, operand in enumerate(op.operands):
            if operand in inside:
                continue
            if operand not in known:
                source = operand.owner
                assert isinstance(source, Operation)
                clone = source.clone()
                clone.location = source.location
                assert first is not None
                block.insert_op_before(clone, first)
                known[operand] = clone.results[0]
            op.operands[index] = known[operand]


CONTROL: list[type[Operation]] = [IfOp, LoopOp, ScanOp]
