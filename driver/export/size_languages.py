"""How LLVM IR and C99 write the operations of the functions that size a program's buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

EINVAL = 22
"""The status for shapes that do not fit: Linux's error number."""


@dataclass(frozen=True)
class SizeLanguage:
    """One language: operations by name, and the functions around them."""

    operations: Mapping[str, str]
    """The text of each operation on its operands `{0}`, `{1}`, ..; loads are of the address that `element` gives."""
    element: str | None
    """The operation that gives the address of element `{1}` of the array `{0}`."""
    types: Mapping[str, str]
    """The types of the operations' results, as far as they are not constant 64-bit integers."""
    variable: str
    """The name of value number `{0}`."""
    declaration: str
    """The statement that gives the variable `{0}` the value `{1}` of type `{2}`."""
    store: str
    """The statement that writes the value `{0}` to element `{2}` of the array `{1}`, or to its address `{1}`."""
    parameter: str
    """The name of the parameter `{0}`."""
    true: str
    """A condition that always holds."""
    functions: Mapping[str, str]
    """The function that returns the value `{2}`, by what it computes: of prefix `{0}`, with the statements `{1}`."""


LLVM = SizeLanguage(
    operations={
        "add": "add i64 {0}, {1}",
        "sub": "sub i64 {0}, {1}",
        "mul": "mul i64 {0}, {1}",
        "div": "sdiv i64 {0}, {1}",
        "rem": "srem i64 {0}, {1}",
        "sign": "ashr i64 {0}, 63",
        "lt": "icmp slt i64 {0}, {1}",
        "gt": "icmp sgt i64 {0}, {1}",
        "ge": "icmp sge i64 {0}, {1}",
        "le": "icmp sle i64 {0}, {1}",
        "eq": "icmp eq i64 {0}, {1}",
        "and": "and i1 {0}, {1}",
        "select": "select i1 {0}, i64 {1}, i64 {2}",
        "status": f"select i1 {{0}}, i32 0, i32 {EINVAL}",
        "extend": "sext i32 {0} to i64",
        "double": "sitofp i64 {0} to double",
        "add_double": "fadd double {0}, {1}",
        "mul_double": "fmul double {0}, {1}",
        "lt_double": "fcmp olt double {0}, {1}",
        "load": "load i64, ptr {0}, align 8",
        "load_row": "load ptr, ptr {0}, align 8",
        "load_own_row": "load ptr, ptr {0}, align 8",
    },
    element="getelementptr i64, ptr {0}, i64 {1}",
    types={},
    variable="%v{0}",
    declaration="  {0} = {1}",
    store="  store i64 {0}, ptr {1}, align 8",
    parameter="%{0}",
    true="true",
    functions={
        "symbols": "define i32 @{0}_symbols(ptr %shapes, ptr %symbols) {{\n{1}\n  ret i32 {2}\n}}\n",
        "output_shapes": "define void @{0}_output_shapes(ptr %symbols, ptr %shapes) {{\n{1}\n  ret void\n}}\n",
        "workspace": "define i64 @{0}_workspace_bytes(ptr %symbols, i32 %threads) {{\n{1}\n  ret i64 {2}\n}}\n",
    },
)
# Sizes that do not fit may overflow before they are refused.
_WRAPPING = "(int64_t)((uint64_t){{0}} {0} (uint64_t){{1}})"
C99 = SizeLanguage(
    operations={
        "add": _WRAPPING.format("+"),
        "sub": _WRAPPING.format("-"),
        "mul": _WRAPPING.format("*"),
        "div": "{0} / {1}",
        "rem": "{0} % {1}",
        "sign": "{0} < 0 ? -1 : 0",
        "lt": "{0} < {1}",
        "gt": "{0} > {1}",
        "ge": "{0} >= {1}",
        "le": "{0} <= {1}",
        "eq": "{0} == {1}",
        "and": "{0} & {1}",
        "select": "{0} ? {1} : {2}",
        "status": f"{{0}} ? 0 : {EINVAL}",
        "extend": "{0}",
        "double": "(double){0}",
        "add_double": "{0} + {1}",
        "mul_double": "{0} * {1}",
        "lt_double": "{0} < {1}",
        "load": "{0}[{1}]",
        "load_row": "{0}[{1}]",
        "load_own_row": "{0}[{1}]",
    },
    element=None,
    types={
        **dict.fromkeys(("lt", "gt", "ge", "le", "eq", "and", "lt_double", "status"), "const int32_t"),
        **dict.fromkeys(("double", "add_double", "mul_double"), "const double"),
        "load_row": "const int64_t *const",
        "load_own_row": "int64_t *const",
    },
    variable="v{0}",
    declaration="  {2} {0} = {1};",
    store="  {1}[{2}] = {0};",
    parameter="{0}",
    true="1",
    functions={
        "symbols": (
            "MLC_LOCAL int32_t {0}_symbols(const int64_t *const *shapes, int64_t *symbols) {{\n{1}\n  return {2};\n}}\n"
        ),
        "output_shapes": (
            "MLC_LOCAL void {0}_output_shapes(const int64_t *symbols, int64_t *const *shapes) "
            "{{\n  (void)symbols;\n{1}\n}}\n"
        ),
        "workspace": (
            "MLC_LOCAL int64_t {0}_workspace_bytes(const int64_t *symbols, int32_t threads) "
            "{{\n  (void)symbols, (void)threads;\n{1}\n  return {2};\n}}\n"
        ),
    },
)
