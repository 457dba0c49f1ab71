"""Limits on the size of programs, so that no input file can exhaust the memory or the stack."""

from dataclasses import dataclass


@dataclass
class Limits:
    """Limits of parsing, folding and interpreting; each is a flag of mlc and mlc-opt (`--max-ops=N`)."""

    input_bytes: int = 256 * 2**20
    """Bytes of one file of IR text."""
    nesting: int = 128
    """Depth of operations nested in each other's regions."""
    ops: int = 1_000_000
    """Operations in one module."""
    rank: int = 32
    """Dimensions of one tensor, memref or vector type."""
    elements: int = 16 * 2**20
    """Elements of one constant in the text."""
    tensor_elements: int = 1 << 32
    """Elements of one tensor of a model."""
    folded_bytes: int = 64 * 2**20
    """Bytes that folding constants may create in one module."""


limits = Limits()
"""The limits in force."""
