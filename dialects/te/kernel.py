"""te.func, one kernel, and te.return."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import FunctionType, StringAttr, TensorType
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, region_def, traits_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.syntax.recipes.probe import IsolatedKernel
from mlc.dialects.te.scan import ScanOp
from mlc.dialects.te.stages import ComputeOp
from mlc.dialects.text import parse_kernel, print_kernel


@irdl_op_definition
class FuncOp(IRDLOperation):
    """
    One kernel: tensors in, stages, tensors out.

    `te.func @f(%x: tensor<4xf32>) -> tensor<4xf32> { ... te.return %y : tensor<4xf32> }`
    """

    name = "te.func"

    sym_name = prop_def(StringAttr)
    function_type = prop_def(FunctionType)
    body = region_def("single_block")

    traits = traits_def(IsolatedKernel(), SymbolOpInterface())

    @staticmethod
    def make(name: str, inputs: Sequence[Attribute], outputs: Sequence[Attribute], body: Region) -> FuncOp:
        """A kernel with the given operand and result types."""
        return FuncOp(
            properties={
                "sym_name": StringAttr(name),
                "function_type": FunctionType.from_lists(inputs, outputs),
            },
            regions=[body],
        )

    @property
    def args(self) -> Sequence[SSAValue]:
        """The kernel's operands."""
        return self.body.block.args

    @property
    def symbols(self) -> list[SSAValue]:
        """The arguments that are sizes."""
        return [a for a in self.args if not isinstance(a.type, TensorType)]

    @property
    def return_op(self) -> ReturnOp:
        """The terminator, whose operands are the kernel's results."""
        op = self.body.block.last_op
        assert isinstance(op, ReturnOp)
        return op

    @property
    def stages(self) -> list[ComputeOp]:
        """The compute stages in order, those inside of scans included."""
        found: list[ComputeOp] = []
        for op in self.body.block.ops:
            if isinstance(op, ComputeOp):
                found.append(op)
            elif isinstance(op, ScanOp):
                found += op.stages
        return found

    @property
    def scans(self) -> list[ScanOp]:
        """The scans in order."""
        return [op for op in self.body.block.ops if isinstance(op, ScanOp)]

    def verify_(self) -> None:
        last = self.body.block.last_op
        if not isinstance(last, ReturnOp):
            raise VerifyException("expected the body of te.func to end in te.return")
        if [v.type for v in last.values] != list(self.function_type.outputs.data):
            raise VerifyException(
                f"expected te.return of types {_types(self.function_type.outputs.data)}, "
                f"but got {_types(v.type for v in last.values)}"
            )
        if [a.type for a in self.args] != list(self.function_type.inputs.data):
            raise VerifyException("expected the body's arguments to have the operand types of the function")

    def print(self, printer: Printer) -> None:
        print_kernel(printer, self.sym_name, self.function_type, self.body, self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> FuncOp:
        kernel = parse_kernel(parser)
        op = FuncOp.make(kernel.name, kernel.inputs, kernel.outputs, kernel.body)
        op.attributes |= kernel.attributes
        return op


def _types(types: Iterable[Attribute]) -> str:
    return "(" + ", ".join(map(str, types)) + ")"


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """The kernel's results: `te.return %y : tensor<4xf32>`."""

    name = "te.return"
    values = var_operand_def(TensorType)
    traits = traits_def(IsTerminator())
    assembly_format = "($values^ `:` type($values))? attr-dict"
