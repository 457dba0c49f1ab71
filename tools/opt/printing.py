"""Printing a module as text, with large constants elided on request."""

from dataclasses import dataclass, field
from io import StringIO
from typing import Any, TypeAlias, cast

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, DenseArrayBase, DenseIntOrFPElementsAttr, IntegerType, ModuleOp
from xdsl.ir import Attribute
from xdsl.printer import Printer

from mlc.dialects.syntax.printer import SourcePrinter
from mlc.dialects.syntax.source_nodes import NodeComments
from mlc.support.display.highlight import ansi

_Array: TypeAlias = "DenseArrayBase[AnyFloat | IntegerType]"


@dataclass(eq=False, repr=False)
class ElidingPrinter(SourcePrinter):
    """Prints a constant of more than `elide_above` elements as `dense_resource<__elided__>`."""

    elide_above: int = field(default=0)

    def print_attribute(self, attribute: Attribute) -> None:
        if isinstance(attribute, DenseIntOrFPElementsAttr) and self._is_large(attribute):
            self.print_string("dense_resource<__elided__> : ")
            self.print_attribute(attribute.type)
        elif isinstance(attribute, DenseArrayBase) and len(cast("_Array", attribute)) > self.elide_above:
            self.print_string("array<")
            self.print_attribute(cast("_Array", attribute).elt_type)
            self.print_string(": ...>")
        else:
            super().print_attribute(cast("Attribute", attribute))

    def _is_large(self, attribute: DenseIntOrFPElementsAttr) -> bool:
        return len(attribute) > self.elide_above and not attribute.is_splat()


class ElidingNodeComments(NodeComments, ElidingPrinter):
    """Leaves out large constants, and ends operations with their source nodes."""

    remembers_functions = False


@dataclass(frozen=True)
class Printing:
    """How mlc-opt prints: the flags of the command line."""

    generic: bool = False
    no_properties: bool = False
    debuginfo: bool = False
    highlight: bool = False
    elide_above: int | None = None
    nodes: bool = False
    """Whether to print the source nodes of ops as comments."""

    def text(self, module: ModuleOp, ctx: Context | None = None) -> str:
        """The module as text, without a line break at its end."""
        stream = StringIO()
        printer = self._printer(stream)
        printer.print_op(module)
        if ctx is not None:
            printer.print_metadata(ctx.loaded_dialects)
        return ansi(stream.getvalue()) if self.highlight else stream.getvalue()

    def _printer(self, stream: StringIO) -> Printer:
        options: dict[str, Any] = {
            "stream": stream,
            "print_generic_format": self.generic,
            "print_properties_as_attributes": self.no_properties,
            "print_debuginfo": self.debuginfo,
        }
        if self.elide_above is not None:
            eliding = ElidingNodeComments if self.nodes else ElidingPrinter
            return eliding(**options, elide_above=self.elide_above)
        return NodeComments(**options) if self.nodes else SourcePrinter(**options)
