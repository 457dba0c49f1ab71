"""
The functions through which kernels call what the program registers by name: an object file a program.

    i32 mlc_call_NAME(ptr rt, ptr tensors, i32 inputs, i32 outputs)
        calls the entry of NAME in the table at rt->functions; FUNCTION_MISSING where there is none

The entries of the table stand in the order of the names that the program lists.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlc.support.abi import FUNCTION_ENTRY_BYTES, FUNCTION_MISSING, RT_ERROR, RT_FUNCTIONS, call_symbol
from mlc.targets.target import Target

_CALL = """
define hidden i32 @{symbol}(ptr %rt, ptr %tensors, i32 %inputs, i32 %outputs) {{
  %at = getelementptr i8, ptr %rt, i64 {functions}
  %table = load ptr, ptr %at, align 8
  %none = icmp eq ptr %table, null
  br i1 %none, label %missing, label %look
look:
  %entry = getelementptr i8, ptr %table, i64 {offset}
  %function = load ptr, ptr %entry, align 8
  %unknown = icmp eq ptr %function, null
  br i1 %unknown, label %missing, label %found
found:
  %context.p = getelementptr i8, ptr %entry, i64 8
  %context = load ptr, ptr %context.p, align 8
  %error = getelementptr i8, ptr %rt, i64 {error}
  %status = call i32 %function(ptr %context, ptr %tensors, i32 %inputs, i32 %outputs, ptr %error)
  ret i32 %status
missing:
  ret i32 {missing}
}}
"""


def functions_text(names: Sequence[str], target: Target) -> str:
    """The LLVM IR of the functions that stand for the registered ones of a program."""
    calls = [
        _CALL.format(
            symbol=call_symbol(name),
            functions=RT_FUNCTIONS,
            offset=FUNCTION_ENTRY_BYTES * k,
            error=RT_ERROR,
            missing=FUNCTION_MISSING,
        )
        for k, name in enumerate(names)
    ]
    return f'target triple = "{target.triple}"\n{"".join(calls)}'
