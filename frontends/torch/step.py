"""One call of an ATen op during its conversion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import onnx
import torch
from torch import fx

from mlc.dialects.graph import DimExpr
from mlc.frontends.onnx.node import Node, UseBody, Value, converters, dtype_like
from mlc.frontends.onnx.tools import add, cast, iota, multiply
from mlc.frontends.torch.arrays import dtype_of
from mlc.frontends.torch.numbers import Number, tensor_of
from mlc.support.errors import UserError

if TYPE_CHECKING:
    from mlc.frontends.torch.program import Program

Result: TypeAlias = "Value | Sequence[Value | None]"
Convert: TypeAlias = "Callable[[Step], Result]"

OPSET = 20
"""Of the ONNX nodes whose converters an ATen op shares."""


class Step(Node):
    """One call of an ATen op: its arguments by their names in the schema, and the means to emit graph ops."""

    def __init__(self, program: Program, node: fx.Node, path: str):
        self.program = self.importer = program
        self.call = node
        self.path = path
        self.inputs = []
        self.opsets = {"": OPSET}
        self.opset = OPSET
        self.target: Any = node.target
        self._arguments = _by_name(node)

    @property
    def kind(self) -> str:
        """The op's name without its overload: `add`."""
        return op_name(self.target)

    def fail(self, message: str) -> UserError:
        """An error about this call."""
        return UserError(f"{self.importer.source}: {self.path} ({self.target}): {message}{source_line(self.call)}")

    def __getitem__(self, name: str) -> Any:
        """An argument: a Value, a number, a size, None, or a list of these."""
        return self.program.resolve(self._arguments[name])

    def __contains__(self, name: str) -> bool:
        return name in self._arguments

    def get(self, name: str, default: Any = None) -> Any:
        """An argument; the default if the schema has none of that name, or the call gives None."""
        value = self[name] if name in self._arguments else None
        return default if value is None else value

    def integers(self, name: str, default: Any = None) -> Any:
        """An argument of integers, as a list; one integer is a list of one."""
        value = self.get(name, default)
        return list(value) if isinstance(value, list | tuple) else value if value is None else [value]

    def per_axis(self, name: str, rank: int, default: Any = 1) -> list[int]:
        """An argument of one integer an axis, of which one may stand for all."""
        values = self.integers(name) or [default]
        return values * rank if len(values) == 1 else values

    @property
    def facts(self) -> Any:
        """What torch knows about the (first) result: a fake tensor."""
        value = self.call.meta["val"]
        return value[0] if isinstance(value, list | tuple) else value

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes of the (first) result."""
        return self.program.sizes.shape(self.facts.shape)

    @property
    def dtype(self) -> Any:
        """The numpy dtype of the (first) result."""
        return dtype_of(self.facts.dtype, "a result")

    def torch_dtype(self, *names: str) -> torch.dtype:
        """The dtype to which torch promotes these arguments."""
        first, *others = (_facts(self._arguments[name]) for name in names)
        return torch.result_type(first, others[0]) if others else first.dtype

    def promoted(self, *names: str, dtype: Any = None) -> list[Value]:
        """These arguments, tensors or numbers, with elements of one type: the one given, or what torch promotes to."""
        dtype = dtype_of(self.torch_dtype(*names), "operands") if dtype is None else dtype
        return [self.typed(self[name], dtype) for name in names]

    def typed(self, value: Any, dtype: Any) -> Value:
        """A tensor or a number with elements of a type."""
        if isinstance(value, Value):
            return cast(self, value, dtype)
        if isinstance(value, DimExpr | Number):
            return cast(self, tensor_of(self, value) if isinstance(value, Number) else self.array(value), dtype)
        return self.array(np.array(value).astype(dtype))

    def array(self, array: Any, like: Value | None = None) -> Value:
        """A constant, with the element type of `like` if given; of a size that is open, a tensor computed from it."""
        if isinstance(array, DimExpr | Number):
            return (
                self.typed(array, np.int64 if like is None else dtype_like(like))
                if like is not None or isinstance(array, Number)
                else super().array(array)
            )
        return super().array(array, like)

    def counted(self, count: Any, start: Any = 0, by: int = 1) -> Value:
        """The integers `start`, `start + by`, ..; how many, and the first, may be open sizes."""
        if isinstance(count, int) and isinstance(start, int):
            return self.array(start + by * np.arange(count, dtype=np.int64))
        return add(self, multiply(self, iota(self, (count,), 0), by), start)

    def tensor(self, name: str) -> Value:
        """An argument that is a tensor, with elements of the result's type where that is a float and its own is not."""
        value = self[name]
        integral = np.dtype(dtype_like(value)).kind in "iub"
        return cast(self, value, self.dtype) if integral and self.dtype.kind in "fV" else value

    def used(self, index: int) -> bool:
        """Whether somebody reads a result."""
        return any(user.args[1] == index for user in self.call.users)

    def onnx(self, op: str, inputs: Sequence[Value | None], outputs: int = 1, **attrs: Any) -> list[Value]:
        """The results of an ONNX op, by its converter."""
        names = [f"{self.path}:{i}" for i in range(outputs)]
        given = ["" if value is None else value.name for value in inputs]
        proto = onnx.helper.make_node(op, given, names, name=self.path, **attrs)
        node = Node(self.importer, proto, self.path, list(inputs), self.opsets)
        try:
            results = converters()["", op](node)
        except UseBody as error:
            raise self.fail(f"mlc has no converter of {op} with {attrs}") from error
        return [results] if isinstance(results, Value) else list(results)


