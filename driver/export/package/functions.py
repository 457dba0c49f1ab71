"""
The C functions that a packaged program calls by name: a struct of pointers, which the caller fills in.

The struct's fields stand in the order of the program's table of functions (support/abi.py), so that it is that table.
The programs of the package fill in the functions that are registered in this process: symbols of C libraries.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlc.support.abi import C_FUNCTION_DECLARATIONS, FUNCTION_MISSING
from mlc.support.errors import UserError
from mlc.support.registered import functions

if TYPE_CHECKING:
    from mlc.driver.export.package.spec import PackageSpec

_STRUCT = """
{declarations}
/* A C function, and what it gets as its first argument. */
typedef struct {name}_function {{
  mlc_function call;
  void *context;
}} {name}_function;

/* The functions that the model calls. Tensors are DLPack's DLTensor, row-major on the CPU, inputs before outputs; a
   function returns 0, or a status, which the run then returns, with a text of at most 256 bytes in `error`. */
typedef struct {name}_functions {{
{fields}
}} {name}_functions;
"""
_OPTIONS = """\
  const {name}_functions *functions;             /* needed: what the model calls by name */
  char *error;                                   /* room for 256 bytes of a function's text, or NULL */
"""
_REGISTER_C = "register a ctypes pointer to a function of a C library"


class _SymbolAddress(ctypes.Structure):
    """Dl_info of the C library."""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


@dataclass(frozen=True)
class LibraryFunction:
    """A registered C function: the symbol and the file of the library that defines it."""

    name: str
    symbol: str
    library: str


def library_functions(names: Sequence[str]) -> list[LibraryFunction]:
    """
    The C functions that are registered by these names.

    Raises UserError for a name that is not registered, for a Python function, and for a pointer to no symbol.
    """
    return [_library_function(name) for name in names]


def _library_function(name: str) -> LibraryFunction:
    if not functions.is_pointer(functions.get_func(name)):
        raise UserError(
            f"expected C functions in a package, but '{name}', which the program calls, is a Python function; "
            f"{_REGISTER_C}"
        )
    found, address = _SymbolAddress(), functions.entry(name)
    look = ctypes.CDLL(None).dladdr
    look.argtypes = [ctypes.c_void_p, ctypes.POINTER(_SymbolAddress)]
    if not look(address, ctypes.byref(found)) or found.address != address or not found.symbol:
        raise UserError(
            f"expected '{name}', which the program calls, to be a symbol of a library, but got a pointer to none; "
            f"{_REGISTER_C}"
        )
    return LibraryFunction(name, found.symbol.decode(), str(Path(found.file.decode()).resolve()))


def struct(spec: PackageSpec) -> str:
    """The declaration of the struct of functions; empty where the program calls none."""
    if not spec.functions:
        return ""
    rows = [f"  {spec.name}_function {field}; /* {name} */" for field, name in spec.functions]
    return _STRUCT.format(name=spec.name, declarations=C_FUNCTION_DECLARATIONS.rstrip(), fields="\n".join(rows))


def options(spec: PackageSpec) -> str:
    """The fields of the options about functions."""
    return _OPTIONS.format(name=spec.name) if spec.functions else ""


def missing(spec: PackageSpec) -> str:
    """The condition of a call that lacks a function."""
    fields = "".join(f" || !options->functions->{field}.call" for field, _ in spec.functions)
    return f"!options->functions{fields}"


def given(spec: PackageSpec) -> list[str]:
    """The statements of a program that fill in the registered functions."""
    if not spec.functions:
        return []
    lines = [f"{spec.name}_functions functions = {{{{0, 0}}}};"]
    called = zip(spec.functions, spec.registered, strict=True)
    lines += [f"functions.{field}.call = {one.symbol};" for (field, _), one in called]
    return [*lines, "options.functions = &functions;"]


def prototypes(spec: PackageSpec) -> str:
    """The declarations of the registered functions in a program."""
    symbols = dict.fromkeys(one.symbol for one in spec.registered)
    return "".join(f"int32_t {s}(void *, const mlc_tensor *, int32_t, int32_t, char *);\n" for s in symbols)


__all__ = ["FUNCTION_MISSING", "LibraryFunction", "library_functions"]
