"""What a kernel is found by among records: the hash of its te text, whatever its name, without a schedule."""

from __future__ import annotations

from hashlib import sha256

from xdsl.dialects.builtin import ModuleOp, StringAttr

from mlc.dialects import te

NAME = "kernel"
"""The name of every kernel in its text."""


def kernel_text(func: te.FuncOp) -> str:
    """The text of a module with the kernel alone, under the name `kernel`."""
    copy = func.clone()
    copy.sym_name = StringAttr(NAME)
    return str(ModuleOp([copy]))


def kernel_hash(func: te.FuncOp) -> str:
    """The hexadecimal sha256 of the kernel's text."""
    return sha256(kernel_text(func).encode()).hexdigest()
