"""One node of a source graph (an ONNX node, a call of an ATen op) under conversion: the means to emit graph ops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph import CastOp, GraphOp
from mlc.dialects.graph.dims import DimExpr
from mlc.frontends.common.values import Value, dtype_like
from mlc.support.errors import UserError

if TYPE_CHECKING:
    from mlc.frontends.common.builder import GraphBuilder


class NeedsValues(UserError):
    """
    The import must know what only the data says: a value, a size or a rank. The vm imports again when it is there.

    `inputs` are the names of the model's inputs on whose values it depends, as far as these are known; `node` is the
    index of the top-level node that needs it, -1 for an input.
    """

    def __init__(self, message: str, inputs: set[str], node: int = -1):
        super().__init__(message)
        self.inputs, self.node = inputs, node


class NeedsSizes(ValueError):
    """An op met a value whose size only the data says; the import of the node makes NeedsValues of it."""


class SourceNode(ABC):
    """One node of a source graph; `path` is its name in messages and locations."""

    def __init__(self, importer: GraphBuilder, path: str) -> None:
        self.importer = importer
        self.path = path

    @property
    @abstractmethod
    def kind(self) -> str:
        """The op's name in the source, without its domain or overload."""

    @abstractmethod
    def fail(self, message: str) -> UserError:
        """An error about this node."""

    def known(self, value: Value, what: str) -> Any:
        """A value as an array; NeedsValues if it is not known at import."""
        if self.importer.computed(value) is None:
            if reason := self.importer.why_unknown(value):
                raise self.fail(f"{reason}; give their ranges with symbols=, or the inputs' sizes with shapes=")
            error = self.fail(f"expected {what} to be constant, but it depends on the model's input")
            raise NeedsValues(str(error), self.importer.sources(value)) from None
        return value.array

    def emit(self, op: type[GraphOp], *operands: Value, **attrs: Any) -> Value:
        """The (first) result of an op on values; `attrs` are the attributes of the op's record."""
        return self.emit_all(op, *operands, **attrs)[0]

    def emit_all(self, op: type[GraphOp], *operands: Value, **attrs: Any) -> list[Value]:
        """The results of an op on values: a new op, or arrays if everything is small and constant."""
        try:
            return self.importer.emit(op, operands, attrs, self.path)
        except VerifyException as error:
            raise self.fail(str(error)) from error

    def array(self, array: ArrayLike | DimExpr, like: Value | None = None) -> Value:
        """A constant, with the element type of `like` if given; sizes that are open are size expressions."""
        array = np.asarray(array)
        if array.dtype == object and not any(isinstance(v, DimExpr) for v in array.reshape(-1)):
            array = array.astype(np.int64)
        if array.dtype == object and like is not None and np.dtype(dtype_like(like)) != np.int64:
            return self.emit(CastOp, self.array(array), dtype=np.dtype(dtype_like(like)))
        if array.dtype != object and like is not None:
            array = array.astype(dtype_like(like))
        return Value(None, array, self.importer.fresh(self.path))
