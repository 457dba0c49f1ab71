"""
Edit an imported model from Python: `with model.edit() as graph:`.

    graph.inputs["x"], graph.outputs["y"]           SSA values by the model's own names
    graph.find(ReluOp), graph.find("conv1")         ops of a class, or of a source node
    value = graph.add(SoftmaxOp, value, axis=-1)    a new op, after its operands
    graph.constant(array)                           a constant
    graph.on_device("conv1", "npu")                 the ops of a node, or a value, are computed on a device
    graph.replace(old, value)                       all uses of a value, or of an op's result
    graph.output("probabilities", value)            the value of an output, or a new output

When the block ends, types are inferred again and the module is verified; a mismatch is a UserError.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl.dialects.builtin import FunctionType
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import DiagnosticException, VerifyException

from mlc.dialects.graph import ConstantOp, GraphOp, OnDeviceOp, ParamOp, location_name, static_shape
from mlc.dialects.graph.types import dtype_name, element_of, tensor
from mlc.passes.graph.cleanup.eliminate_dead_code import eliminate_dead_code
from mlc.passes.graph.cleanup.infer_types import infer_types
from mlc.support.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from mlc.frontends.common.model import Model


Operand: TypeAlias = "SSAValue | Operation | ArrayLike"
"""A value, an op with one result, or a number or array, which becomes a constant."""


class Editor:
    """The function @main of a model while it is edited."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.block: Block = model.main.body.block
        last = self.block.last_op
        assert isinstance(last, ReturnOp)
        self._return = last
        self.inputs: dict[str, SSAValue] = dict(zip(model.inputs, self.block.args, strict=True))
        self.outputs: dict[str, SSAValue] = dict(zip(model.outputs, last.operands, strict=True))

    def __enter__(self) -> Editor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Infer types, eliminate dead code, verify."""
        from mlc.frontends.common.model import name_attrs

        if error is not None:
            return
        main = self.model.main
        self._return.operands = list(self.outputs.values())
        main.function_type = FunctionType.from_lists(
            [a.type for a in self.block.args], [v.type for v in self.outputs.values()]
        )
        main.properties["res_attrs"] = name_attrs(list(self.outputs))
        try:
            infer_types(self.model.module)
            eliminate_dead_code(self.model.module)
            self.model.module.verify()
        except (UserError, VerifyException, DiagnosticException) as problem:
            op = getattr(problem, "op", None)
            place = f"{location_name(op) or op.name}: " if isinstance(op, Operation) else ""
            raise UserError(f"the edited model is not valid: {place}{problem}") from problem

    def find(self, what: type[Operation] | str) -> list[Any]:
        """The ops of a class, or those of a source node of this name, in order."""
        if isinstance(what, str):
            found = [op for op in self.block.walk() if location_name(op) == what]
            if not found:
                names = [name for op in self.block.walk() if (name := location_name(op)) is not None]
                raise UserError(f"expected the name of a node, but got '{what}'{did_you_mean(what, names)}")
            return found
        return [op for op in self.block.walk() if isinstance(op, what)]

    def add(self, cls: type[GraphOp], *operands: Operand, **attributes: Any) -> SSAValue:
        """The (first) result of a new op, inserted after its operands; numbers and arrays become constants."""
        first = next((v for v in operands if isinstance(v, SSAValue | Operation)), None)
        element = None if first is None else element_of(SSAValue.get(first))
        values = [v if isinstance(v, SSAValue | Operation) else self.constant(v, element) for v in operands]
        try:
            op = cls.make(*values, **attributes)
        except (VerifyException, TypeError) as error:
            raise UserError(f"{cls.name}: {error}") from error
        self._place(op)
        return op.results[0]

    def constant(self, value: ArrayLike, dtype: Attribute | None = None) -> SSAValue:
        """A constant: a small one in the text, a larger one among the weights."""
        import numpy as np

        array = np.asarray(value, None if dtype is None else dtype_name(dtype))
        if array.size <= ConstantOp.MAX_ELEMENTS:
            op: GraphOp = ConstantOp.make(array)
        else:
            op = ParamOp.make(entry=self.model.add_weight(array), result=tensor(array.shape, array.dtype.name))
        self._place(op)
        return op.results[0]

    def on_device(self, what: str | SSAValue | Operation, device: str) -> None:
        """
        Compute the results of a source node, of an op, or a value, on a device of `mlc.compile(devices=)`.

        What they are computed of is there too, up to the next such constraint; their readers may be elsewhere.
        """
        ops = self.find(what) if isinstance(what, str) else [what]
        values: list[SSAValue] = []
        for op in ops:
            values += [op] if isinstance(op, SSAValue) else op.results
        for value in values:
            uses = list(value.uses)
            placed = self.add(OnDeviceOp, value, device=device)
            for use in uses:
                use.operation.operands[use.index] = placed
            self.outputs = {name: placed if end is value else end for name, end in self.outputs.items()}

    def replace(self, old: SSAValue | Operation, new: SSAValue) -> None:
        """Replace the uses of a value (or an op's result) by another one, except by the ops that compute the latter."""
        value = SSAValue.get(old)
        behind = _above(new)
        value.replace_uses_with_if(new, lambda use: use.operation not in behind)
        self.outputs = {name: new if v is value else v for name, v in self.outputs.items()}

    def output(self, name: str, value: SSAValue) -> None:
        """Set the value of an output; a name that the model does not have adds an output."""
        self.outputs[name] = value

    def _place(self, op: Operation) -> None:
        """Insert an op after the last of its operands."""
        owners = [v.owner for v in op.operands if isinstance(v.owner, Operation)]
        inside = [o for o in (self.block.find_ancestor_op_in_block(owner) for owner in owners) if o is not None]
        last: Operation | None = None
        for owner in inside:
            if last is None or last.is_before_in_block(owner):
                last = owner
        if last is not None:
            self.block.insert_op_after(op, last)
        elif self.block.first_op is not None:
            self.block.insert_op_before(op, self.block.first_op)


def _above(value: SSAValue) -> set[Operation]:
    """The ops that compute a value, transitively."""
    found: set[Operation] = set()
    work = [value]
    while work:
        owner = work.pop().owner
        if isinstance(owner, Operation) and owner not in found:
            found.add(owner)
            work += owner.operands
    return found


def bind(model: Model, values: Mapping[str, Any]) -> None:
    """Turn inputs into weights of these values; the compiled model does not have these inputs any more."""
    import numpy as np

    from mlc.frontends.common.model import name_attrs

    names = list(model.inputs)
    block = model.main.body.block
    for name, value in values.items():
        if name not in names:
            raise UserError(f"expected the name of an input, but got '{name}'{did_you_mean(name, names)}")
        argument = block.args[names.index(name)]
        array = np.ascontiguousarray(value)
        wanted = (static_shape(argument.type), dtype_name(element_of(argument)))
        if (array.shape, array.dtype.name) != wanted:
            raise UserError(
                f"expected a value of input '{name}' of shape {wanted[0]} and dtype {wanted[1]}, "
                f"but got {array.shape} {array.dtype.name}"
            )
        param = ParamOp.make(entry=model.add_weight(array, name), result=tensor(*wanted))
        first = block.first_op
        assert first is not None
        block.insert_op_before(param, first)
        argument.replace_all_uses_with(param.results[0])
        block.erase_arg(argument)
        names.remove(name)
    main = model.main
    main.function_type = FunctionType.from_lists([a.type for a in block.args], list(main.function_type.outputs))
    main.properties["arg_attrs"] = name_attrs(names)
