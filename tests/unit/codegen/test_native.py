"""Machine code that is linked into this process."""

import subprocess
import sys

APART = r'''
"""Links an object in a process whose free addresses are a few single pages and, 3 GB below them, all others."""

import ctypes

import numpy as np

from mlc.codegen.native import Library, emit_object

PAGE, GB = 4096, 1 << 30
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
PRIVATE_ANONYMOUS_NO_RESERVE = 0x4022


def take(size):
    """Addresses without memory behind them, the highest that are free."""
    place = libc.mmap(None, size, 0, PRIVATE_ANONYMOUS_NO_RESERVE, -1, 0)
    assert place != ctypes.c_void_p(-1).value
    return place


def code(operations):
    """A function of `operations` additions, each of a constant in a section of constants: more than a page."""
    lines, constants = [], (", ".join(f"float {i + k}.5" for k in range(16)) for i in range(operations))
    for i, row in enumerate(constants):
        lines.append(f"%a{i} = fadd <16 x float> %x{i}, <{row}>\n%x{i + 1} = fmul <16 x float> %a{i}, %a{i}")
    body = "\n".join(lines)
    return (
        f"define void @f(ptr %p) {{\n%x0 = load <16 x float>, ptr %p, align 4\n{body}\n"
        f"store <16 x float> %x{operations}, ptr %p, align 4\nret void\n}}"
    )


small, large = emit_object(code(1)), emit_object(code(200))
Library.load([emit_object(code(2))])  # what the linker allocates once
wall = take(3 * GB)
for size in (PAGE << k for k in range(10, -1, -1)):
    while (place := take(size)) > wall:  # every hole above the wall
        pass
    libc.munmap(place, size)
for k in range(0, 80, 2):
    libc.munmap(wall + 3 * GB - (k + 2) * PAGE, PAGE)
one, many = Library.load([small]), Library.load([large])
x = np.arange(16, dtype=np.float32)
ctypes.CFUNCTYPE(None, ctypes.c_void_p)(one.address("f"))(x.ctypes.data)
assert (x == (2 * np.arange(16) + 0.5) ** 2).all(), x
ctypes.CFUNCTYPE(None, ctypes.c_void_p)(many.address("f"))(x.ctypes.data)
assert np.isinf(x).all(), x
'''


def test_code_and_constants_are_near_each_other_in_a_full_process() -> None:
    done = subprocess.run([sys.executable, "-c", APART], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
