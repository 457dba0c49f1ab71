"""
What the kernels of a package of C source call: registered functions, and C functions of libraries.

A registered function is called through its entry of `rt->functions`. A C function is called through a function of the
package that stands in a file of its own, in which no header declares it with other types.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mlc.codegen.c.call import parameters
from mlc.codegen.c.program.kernel import CKernelText
from mlc.dialects import loop
from mlc.support.abi import C_FUNCTION_DECLARATIONS, FUNCTION_MISSING, call_symbol
from mlc.support.errors import UserError

_REGISTERED = """
static inline int32_t {symbol}(mlc_runtime *rt, const mlc_tensor *tensors, int32_t inputs, int32_t outputs) {{
  const mlc_function_entry *const entry = (const mlc_function_entry *)rt->functions + {number};
  if (!rt->functions || !entry->call) return {missing};
  return entry->call(entry->context, tensors, inputs, outputs, rt->error);
}}
"""
_ENTRY = """
#define MLC_TENSOR_DECLARED
typedef struct mlc_function_entry {
  mlc_function call;
  void *context;
} mlc_function_entry;
"""
_CALLS = """\
/* The C functions that the kernels call, declared as they are called. Written by mlc package; do not edit. */
#include <stdint.h>

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wincompatible-library-redeclaration"
#elif defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wbuiltin-declaration-mismatch"
#endif
"""


@dataclass(frozen=True)
class CCalls:
    """What kernels call: the names of the registered functions in the order of the table, and the libraries."""

    functions: list[str]
    libraries: list[str]
    declarations: str
    """C for the header of the kernels."""
    definitions: str
    """A C file; empty without C functions."""

    @staticmethod
    def of(kernels: Iterable[CKernelText], prefix: str) -> CCalls:
        """
        The calls of all kernels.

        Raises UserError where a C function is called with arguments of different types.
        """
        ops = [op for kernel in kernels for op in kernel.calls]
        functions = sorted({op.called.name for op in ops if op.called.convention == "registered"})
        c_functions = _by_name([op for op in ops if op.called.convention == "c"])
        libraries = list(dict.fromkeys(name for op in ops for name in op.called.libraries))
        heads = [_head(op, f"{prefix}_c_{name}") for name, op in c_functions.items()]
        return CCalls(
            functions,
            libraries,
            _registered(functions) + "".join(f"\n{head};" for head in heads) + "\n" * bool(heads),
            _CALLS + "".join(_definition(op, prefix) for op in c_functions.values()) if c_functions else "",
        )


def _by_name(ops: Iterable[loop.ExternCallOp]) -> dict[str, loop.ExternCallOp]:
    found: dict[str, loop.ExternCallOp] = {}
    for op in ops:
        known = found.setdefault(op.called.name, op)
        if (types := _types(op)) != _types(known):
            raise UserError(
                f"expected all calls of '{op.called.name}' in a package of C source to have the types "
                f"({', '.join(_types(known))}), but got ({', '.join(types)})"
            )
    return found


def _types(op: loop.ExternCallOp) -> list[str]:
    return [*parameters(op), *(["status"] if op.called.status else [])]


def _registered(names: list[str]) -> str:
    if not names:
        return ""
    calls = [
        _REGISTERED.format(symbol=call_symbol(name), number=k, missing=FUNCTION_MISSING) for k, name in enumerate(names)
    ]
    return f"\n{C_FUNCTION_DECLARATIONS}{_ENTRY}{''.join(calls)}"


def _head(op: loop.ExternCallOp, name: str, local: str = "") -> str:
    types = [type_ if type_.endswith("*") else f"{type_} " for type_ in parameters(op)]
    listed = ", ".join(f"{type_}a{k}" for k, type_ in enumerate(types)) or "void"
    return f"{local}{'int' if op.called.status else 'void'} {name}({listed})"


def _definition(op: loop.ExternCallOp, prefix: str) -> str:
    name = op.called.name
    given = ", ".join(f"a{k}" for k in range(len(parameters(op))))
    call = f"{'return ' if op.called.status else ''}{name}({given});"
    own = _head(op, f"{prefix}_c_{name}")
    return f"\n{_head(op, name)};\n{own};\n{own} {{ {call} }}\n"


__all__ = ["CCalls"]
