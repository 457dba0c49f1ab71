"""`loop.call` as C99: a call of a C function, or of the one that stands for a registered name (functions.py)."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import Float32Type, FloatAttr, IndexType, IntegerAttr, IntegerType, MemRefType

from mlc.codegen.c.printer import CPrinter
from mlc.dialects import loop
from mlc.dialects.external import Argument, SizeArgument
from mlc.support.abi import call_symbol, tensor_type

_TENSOR = """\
#ifndef MLC_TENSOR_DECLARED
#define MLC_TENSOR_DECLARED
/* DLPack's DLTensor */
typedef struct mlc_tensor {
  void *data;
  int32_t device_type, device_id, rank;
  uint8_t code, bits;
  uint16_t lanes;
  const int64_t *shape, *strides;
  uint64_t byte_offset;
} mlc_tensor;
#endif
"""


def prototypes(func: loop.FuncOp) -> str:
    """The declarations of what a kernel calls; empty if it calls nothing."""
    calls = calls_of(func)
    lines = dict.fromkeys(map(_prototype, calls))
    tensor = _TENSOR if any(op.called.convention == "registered" for op in calls) else ""
    return tensor + "".join(f"{line}\n" for line in lines)


def calls_of(func: loop.FuncOp) -> list[loop.ExternCallOp]:
    """The calls of other people's functions in a kernel."""
    return [op for op in func.walk() if isinstance(op, loop.ExternCallOp)]


def parameters(op: loop.ExternCallOp) -> list[str]:
    """The C types of the arguments of a C function that is called."""
    return [_type(argument) for argument in op.called.buffers(len(op.buffers))]


def _prototype(op: loop.ExternCallOp) -> str:
    callee = op.called
    if callee.convention == "registered":
        return f"extern int32_t {call_symbol(callee.name)}(void *, const mlc_tensor *, int32_t, int32_t);"
    types = ", ".join(parameters(op)) or "void"
    return f"extern {'int' if callee.status else 'void'} {callee.name}({types});"


def _type(argument: Argument) -> str:
    if isinstance(argument, FloatAttr):
        return "float" if isinstance(argument.type, Float32Type) else "double"
    if isinstance(argument, IntegerAttr) and isinstance(argument.type, IndexType):
        return "void *"
    assert isinstance(argument.type, IntegerType)
    return "int64_t" if argument.type.width.data == 64 else "int"


def print_call(p: CPrinter, op: loop.ExternCallOp) -> None:
    """The call; a status that is not 0 is returned from the kernel."""
    callee = op.called
    names = [p.name(v) for v in op.buffers]
    if callee.convention == "registered":
        given = f"rt, {_tensors(p, op, names)}, {len(names) - op.num_outputs}, {op.num_outputs}"
        text = f"{call_symbol(callee.name)}({given})"
    else:
        text = f"{p.c_function(callee.name)}({', '.join(_given(p, op, a, names) for a in callee.buffers(len(names)))})"
    if callee.convention == "c" and not callee.status:
        p.line(f"{text};")
        return
    status = p.new("status")
    p.line(f"const int32_t {status} = {text};")
    p.line(f"if ({status}) return {status};")


def _given(p: CPrinter, op: loop.ExternCallOp, argument: Argument, names: list[str]) -> str:
    if isinstance(argument, SizeArgument):
        return f"({_type(argument)})({p.text(op.sizes[argument.number.data], op.symbols)})"
    if isinstance(argument, FloatAttr):
        text = repr(float(argument.value.data))
        return f"{text}f" if isinstance(argument.type, Float32Type) else text
    number = argument.value.data
    return names[number] if isinstance(argument.type, IndexType) else str(number)


def _tensors(p: CPrinter, op: loop.ExternCallOp, names: list[str]) -> str:
    """The name of an array of the buffers' tensors."""
    rows: list[str] = []
    for k, (v, name, sizes) in enumerate(zip(op.buffers, names, op.shapes(), strict=True)):
        t = cast("MemRefType[Any]", v.type)
        shape = p.new("shape")
        p.line(f"const int64_t {shape}[] = {{{', '.join(p.text(n, op.symbols) for n in sizes) or '0'}}};")
        code, bits = tensor_type(str(t.element_type), k in op.called.unsigned)
        rows.append(f"{{{name}, 1, 0, {t.get_num_dims()}, {code}, {bits}, 1, {shape}, 0, 0}}")
    tensors = p.new("tensors")
    p.line(f"const mlc_tensor {tensors}[] = {{{', '.join(rows)}}};")
    return tensors
