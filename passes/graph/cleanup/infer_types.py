"""graph-infer-types: infer the types of all results again from those of the arguments, after an edit."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Block, Operation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph import ControlOp, FusedOp, GraphOp, YieldOp, infer, shape_of
from mlc.dialects.graph.symbols import retype
from mlc.dialects.graph.types import Dim, product, tensor
from mlc.passes.rewriting import functions
from mlc.support.errors import fail


def infer_types(module: Operation) -> None:
    """Infer every result type of every function, and the functions' result types."""
    for function in functions(module):
        results = [_infer_block(block) for block in function.body.blocks]
        inputs = list(function.body.blocks[0].arg_types)
        function.function_type = FunctionType.from_lists(inputs, results[-1] or [])


def _infer_block(block: Block) -> list[Attribute] | None:
    returned: list[Attribute] | None = None
    for op in block.ops:
        if isinstance(op, GraphOp):
            _infer_op(op)
        elif isinstance(op, FusedOp):
            for argument, operand in zip(op.body.block.args, op.operands, strict=True):
                retype(argument, operand.type)
            for result, type in zip(op.results, _infer_block(op.body.block) or [], strict=True):
                retype(result, type)
        elif isinstance(op, ControlOp):
            _infer_control(op)
        elif isinstance(op, ReturnOp | YieldOp):
            returned = list(op.operand_types)
    return returned


def _infer_control(op: ControlOp) -> None:
    try:
        for region in op.regions:
            for argument, type in zip(region.block.args, op.arguments(), strict=True):
                retype(argument, type)
            _infer_block(region.block)
        op.infer_results()
    except VerifyException as error:
        fail(op, str(error))


def _infer_op(op: GraphOp) -> None:
    try:
        if op.result_given and op.operands:
            retype(op.results[0], _given_type(op))
        for result, type in zip(op.results, infer(op), strict=True):
            retype(result, type)
    except VerifyException as error:
        fail(op, str(error))


def _given_type(op: GraphOp) -> Attribute:
    """The given result type; of a reshape, with its leading size adapted to the operand's number of elements."""
    x, result = op.operands[0].type, op.type
    if op.name != "graph.reshape":
        return result
    have, want = product(shape_of(x)), product(shape_of(result))
    sizes: list[Dim] = list(shape_of(result))
    if have == want or not sizes:
        return result
    rest = product(sizes[1:])
    if isinstance(have, int) and isinstance(rest, int) and rest and have % rest == 0:
        return tensor([have // rest, *sizes[1:]], op.type.element_type)
    return result


class InferTypesPass(ModulePass):
    """
    Infer result types anew from the functions' arguments; a reshape's leading size follows a changed batch.

    `graph.relu %x : (tensor<2x4xf32>) -> tensor<1x4xf32>`  ->  `graph.relu %x : tensor<2x4xf32>`
    """

    name = "graph-infer-types"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place; an op that is invalid for its new operand types is a user error."""
        infer_types(op)
