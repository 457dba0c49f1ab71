"""
The importer of ATen graphs, shared by torch.export programs and the subgraphs of torch.compile.

Numbers and sizes are not values: an argument that is a symbolic number in torch becomes a size by its expression.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import fx
from torch._ops import HigherOrderOperator
from torch.fx.node import Argument
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Region
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.attributes import GRAPH_SYMBOLS
from mlc.dialects.graph import DimExpr, name_location, tensor
from mlc.dialects.value_names import value_name
from mlc.frontends.common.builder import GraphBuilder, hoist_sources
from mlc.frontends.common.elementwise import cast
from mlc.frontends.common.model import Model, name_attrs
from mlc.frontends.common.sizes import identifier
from mlc.frontends.common.untyped import is_sequence
from mlc.frontends.common.values import Value
from mlc.frontends.torch.arrays import dtype_of, to_numpy
from mlc.frontends.torch.call import AtenCall, is_overload, module_path, op_name, source_line
from mlc.frontends.torch.guards import symbolic
from mlc.frontends.torch.numbers import SymbolicNumber
from mlc.frontends.torch.sizes import TorchSizes
from mlc.frontends.torch.table import converters
from mlc.support.errors import UnsupportedOps, UserError
from mlc.support.limits import limits

ASSERTIONS = frozenset(
    {
        "_assert_async",
        "_assert_scalar",
        "_assert_tensor_metadata",
        "sym_constrain_range",
        "sym_constrain_range_for_size",
    }
)
"""Ops that check facts which mlc has in its types; they are dropped."""
REGIONS = frozenset({"wrap_with_set_grad_enabled", "wrap_with_autocast"})
"""Calls of a subgraph whose meaning is that of the subgraph alone."""


class AtenImporter(GraphBuilder):
    """The state of one import of ATen calls."""

    def __init__(self, source: str):
        super().__init__(source)
        self.sizes = TorchSizes(source)
        self.nodes: dict[fx.Node, Any] = {}
        self.names: list[str] = []

    def argument(self, name: str, facts: torch.Tensor) -> Value:
        """A new argument of @main, of the type of a fake tensor."""
        type_ = tensor(self.sizes.shape(facts.shape), dtype_of(facts.dtype, f"input '{name}'"))
        argument = self.block.insert_arg(type_, len(self.block.args))
        argument.name_hint = value_name(identifier(name))
        argument.location = name_location(name)
        self.names.append(name)
        self.arguments[argument] = name
        return Value(argument, None, name)

    def constant(self, name: str, value: torch.Tensor) -> Value:
        """A weight, which shares the tensor's memory."""
        return Value(None, to_numpy(value, f"'{name}'"), name)

    def resolve(self, argument: Argument) -> Any:
        """An argument of a call: Values for tensors, sizes for symbolic numbers, lists of these."""
        if isinstance(argument, list | tuple):
            return [self.resolve(one) for one in argument]
        if isinstance(argument, torch.SymInt):
            return self.sizes.size(argument)
        if not isinstance(argument, fx.Node):
            return argument
        if argument in self.nodes:
            return self.nodes[argument]
        value = argument.meta.get("val")
        if isinstance(value, int | torch.SymInt):
            return self.sizes.size(value)
        if isinstance(value, float | torch.SymFloat):
            return self._number(argument, value)
        raise UserError(
            f"{self.source}: mlc does not compute {argument.name} ({argument.target}){source_line(argument)}"
        )

    def _number(self, node: fx.Node, value: float | torch.SymFloat) -> float | SymbolicNumber:
        """A float, or a SymbolicNumber, which a converter may compute at run time."""
        known = {symbol: size for symbol, size in self.sizes.values.items() if not isinstance(size, DimExpr)}
        expr: Any = symbolic(value).expr.subs(known) if isinstance(value, torch.SymFloat) else value
        return (
            float(expr) if isinstance(expr, float) or expr.is_number else SymbolicNumber(expr, self.source, node.name)
        )

    def run_graph(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> list[Any]:
        """The results of a graph on inputs; None for an input that is a number."""
        given = iter(inputs)
        for node in graph.graph.nodes:
            if node.op == "placeholder":
                value = next(given)
                if value is not None:
                    self.nodes[node] = value
            elif node.op == "call_function":
                self._call(graph, node)
            elif node.op == "get_attr":
                self._attribute(graph, node)
            elif node.op == "output":
                return [self.resolve(one) for one in node.args[0]]
        return []

    def _attribute(self, graph: fx.GraphModule, node: fx.Node) -> None:
        value = operator.attrgetter(str(node.target))(graph)
        self.nodes[node] = self.constant(str(node.target), value) if isinstance(value, torch.Tensor) else value

    def _call(self, graph: fx.GraphModule, node: fx.Node) -> None:
        if node.target is operator.getitem and node.args[0] in self.nodes:
            self._item(node)
        elif _is_number(node) or op_name(node.target) in ASSERTIONS:
            return
        elif _is_region(node):
            given = [self.resolve(one) for one in node.args]
            place = next(i for i, one in enumerate(given) if isinstance(one, fx.GraphModule))
            self.nodes[node] = self.run_graph(given[place], given[place + 1 :])
        elif _is_constant(node):
            make: Any = node.target
            self.nodes[node] = self.constant(node.name, make(*node.args, **node.kwargs))
        else:
            self._convert(node)

    def _item(self, node: fx.Node) -> None:
        of, index = node.args
        assert isinstance(of, fx.Node)
        assert isinstance(index, int)
        values = self.nodes[of]
        value = values[index] if index < len(values) else None
        if value is not None:
            self.nodes[node] = value
        elif node.users:
            what = f"result {index} of {module_path(of)} ({of.target}){source_line(of)}"
            raise UserError(f"{self.source}: mlc does not compute {what}")

    def _convert(self, node: fx.Node) -> None:
        call = AtenCall(self, node, module_path(node))
        if _is_too_large(node.meta.get("val")):
            raise call.fail(f"expected a result of at most {limits.tensor_elements} elements")
        try:
            results = converters()[call.kind](call)
            values = [results] if isinstance(results, Value) else list(results)
            facts = node.meta["val"]
            several = is_sequence(facts)
            checked = [self._checked(call, v, f) for v, f in zip(values, facts if several else [facts], strict=False)]
            self.nodes[node] = checked if several else checked[0]
        except (VerifyException, ValueError, TypeError, LookupError, ArithmeticError) as error:
            raise error if isinstance(error, UserError) else call.fail(str(error)) from error

    def _checked(self, call: AtenCall, value: Value | None, facts: torch.Tensor) -> Value | None:
        """A result cast to the dtype that torch has for it; UserError if its shape is another."""
        if value is None:
            return None
        self.sizes.learn(facts.shape, value.shape)
        shape = self.sizes.shape(facts.shape)
        if tuple(value.shape) != shape:
            raise call.fail(
                f"expected a result of shape {list(map(str, shape))}, but got {list(map(str, value.shape))}"
            )
        return cast(call, value, dtype_of(facts.dtype, "a result"))

    def model(self, names: Sequence[str], values: Sequence[Value]) -> Model:
        """The model whose outputs these are."""
        outputs = [self.materialize(value, name) for name, value in zip(names, values, strict=True)]
        self.sizes.admit_one(self.block)
        self.block.add_op(ReturnOp(*outputs))
        types = FunctionType.from_lists(self.block.arg_types, [output.type for output in outputs])
        arguments, results = name_attrs(self.names), name_attrs(names)
        main = FuncOp("main", types, Region(self.block), arg_attrs=arguments, res_attrs=results)
        if (ranges := self.sizes.attribute()) is not None:
            main.attributes[GRAPH_SYMBOLS] = ranges
        hoist_sources(self.block)
        return Model(ModuleOp([main]), self.weights)


def check_calls(graph: fx.GraphModule, source: str) -> None:
    """One error that names every call that mlc cannot compute."""
    missing = list(_missing(graph))
    if missing:
        raise UnsupportedOps(source, missing)


def _missing(graph: fx.GraphModule) -> Any:
    for node in graph.graph.nodes:
        if node.op != "call_function" or node.target is operator.getitem or _is_number(node):
            continue
        if _is_region(node):
            for one in node.args:
                if isinstance(one, fx.Node) and one.op == "get_attr":
                    inner = operator.attrgetter(str(one.target))(graph)
                    if isinstance(inner, fx.GraphModule):
                        yield from _missing(inner)
        elif (
            op_name(node.target) not in ASSERTIONS
            and op_name(node.target) not in converters()
            and not _is_constant(node)
        ):
            yield module_path(node), str(node.target), source_line(node).strip(" []")


def _is_constant(node: fx.Node) -> bool:
    """Whether a call without a converter makes a constant tensor of numbers alone, so that torch can compute it now."""
    target: Any = node.target
    if not is_overload(target) or op_name(target) in converters() or node.all_input_nodes:
        return False
    facts = node.meta.get("val")
    fixed = isinstance(facts, torch.Tensor) and _are_integers(facts.shape)
    return fixed and not _is_too_large(facts) and torch.Tag.nondeterministic_seeded not in target.tags


def _is_too_large(facts: object) -> bool:
    """Whether a tensor of fixed sizes has more elements than the limits allow."""
    if is_sequence(facts):
        return any(map(_is_too_large, facts))
    sizes = facts.shape if isinstance(facts, torch.Tensor) else ()
    return _are_integers(sizes) and math.prod(sizes) > limits.tensor_elements


def _are_integers(sizes: Iterable[object]) -> bool:
    """Whether no size is symbolic; torch declares the sizes of all shapes as integers."""
    return all(isinstance(size, int) for size in sizes)


def _is_number(node: fx.Node) -> bool:
    """Whether a call computes a number from sizes, or checks one."""
    value = node.meta.get("val")
    numbers = (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)
    if not is_overload(node.target):
        return isinstance(value, numbers) or (value is None and not _is_region(node) and node.target in _CHECKS)
    return isinstance(value, numbers) and op_name(node.target).startswith("sym_")


_CHECKS: tuple[Callable[..., Any], ...] = tuple(getattr(torch, name) for name in ("_check", "_check_is_size"))
"""torch's functions that check sizes, by name: torch has no types for them and declares one of them deprecated."""


def _is_region(node: fx.Node) -> bool:
    return isinstance(node.target, HigherOrderOperator) and str(node.target) in REGIONS
