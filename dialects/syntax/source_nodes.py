"""
Which nodes of the source model an operation computes, and text that shows them.

A node's name is an operation's location, `loc("conv1")`; several are a fused one, `loc(fused["conv1", "relu1"])`. Calls
of kernels have their nodes in the attribute `origins`.
"""

from collections.abc import Iterable, Iterator
from io import StringIO

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FusedLoc,
    ModuleOp,
    NameLoc,
    NoneAttr,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Operation
from xdsl.printer import Printer

from mlc.support.diagnostics import one_line

_KERNELS = ("te.func", "loop.func")
_CALLS = ("graph.call", "runtime.call")
_SHOWN = 8
"""How many nodes a text names."""
_LISTED = 16
"""How many kernels a header names."""


def location_names(location: Attribute) -> Iterator[str]:
    """The names in a location, in order."""
    if isinstance(location, NameLoc):
        yield location.desc.data
    elif isinstance(location, CallSiteLoc):
        yield from location_names(location.callee)
        yield from location_names(location.caller)
    elif isinstance(location, FusedLoc) and isinstance(location.locations, ArrayAttr):
        for one in location.locations.data:
            yield from location_names(one)


def origins_of(op: Operation) -> tuple[str, ...]:
    """The names of the source nodes in an operation's `origins`."""
    origins = op.attributes.get("origins") or op.properties.get("origins")
    if isinstance(origins, ArrayAttr):
        return tuple(name.data for name in origins.data if isinstance(name, StringAttr))
    return ()


def source_nodes(op: Operation) -> tuple[str, ...]:
    """The source nodes that an operation computes: its `origins`, or the names in its location."""
    return origins_of(op) or tuple(dict.fromkeys(location_names(op.location)))


def nodes_location(nodes: Iterable[str]) -> NameLoc | FusedLoc | None:
    """The location that stands for source nodes; None for none."""
    names = [NameLoc(StringAttr(name), NoneAttr()) for name in dict.fromkeys(nodes)]
    if len(names) < 2:
        return names[0] if names else None
    return FusedLoc(ArrayAttr[Attribute](names), NoneAttr())


def nodes_text(nodes: tuple[str, ...]) -> str:
    """`conv1, relu1 and 3 more`."""
    more = len(nodes) - _SHOWN
    return ", ".join(map(one_line, nodes[:_SHOWN])) + (f" and {more} more" if more > 0 else "")


def kernels_of(module: ModuleOp) -> dict[str, tuple[str, ...]]:
    """The kernels that a module defines, on any level, and the source nodes that each computes."""
    kernels = {name: source_nodes(op) for op in module.body.ops if (name := _kernel_name(op)) is not None}
    called: dict[str, list[str]] = {}
    for function in module.body.ops:
        if function.name == "func.func" and _kernel_name(function) is None:
            for op in function.walk():
                callee = op.properties.get("callee") if op.name in _CALLS else None
                if isinstance(callee, SymbolRefAttr):
                    called.setdefault(callee.string_value(), []).extend(source_nodes(op))
    return {name: tuple(dict.fromkeys((*called.get(name, ()), *nodes))) for name, nodes in kernels.items()}


def symbol_name(op: Operation) -> str | None:
    """The name of a function; None for an op that is no symbol."""
    name = op.properties.get("sym_name") or op.attributes.get("sym_name")
    return name.data if isinstance(name, StringAttr) else None


def _kernel_name(op: Operation) -> str | None:
    is_kernel = op.name in _KERNELS or (op.name == "func.func" and "graph.kernel" in op.attributes)
    if op.name == "llvm.func":
        is_kernel = bool(op.regions[0].blocks) and "mlc.workspace_bytes" in op.attributes
    return symbol_name(op) if is_kernel else None


def kernels_text(module: ModuleOp) -> str:
    """A comment line for each kernel of a module: `// kernel @dense_relu_0a1b2c3d, nodes: fc1, relu1`."""
    kernels = kernels_of(module)
    lines = [f"// kernel @{name}{_nodes_after(nodes)}\n" for name, nodes in list(kernels.items())[:_LISTED]]
    more = len(kernels) - _LISTED
    return "".join(lines) + (f"// and {more} more kernel{'s' * (more > 1)}\n" if more > 0 else "")


def _nodes_after(nodes: tuple[str, ...]) -> str:
    return f", node{'s' * (len(nodes) > 1)}: {nodes_text(nodes)}" if nodes else ""


class NodeComments(Printer):
    """A printer that ends an operation with its source nodes: `%0 = graph.relu %x : tensor<4xf32>  // node: relu1`."""

    def print_op(self, op: Operation) -> None:
        super().print_op(op)
        if nodes := source_nodes(op):
            self.print_string(f"  // {_nodes_after(nodes).removeprefix(', ')}")


def ir_text(op: Operation, *, nodes: bool = False, locations: bool = False) -> str:
    """An operation as text; with `nodes` its source nodes in comments, with `locations` its locations."""
    stream = StringIO()
    printer = NodeComments if nodes else Printer
    printer(stream=stream, print_debuginfo=locations).print_op(op)
    return stream.getvalue()
