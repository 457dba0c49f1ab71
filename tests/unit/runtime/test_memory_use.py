"""What running takes: calls with outputs allocate nothing, and weights are mapped."""

import ctypes
from pathlib import Path

import numpy as np
import pytest
import small_model

import mlc


class Mallinfo(ctypes.Structure):
    """glibc's mallinfo2."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks"),
            *("fordblks", "keepcost"),
        )
    ]


LIBC = ctypes.CDLL(None)  # once: each one makes classes that stay until the garbage collector runs


def in_use() -> int:
    """Bytes that malloc has given out."""
    mallinfo = getattr(LIBC, "mallinfo2", None)
    if mallinfo is None:
        pytest.skip("the C library has no mallinfo2")
    mallinfo.restype = Mallinfo
    facts = mallinfo()
    return facts.uordblks + facts.hblkhd


@pytest.mark.parametrize("threads", [1, 2])
def test_a_call_with_outputs_allocates_nothing_that_stays_or_is_mapped(tmp_path: Path, threads: int):
    exe = mlc.compile(small_model.write(tmp_path), threads=threads)
    inputs = small_model.inputs()
    out = {spec.name: np.empty(spec.shape, spec.dtype) for spec in exe.outputs}
    for _ in range(20):
        exe(inputs, out=out)
    in_use()  # the first reading leaves objects of its own
    maps = Path("/proc/self/maps").read_text().count("\n")
    heap = in_use()
    for _ in range(1000):
        exe(inputs, out=out)
    assert in_use() - heap < 8000  # less than a pointer a call
    assert Path("/proc/self/maps").read_text().count("\n") - maps <= 1


def test_weights_are_mapped(tmp_path: Path):
    exe = mlc.compile(small_model.write(tmp_path), threads=1)
    assert str(exe.artifact.path / "weights.bin") in Path("/proc/self/maps").read_text()