def op_name(target: Any) -> str:
    """The name of an ATen op without its overload; '' of anything else."""
    return target._schema.name.removeprefix("aten::") if isinstance(target, torch._ops.OpOverload) else ""


def _by_name(node: fx.Node) -> dict[str, Any]:
    """The arguments of a call by their names in the op's schema, defaults included."""
    target: Any = node.target
    result: dict[str, Any] = {}
    for index, argument in enumerate(target._schema.arguments):
        given = node.args[index] if index < len(node.args) else argument.default_value
        result[argument.name] = node.kwargs.get(argument.name, given)
    return result


def _facts(argument: Any) -> Any:
    """A fake tensor or a number; of a symbolic number, one of its type."""
    value = argument.meta["val"] if isinstance(argument, fx.Node) else argument
    return {torch.SymInt: 1, torch.SymFloat: 1.0, torch.SymBool: True}.get(type(value), value)


def source_line(node: fx.Node) -> str:
    """Where in the user's code a call stands: ` [net.py:12: y = torch.svd(x)]`."""
    trace = (node.meta.get("stack_trace") or "").strip().splitlines()
    places = [index for index, line in enumerate(trace) if line.lstrip().startswith("File ")]
    own = [index for index in places if "/torch/nn/" not in trace[index] and "/torch/_" not in trace[index]]
    if not places:
        return ""
    index = (own or places)[-1]
    file, line, *_ = trace[index].strip().removeprefix("File ").split(", ")
    code = f": {trace[index + 1].strip()}" if index + 1 < len(trace) and index + 1 not in places else ""
    return f" [{file.strip(chr(34)).rpartition('/')[2]}:{line.removeprefix('line ')}{code}]"


def module_path(node: fx.Node) -> str:
    """The module that a call stands in, and the call's name: `encoder.layer.0/linear_3`."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    where = str(stack[-1][0]) if stack else ""
    for prefix in ("L['self'].", "L__self__."):
        where = where.removeprefix(prefix)
    where = "" if where in ("L['self']", "L__self__") else where
    return f"{where}/{node.name}" if where else node.name


def widened(convert: Callable[[Step, Value], Value]) -> Callable[[Step], Value]:
    """A function of one tensor in several ops: of narrow floats it is computed in f32, and rounded once."""

    def apply(step: Step) -> Value:
        x = step.tensor("self")
        narrow = x.dtype_name in ("float16", "bfloat16")
        return cast(step, convert(step, cast(step, x, np.float32) if narrow else x), step.dtype)

    return apply


__all__ = ["Convert", "Result", "Step", "module_path", "op_name", "source_line", "widened"]
