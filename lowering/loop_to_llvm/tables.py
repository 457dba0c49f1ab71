"""Tables of constants: private globals of the kernel's module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import llvm
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, SymbolRefAttr, TensorType, i8

from mlc.dialects import loop
from mlc.lowering.loop_to_llvm.builder import PTR
from mlc.support.alignment import ALIGNMENT

if TYPE_CHECKING:
    from mlc.lowering.loop_to_llvm.convert import FunctionLowering


def lower_table(f: FunctionLowering, op: loop.TableOp) -> None:
    """`loop.table` -> a global constant of the kernel's module, and its address."""
    data = op.bytes() or b"\0"
    name = f"{f.kernel.name}.table{len(f.kernel.tables)}"
    t = llvm.LLVMArrayType(len(data), i8)
    value = DenseIntOrFPElementsAttr(TensorType(i8, [len(data)]), BytesAttr(data))
    f.kernel.tables.append(llvm.GlobalOp(t, name, "private", value=value, constant=True, alignment=ALIGNMENT))
    f.buffers[op.result] = f.b.op(llvm.AddressOfOp, [], PTR, {"global_name": SymbolRefAttr(name)})
