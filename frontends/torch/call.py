"""One call of an ATen op during its conversion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
import torch
from numpy.typing import ArrayLike, DTypeLike
from torch import fx
from torch._ops import OpOverload
from torch.fx.node import Target

from mlc.dialects.graph import Dim, DimExpr
from mlc.frontends.common.elementwise import add, cast, iota, multiply
from mlc.frontends.common.source_node import SourceNode
from mlc.frontends.common.untyped import is_sequence
from mlc.frontends.common.values import Value, dtype_like
from mlc.frontends.torch.arrays import dtype_of
from mlc.frontends.torch.numbers import SymbolicNumber, tensor_of
from mlc.support.errors import UserError

if TYPE_CHECKING:
    from mlc.frontends.torch.importer import AtenImporter

Result: TypeAlias = "Value | Sequence[Value | None]"
Number: TypeAlias = "Value | float | DimExpr | SymbolicNumber"
"""A tensor, or a number that may be symbolic."""
Convert: TypeAlias = "Callable[[AtenCall], Result]"


class AtenCall(SourceNode):
    """One call of an ATen op: its arguments by their names in the schema."""

    def __init__(self, importer: AtenImporter, node: fx.Node, path: str):
        super().__init__(importer, path)
        self.importer: AtenImporter = importer
        self.node = node
        self.target: Any = node.target
        self._arguments = _by_name(node)

    @property
    def kind(self) -> str:
        """The op's name without its overload: `add`."""
        return op_name(self.target)

    def fail(self, message: str) -> UserError:
        """An error about this call."""
        return UserError(f"{self.importer.source}: {self.path} ({self.target}): {message}{source_line(self.node)}")

    def __getitem__(self, name: str) -> Any:
        """An argument: a Value, a number, a size, None, or a list of these."""
        return self.importer.resolve(self._arguments[name])

    def __contains__(self, name: str) -> bool:
        return name in self._arguments

    def get(self, name: str, default: Any = None) -> Any:
        """An argument; the default if the schema has none of that name, or the call gives None."""
        value = self[name] if name in self._arguments else None
        return default if value is None else value

    def integers(self, name: str, default: Any = None) -> Any:
        """An argument of integers as a list; a single integer is a list of one."""
        value = self.get(name, default)
        return list(value) if is_sequence(value) else value if value is None else [value]

    def per_axis(self, name: str, rank: int, default: Any = 1) -> list[int]:
        """An argument of one integer per axis; a single integer stands for all axes."""
        values = self.integers(name) or [default]
        return values * rank if len(values) == 1 else values

    @property
    def facts(self) -> Any:
        """The fake tensor of the (first) result."""
        value = self.node.meta["val"]
        return value[0] if is_sequence(value) else value

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes of the (first) result."""
        return self.importer.sizes.shape(self.facts.shape)

    @property
    def dtype(self) -> Any:
        """The numpy dtype of the (first) result."""
        return dtype_of(self.facts.dtype, "a result")

    def torch_dtype(self, *names: str) -> torch.dtype:
        """The dtype to which torch promotes these arguments."""
        first, *others = (_facts(self._arguments[name]) for name in names)
        return torch.result_type(first, others[0]) if others else first.dtype

    def promoted(self, *names: str, dtype: DTypeLike | None = None) -> list[Value]:
        """Arguments, tensors or numbers, cast to one dtype: the one given, or the one torch promotes to."""
        common: DTypeLike = dtype_of(self.torch_dtype(*names), "operands") if dtype is None else dtype
        return [self.typed(self[name], common) for name in names]

    def typed(self, value: Number, dtype: DTypeLike) -> Value:
        """A tensor cast to a dtype, or a number as a constant of it."""
        if isinstance(value, Value):
            return cast(self, value, dtype)
        if isinstance(value, DimExpr | SymbolicNumber):
            return cast(self, tensor_of(self, value) if isinstance(value, SymbolicNumber) else self.array(value), dtype)
        return self.array(np.array(value).astype(dtype))

    def array(self, array: ArrayLike | DimExpr | SymbolicNumber, like: Value | None = None) -> Value:
        """A constant, with the element type of `like` if given; a symbolic number is computed at run time."""
        if isinstance(array, DimExpr | SymbolicNumber):
            return (
                self.typed(array, np.int64 if like is None else dtype_like(like))
                if like is not None or isinstance(array, SymbolicNumber)
                else super().array(array)
            )
        return super().array(array, like)

    def counted(self, count: Dim, start: Dim = 0, by: int = 1) -> Value:
        """`count` integers `start`, `start + by`, ..; the count and the start may be symbolic."""
        if isinstance(count, int) and isinstance(start, int):
            return self.array(start + by * np.arange(count, dtype=np.int64))
        return add(self, multiply(self, iota(self, (count,), 0), by), start)

    def tensor(self, name: str) -> Value:
        """An argument that is a tensor; integers are cast to the result's dtype if that is a float."""
        value = self[name]
        integral = np.dtype(dtype_like(value)).kind in "iub"
        return cast(self, value, self.dtype) if integral and self.dtype.kind in "fV" else value

    def used(self, index: int) -> bool:
        """Whether a result is read."""
        return any(user.args[1] == index for user in self.node.users)


