"""LLVM IR text of types and constants, and the type suffixes of overloaded intrinsics."""

import struct
from collections.abc import Callable, Sequence

from xdsl.dialects import builtin, llvm
from xdsl.ir import Attribute

from mlc.dialects import llvm_ext
from mlc.dialects.constants import numbers
from mlc.support.errors import UserError

_FLOATS: dict[type[Attribute], tuple[str, str]] = {
    builtin.Float16Type: ("half", "f16"),
    builtin.BFloat16Type: ("bfloat", "bf16"),
    builtin.Float32Type: ("float", "f32"),
    builtin.Float64Type: ("double", "f64"),
}


def type_text(type_: Attribute) -> str:
    """Print a type: `vector<16xf32>` -> `<16 x float>`."""
    cls = type(type_)
    if cls in _FLOATS:
        return _FLOATS[cls][0]
    if isinstance(type_, builtin.IntegerType):
        return f"i{type_.width.data}"
    if isinstance(type_, builtin.IndexType):
        return "i64"
    if isinstance(type_, builtin.VectorType):
        if len(shape := type_.get_shape()) == 1:
            return f"<{shape[0]} x {type_text(type_.element_type)}>"
    if isinstance(type_, llvm.LLVMPointerType):
        space = type_.addr_space
        return f"ptr addrspace({space.data})" if isinstance(space, builtin.IntAttr) and space.data else "ptr"
    if isinstance(type_, llvm.LLVMArrayType):
        return f"[{type_.size.data} x {type_text(type_.type)}]"
    if isinstance(type_, llvm.LLVMStructType):
        return "{" + ", ".join(type_text(t) for t in type_.types) + "}"
    if isinstance(type_, llvm.LLVMVoidType):
        return "void"
    if isinstance(type_, llvm_ext.X86AMXType):
        return "x86_amx"
    raise UserError(f"expected a type that LLVM has, but got {type_}")


def suffix(type_: Attribute) -> str:
    """Return how an overloaded intrinsic's name spells a type: `vector<16xf32>` -> `v16f32`."""
    if (known := _FLOATS.get(type(type_))) is not None:
        return known[1]
    if isinstance(type_, builtin.VectorType):
        return f"v{type_.get_shape()[0]}{suffix(type_.element_type)}"
    if isinstance(type_, llvm.LLVMPointerType):
        space = type_.addr_space
        return f"p{space.data if isinstance(space, builtin.IntAttr) else 0}"
    return type_text(type_)


def float_text(value: float, type_: Attribute) -> str:
    """Print a float constant exactly, in the hexadecimal form of its type."""
    if isinstance(type_, builtin.Float16Type):
        return f"0xH{struct.unpack('<H', struct.pack('<e', _rounded(value, '<e')))[0]:04X}"
    if isinstance(type_, builtin.BFloat16Type):
        return f"0xR{_bfloat_bits(value):04X}"
    if isinstance(type_, builtin.Float32Type):
        value = _rounded(value, "<f")
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _rounded(value: float, format_: str) -> float:
    """Round to a narrower format (`<f`, `<e`); what is too large becomes infinite."""
    try:
        return struct.unpack(format_, struct.pack(format_, value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _bfloat_bits(value: float) -> int:
    bits = struct.unpack("<I", struct.pack("<f", _rounded(value, "<f")))[0]
    if value != value:
        return bits >> 16 | 0x40
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def _scalar_text(type_: Attribute) -> Callable[[int | float], str]:
    if type(type_) in _FLOATS:
        return lambda value: float_text(value, type_)
    if type_ == builtin.i1:
        return lambda value: "true" if value else "false"
    return lambda value: str(int(value))


def constant_text(value: Attribute, type_: Attribute) -> str:
    """Print a constant without its type: an integer, a float, a vector or an array of these, bytes."""
    if isinstance(value, builtin.IntegerAttr):
        return _scalar_text(type_)(value.value.data)
    if isinstance(value, builtin.FloatAttr):
        return float_text(value.value.data, type_)
    if isinstance(value, builtin.StringAttr):
        return bytes_text(value.data.encode())
    if isinstance(value, builtin.DenseIntOrFPElementsAttr):
        return _dense_text(value, type_)
    raise UserError(f"expected a constant of type {type_}, but got {value}")


def _dense_text(value: builtin.DenseIntOrFPElementsAttr, type_: Attribute) -> str:
    element = value.get_element_type()
    scalar, name, values = _scalar_text(element), type_text(element), numbers(value)
    if value.is_splat():
        first = values[0]
        if first == 0 and scalar(first) in ("0", "false", "0x0000000000000000", "0xH0000", "0xR0000"):
            return "zeroinitializer"
        if isinstance(type_, builtin.VectorType):
            return f"splat ({name} {scalar(first)})"
    if isinstance(type_, builtin.VectorType):
        return "<" + ", ".join(f"{name} {scalar(v)}" for v in values) + ">"
    return array_text(values, type_, scalar, name)


def array_text(values: Sequence[int | float], type_: Attribute, scalar: Callable[..., str], name: str) -> str:
    """Print the values of a nested array, row-major; an array of bytes as a string."""
    if isinstance(type_, llvm.LLVMArrayType):
        count = type_.size.data
        if type_.type == builtin.i8:
            return bytes_text(bytes(int(v) & 255 for v in values))
        step = len(values) // count if count else 0
        rows = [values[i * step : (i + 1) * step] for i in range(count)]
        inner = type_text(type_.type)
        return "[" + ", ".join(f"{inner} {array_text(r, type_.type, scalar, name)}" for r in rows) + "]"
    return scalar(values[0])


def bytes_text(data: bytes) -> str:
    """Print bytes as an LLVM string constant: `c"ab\\00"`."""
    plain = {b: chr(b) for b in range(32, 127) if chr(b) not in '"\\'}
    return 'c"' + "".join(plain.get(b) or f"\\{b:02X}" for b in data) + '"'
