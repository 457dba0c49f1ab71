"""
te.scan: stages that run step by step along their first axis, and read what earlier steps computed.

    scan ::= `te.scan` "name" `(` (%state `=` %init),* `)` `steps` extent `:` type,* region

The first axis of each state, and of each stage in the region, is the step. A state holds all steps: the first ones are
`init`, each further one is what the region yields, a stage for each state. A stage reads a state at earlier steps that
there are (`%t - 1`, `%t - 1 - %j`, or any step that a mask proves to be one), and another stage of the region at its
own step.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import irdl_op_definition, prop_def, region_def, traits_def, var_operand_def, var_result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.access import IndexParser, print_exprs
from mlc.dialects.index import UNKNOWN, Index, IndexMapAttr, axis_range, compact, const, dim
from mlc.dialects.te.elements import YieldOp
from mlc.dialects.te.stages import ComputeOp, ReadOp
from mlc.dialects.text import TextOp, parse_bindings, print_bindings


@irdl_op_definition
class ScanOp(TextOp):
    """
    A recurrence: `%s = te.scan "sums" (%h = %first) steps 16 { ... te.yield %u : tensor<16x8xf32> } : tensor<16x8xf32>`

    Operands: the first steps of each state, then the symbols of the number of steps.
    """

    name = "te.scan"

    stage = prop_def(StringAttr)
    steps = prop_def(IndexMapAttr)
    args = var_operand_def()
    results_ = var_result_def(TensorType)
    body = region_def("single_block")

    traits = traits_def(Pure())

    @staticmethod
    def make(
        stage: str, inits: Sequence[SSAValue], steps: Index | int, symbols: Sequence[SSAValue], body: Region
    ) -> ScanOp:
        """A scan over `steps` (an expression over `symbols`); the arguments of the body's block are the states."""
        exprs, operands = compact([const(steps) if isinstance(steps, int) else steps], symbols)
        return ScanOp.create(
            operands=[*inits, *operands],
            properties={"stage": StringAttr(stage), "steps": IndexMapAttr.get(exprs)},
            result_types=[a.type for a in body.block.args],
            regions=[body],
        )

    @property
    def stage_name(self) -> str:
        """The scan's name."""
        return self.stage.data

    @property
    def inits(self) -> Sequence[SSAValue]:
        """The first steps of each state."""
        return self.args[: len(self.results_)]

    @property
    def symbols(self) -> Sequence[SSAValue]:
        """The symbols of the number of steps."""
        return self.args[len(self.results_) :]

    @property
    def states(self) -> Sequence[SSAValue]:
        """The states, of all steps, as the stages of the region read them."""
        return self.body.block.args

    @property
    def extent(self) -> Index:
        """The number of steps, the first ones included."""
        return self.steps.data[0]

    @property
    def first_step(self) -> int:
        """The first step that is computed by the region."""
        t = self.args[0].type if self.args else None
        return t.get_shape()[0] if isinstance(t, TensorType) and t.get_num_dims() else 0

    @property
    def stages(self) -> list[ComputeOp]:
        """The stages of the region in order."""
        return [op for op in self.body.block.ops if isinstance(op, ComputeOp)]

    def reads_itself(self, stage: ComputeOp) -> bool:
        """Whether a stage reads the state that it computes elsewhere than a number of steps back: points depend."""
        own = [state for state, v in zip(self.states, self.yield_op.values, strict=True) if v.owner is stage]
        reads = [op for op in stage.body.block.ops if isinstance(op, ReadOp) and op.tensor in own]
        return any(step_back(op, stage.axes[0]) is None for op in reads)

    @property
    def yield_op(self) -> YieldOp:
        """The terminator of the region."""
        op = self.body.block.last_op
        assert isinstance(op, YieldOp)
        return op

    def verify_(self) -> None:
        self._verify_states()
        last = self.body.block.last_op
        if not isinstance(last, YieldOp):
            raise VerifyException("expected the region of te.scan to end in te.yield")
        types = [a.type for a in self.states]
        if [v.type for v in last.values] != types:
            raise VerifyException("expected te.scan to yield one stage for each state, of the state's type")
        if len(set(last.values)) < len(types) or any(
            not isinstance(v.owner, ComputeOp) or v.owner.parent_op() is not self for v in last.values
        ):
            raise VerifyException("expected te.scan to yield a stage of its own for each state")
        for op in self.body.block.ops:
            if isinstance(op, ComputeOp):
                self._verify_stage(op)
            elif op is not last:
                raise VerifyException(f"expected te.compute in the region of te.scan, but got '{op.name}'")

    def _verify_states(self) -> None:
        if not self.results_:
            raise VerifyException("expected te.scan to have a state")
        if [a.type for a in self.states] != [r.type for r in self.results_] or len(self.args) < len(self.results_):
            raise VerifyException("expected te.scan to have an init, an argument and a result of each state")
        for init, result in zip(self.inits, self.results_, strict=True):
            a, b = init.type, result.type
            assert isinstance(b, TensorType)
            if not isinstance(a, TensorType) or a.element_type != b.element_type or not b.get_num_dims():
                raise VerifyException(f"expected an init like the first steps of {b}, but got {a}")
            if a.get_shape()[1:] != b.get_shape()[1:] or a.get_num_dims() != b.get_num_dims():
                raise VerifyException(f"expected an init of the shape of {b} but for its first axis, but got {a}")
            if a.get_shape()[0] != self.first_step or self.first_step < 1:
                raise VerifyException(f"expected inits of one static number of steps, at least 1, but got {a}")
            steps = b.get_shape()[0]
            if steps >= 0 and self.extent.is_const and steps != self.extent.const:
                raise VerifyException(f"expected states of {self.extent} steps, but got {b}")

    def _verify_stage(self, stage: ComputeOp) -> None:
        """Its first axis is the step; it reads states at earlier steps, and other stages of the region at its own."""
        extent = stage.extents.data[0] if stage.num_spatial else const(0)
        if (extent.is_const and self.extent.is_const and extent != self.extent) or not stage.num_spatial:
            raise VerifyException(f"expected the first axis of '{stage.stage_name}' to be the {self.extent} steps")
        for op in stage.body.block.ops:
            if not isinstance(op, ReadOp) or not op.map.data:
                continue
            if op.tensor in self.states and not self._reads_earlier_step(op, stage):
                raise VerifyException(
                    f"expected '{stage.stage_name}' to read a state 1 to {self.first_step} steps back, or at a step "
                    f"that a condition on indices proves to be earlier, but got index {_index_text(op)}"
                )
            if op.tensor.owner in self.stages and step_back(op, stage.axes[0]) != 0:
                raise VerifyException(
                    f"expected '{stage.stage_name}' to read '{_name(op.tensor)}' at its own step, "
                    f"but got index {_index_text(op)}; make it a state to read earlier steps"
                )

    def _reads_earlier_step(self, read: ReadOp, stage: ComputeOp) -> bool:
        """Whether a read of a state is proved to be at a step before that of the stage, and from 0 on."""
        indices = list(read.indices)
        axis = stage.axes[0]
        if axis not in indices:
            indices.append(axis)
        spans = dict(zip(stage.axes, stage.static_extents, strict=True))
        ranges = {n: axis_range(max(spans[v], 1)) if v in spans else UNKNOWN for n, v in enumerate(indices)}
        step = indices.index(axis)
        ranges[step] = (self.first_step, max(ranges[step][1], self.first_step))
        at, mask = read.map.data[0], read.mask.data if read.mask is not None else ()
        return all(
            any(e.bounds(ranges)[0] >= 0 for e in (wanted, *(wanted - m for m in mask)))
            for wanted in (at, dim(step) - 1 - at)
        )

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.stage.data)
        printer.print_string(" ")
        print_bindings(printer, self.states, self.inits)
        printer.print_string(" steps ")
        print_exprs(printer, [self.extent], self.symbols)
        printer.print_string(" : ")
        printer.print_list(self.results_, lambda r: printer.print_attribute(r.type))
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def read(cls, parser: Parser) -> ScanOp:
        stage = parser.parse_str_literal(" as the scan's name")
        pairs = parse_bindings(parser)
        parser.parse_keyword("steps")
        index = IndexParser(parser)
        extent = index.expr()
        parser.parse_punctuation(":")
        start = parser.pos
        types: list[Attribute] = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        if len(types) != len(pairs):
            parser.raise_error(f"expected {len(pairs)} types, one for each state, but got {len(types)}", start)
        body = parser.parse_region([a.resolve(t) for (a, _), t in zip(pairs, types, strict=True)])
        symbols = index.operands()
        return ScanOp.make(stage, [init for _, init in pairs], extent, symbols, body)


def step_back(read: ReadOp, axis: SSAValue) -> int | None:
    """By how many steps the first index of a read is less than an axis; None where it is no difference of the two."""
    first = read.map.data[0]
    if len(first.terms) != 1:
        return None
    term, factor = first.terms[0]
    return -first.const if factor == 1 and isinstance(term, int) and read.indices[term] is axis else None


def _index_text(read: ReadOp) -> str:
    """The first index of a read, with the names of the stage's axes."""
    names = {k: f"%{v.name_hint or k}" for k, v in enumerate(read.indices)}
    return read.map.data[0].text(names.__getitem__)


def _name(tensor: SSAValue) -> str:
    owner = tensor.owner
    return owner.stage_name if isinstance(owner, ComputeOp) else tensor.name_hint or ""