def op_name(target: Target) -> str:
    """The name of an ATen op without its overload; '' for other targets."""
    return schema_of(target).name.removeprefix("aten::") if is_overload(target) else ""


def is_overload(target: object) -> TypeGuard[OpOverload[..., Any]]:
    """Whether the target of a call is an op, and not a Python function."""
    return isinstance(target, OpOverload)


def schema_of(op: OpOverload[..., Any]) -> torch.FunctionSchema:
    """The schema of an op: its name and its arguments."""
    return op._schema  # pyright: ignore[reportPrivateUsage] torch has no public name for it


def _by_name(node: fx.Node) -> dict[str, Any]:
    """The arguments of a call by their names in the op's schema, defaults included."""
    target: Any = node.target
    result: dict[str, Any] = {}
    for index, argument in enumerate(target._schema.arguments):
        given = node.args[index] if index < len(node.args) else argument.default_value
        result[argument.name] = node.kwargs.get(argument.name, given)
    return result


_STAND_INS: dict[type, float] = {torch.SymInt: 1, torch.SymFloat: 1.0, torch.SymBool: True}
"""The type of a symbolic number -> a number of that type."""


def _facts(argument: object) -> Any:
    """The fake tensor or the number of an argument; for a symbolic number, a number of its type."""
    value: object = argument.meta["val"] if isinstance(argument, fx.Node) else argument
    return _STAND_INS.get(type(value), value)


def source_line(node: fx.Node) -> str:
    """The line of the user's code that made a call: ` [net.py:12: y = torch.svd(x)]`."""
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
    """The path of the module that made a call, and the call's name: `encoder.layer.0/linear_3`."""
    stack: dict[str, Any] = node.meta.get("nn_module_stack") or {}
    where = str(list(stack.values())[-1][0]) if stack else ""
    for prefix in ("L['self'].", "L__self__."):
        where = where.removeprefix(prefix)
    where = "" if where in ("L['self']", "L__self__") else where
    return f"{where}/{node.name}" if where else node.name


def widened(convert: Callable[[AtenCall, Value], Value]) -> Callable[[AtenCall], Value]:
    """A function of one tensor that takes several ops: on f16 and bf16 it is computed in f32 and rounded once."""

    def apply(step: AtenCall) -> Value:
        x = step.tensor("self")
        narrow = x.dtype_name in ("float16", "bfloat16")
        return cast(step, convert(step, cast(step, x, np.float32) if narrow else x), step.dtype)

    return apply


__all__ = [
    "AtenCall",
    "Convert",
    "Result",
    "is_overload",
    "module_path",
    "op_name",
    "schema_of",
    "source_line",
    "widened",
]
