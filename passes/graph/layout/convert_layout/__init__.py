"""
graph-convert-layout: pictures in the layout that the user asks for, transposes at the borders only.

The listed ops compute in the given layouts. Ops between and around them - pointwise ops, pools, reductions,
concatenations, slices, transposes - compute in the order of axes of their operands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import FusedOp, TransposeOp
from mlc.dialects.graph.base import AttrValue
from mlc.passes.graph.cleanup.eliminate_dead_code import eliminate_dead_code
from mlc.passes.graph.layout.convert_layout.orders import Orders, inverse
from mlc.passes.graph.layout.convert_layout.rules import LAYOUTS, RULES, Pictured, Results, order_to, picture_in_order
from mlc.passes.rewriting import functions, is_accepted, outer_blocks
from mlc.support.errors import did_you_mean, fail

Desired: TypeAlias = dict[type[Operation], tuple[str, str | None]]
"""Op class -> the layout of pictures, and that of kernels or None."""


@dataclass(frozen=True)
class ConvertLayoutPass(ModulePass):
    """
    Compute the listed ops in the layouts given, and everything around them in the same order of axes.

    `graph.conv2d %x, %w`  ->  `graph.transpose (graph.conv2d (graph.transpose %x), %w {data_layout = "NHWC"})`

    `desired=conv2d:NHWC` or `conv2d:NHWC:HWIO`, several with commas; TVM's ConvertLayout. Transposes of the
    model cancel with those that the pass makes.
    """

    name = "graph-convert-layout"
    desired: tuple[str, ...] = ("conv2d:NCHW",)
    """`op:layout` or `op:layout:kernel layout`."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        desired: Desired = dict(self._parsed(op, text) for text in self.desired)
        if any(isinstance(inner, FusedOp) for inner in op.walk()):
            fail(op, "expected a module without graph.fused; run graph-defuse-ops, or convert layouts before fusing")
        for function in functions(op):
            for block in list(outer_blocks(function)):
                _Converter(block, desired).run()
        eliminate_dead_code(op)

    @staticmethod
    def _parsed(module: ModuleOp, text: str) -> tuple[type[Pictured], tuple[str, str | None]]:
        """One element of `desired`."""
        name, *layouts = text.split(":")
        known = {cls.name.removeprefix("graph."): cls for cls in LAYOUTS}
        if (cls := known.get(name)) is None:
            fail(module, f"expected an op among {', '.join(known)}, but got '{name}'{did_you_mean(name, known)}")
        data, kernel = layouts[0] if layouts else "", layouts[1] if len(layouts) > 1 else None
        if sorted(data) != sorted("NCHW"):
            remedy = "; graph-alter-op-layout makes blocks" if any(c.isdigit() for c in data) else ""
            fail(module, f"expected a layout of {name} like NHWC, but got '{data}'{remedy}")
        if len(layouts) > 2 or (kernel is not None and "kernel_layout" not in cls.declared):
            fail(module, f"expected {name}:layout, but got '{text}'")
        if kernel is not None and sorted(kernel) != sorted("OIHW"):
            fail(module, f"expected a kernel layout of {name} like HWIO, but got '{kernel}'")
        return cls, (data, kernel)


class _Converter:
    """One run over one block."""

    def __init__(self, block: Block, desired: Desired) -> None:
        self.block = block
        self.desired = desired
        self.orders = Orders()

    def run(self) -> None:
        """Convert the ops in order."""
        orders = self.orders
        orders.carried |= feeding(self.block, self.desired)
        for op in list(self.block.ops):
            orders.at = op
            results = self.convert(op)
            if results is None:
                self.keep(op)
                continue
            for old, (order, new) in zip(op.results, results, strict=True):
                new.name_hint = new.name_hint or old.name_hint
                if order not in orders.of.get(old, {}):
                    orders.set(old, order, new)
                orders.carried.add(old)

    def convert(self, op: Operation) -> Results:
        """The values that replace the op's results, and their orders; None where the op stays."""
        if type(op) in self.desired and isinstance(op, Pictured) and (results := self.heavy(op)) is not None:
            return results if is_accepted(self.heavy, op) else None
        if not any(value in self.orders.carried for value in (*op.operands, *op.results)):
            return None
        if isinstance(op, TransposeOp):
            x = op.operands[0]
            # Axis j of the result is axis axes[j] of x: an order of x is one of the result.
            places = inverse(op.axes)
            known = {tuple(places[axis] for axis in order): new for order, new in self.orders.known(x).items()}
            self.orders.of[op.results[0]] = known
            return [next(iter(known.items()))]
        return None if type(op) in self.desired else RULES.first(op, self.orders)

    def heavy(self, op: Pictured) -> Results:
        """A listed op in the layout given."""
        data, kernel = self.desired[type(op)]
        name = getattr(op, LAYOUTS[type(op)])
        if len(name) != 4:
            return None
        weight: SSAValue | None = None
        changed: dict[str, AttrValue] = {}
        if kernel is not None and (own := getattr(op, "kernel_layout", kernel)) != kernel:
            if len(own) != 4:
                return None
            plain = self.orders.plain(op.operands[1])
            weight = self.orders.make(TransposeOp, plain, axes=order_to(own, kernel))
            changed = {"kernel_layout": kernel}
        return picture_in_order(op, self.orders, order_to(name, data), weight, **changed)

    def keep(self, op: Operation) -> None:
        """Give an op, and the ops of its regions, their operands in the original order."""
        inside = [inner for region in op.regions for inner in region.walk()] if op.regions else []
        for reader in (op, *inside):
            for index, operand in enumerate(reader.operands):
                if operand in self.orders.of and (plain := self.orders.plain(operand)) is not operand:
                    reader.operands[index] = plain


def feeding(block: Block, desired: Desired) -> set[SSAValue]:
    """Values that the picture of a listed op is computed from by ops that have rules."""
    found: set[SSAValue] = set()
    for op in reversed(list(block.ops)):
        if type(op) in desired:
            found.add(op.operands[0])
        elif (type(op) in RULES or isinstance(op, TransposeOp)) and any(result in found for result in op.results):
            found.update(value for value in op.operands if not isinstance(value.owner, Block))
    return found


__all__ = ["ConvertLayoutPass"]
