"""AMX in software (`matrix_unit.c`): the LLVM IR of a kernel with each of its instructions as a call of C."""

import ctypes
import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_name("matrix_unit.c")
NAMES = [f"amx_{n}" for n in "tilezero tileloadd64 tilestored64 tdpbf16ps tdpbssd tdpbsud tdpbusd tdpbuud".split()]


@cache
def library() -> ctypes.CDLL:
    """The software unit, compiled once."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "matrix_unit.so"
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", str(SOURCE), "-o", str(path)], check=True)
        return ctypes.CDLL(str(path))


def symbols() -> dict[str, int]:
    """The addresses of its functions, by name."""
    address = ctypes.cast
    return {n: address(getattr(library(), n), ctypes.c_void_p).value or 0 for n in NAMES}


def emulated(ir: str) -> str:
    """The IR with registers as pointers, and instructions as calls."""
    return re.sub(r"@llvm\.x86\.(\w+)\.internal", r"@amx_\1", ir.replace("x86_amx", "ptr"))


def products() -> int:
    """How many products of matrices ran since the last call; none may have had operands of wrong shapes."""
    errors, count = (ctypes.c_int.in_dll(library(), f"amx_{n}") for n in ("errors", "products"))
    found, count.value = count.value, 0
    assert errors.value == 0
    return found
