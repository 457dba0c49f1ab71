"""
`mlc.te.intrinsic`: instructions for `mlc.Schedule.tensorize`, declared as two functions in IR.

    te.intrinsic("x86.dot4", means=te.func("dot", [a, b], [c]), emits="loop.func ...", requires=["avx512vnni"])
    te.load_intrinsics("mine.mlir")             # a file of sched.intrinsic ops; `--load mine.mlir` does the same
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from xdsl.dialects.builtin import StringAttr
from xdsl.utils.exceptions import VerifyException

from mlc.dialects import loop, sched, te
from mlc.dialects.sched.intrinsic import EMITS, MEANS
from mlc.dialects.syntax.source import parse_module
from mlc.lowering.te_to_loop.convert import convert_func
from mlc.passes.loop.directives.intrinsics import declare
from mlc.support.errors import UserError

Function: TypeAlias = "te.FuncOp | loop.FuncOp | str"


def intrinsic(
    name: str, means: Function, emits: Function, requires: Sequence[str] = (), *, key: str | None = None
) -> None:
    """
    Declare an intrinsic: `sched.tensorize %l "name"` then replaces loops that compute what it means.

    `means` is a te.func, or loops around one block that adds to its result or sets it; `emits` works on the same
    operands, inputs and then outputs, in tile ops without loops. Both may be IR text. `requires` names features of the
    CPU as LLVM does. A later intrinsic of the same name replaces it. Caches know it by its text, or by `key`.

    Raises UserError for functions of other operands, and for text that is wrong.
    """
    functions = [_function(means, MEANS), _function(emits, EMITS)]
    declared = sched.IntrinsicOp.make(name, requires, functions)
    try:
        declared.verify()
    except VerifyException as error:
        raise UserError(f"intrinsic '{name}': {error}") from None
    declare(declared, key)


def load_intrinsics(path: str | os.PathLike[str]) -> list[str]:
    """
    Declare the `sched.intrinsic` ops of a file; their names.

    Raises UserError, with the place, where the file is wrong.
    """
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    ops = list(parse_module(text, str(path)).body.block.ops)
    found = [op for op in ops if isinstance(op, sched.IntrinsicOp)]
    if len(found) != len(ops) or not found:
        names = ", ".join(op.name for op in ops) or "nothing"
        raise UserError(f"{path}: expected sched.intrinsic operations, but got {names}")
    for op in found:
        op.detach()
        declare(op)
    return [op.intrin.data for op in found]


def _function(given: Function, name: str) -> loop.FuncOp:
    """A function of an intrinsic, at the loop level, under its name there."""
    if isinstance(given, str):
        ops = list(parse_module(given, f"<{name}>").body.block.ops)
        if len(ops) != 1 or not isinstance(ops[0], te.FuncOp | loop.FuncOp):
            raise UserError(f"expected the text of one te.func or loop.func as {name}")
        given = ops[0]
    function = convert_func(given) if isinstance(given, te.FuncOp) else given.clone()
    function.properties["sym_name"] = StringAttr(name)
    for block in [op for op in function.walk() if isinstance(op, loop.BlockOp) and op.has_init]:
        block.init.erase_block(block.init.block)  # the reduction of the kernel has begun where the intrinsic runs
    return function
