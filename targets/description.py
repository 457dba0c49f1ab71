"""The text of a target by which records are found: what decides how fast a schedule is, and no name of the user's."""

from __future__ import annotations

from mlc.targets.cpu_features import used_features
from mlc.targets.target import Target


def describe(target: Target) -> str:
    """
    The CPU, the features that code for it uses, vectors, registers and cache sizes in bytes, in one line.

    `x86_64 znver4 avx+.. vector=512x32 l1=32768 l2=1048576 l3=33554432`, and `through=c` where the C compiler does it.
    """
    features = "+".join(used_features(target.architecture, target.cpu, target.features))
    vectors = f"vector={target.vector_bits}x{target.vector_registers}"
    caches = f"l1={target.l1_bytes} l2={target.l2_bytes} l3={target.l3_bytes}"
    through = " through=c" if target.is_c else ""
    return f"{target.architecture} {target.cpu} {features or 'baseline'} {vectors} {caches}{through}"
