"""
The instruction set of the vm, version 1.

Code of kernels works on the buffers of one memory plan (a segment). Code of tensors works on registers, which hold a
tensor, a list of tensors, or nothing. A target is the index of an instruction. A number is an integer or an
expression, as runtime/program.py has it: `{"size": ..}`, `{"loop": 0}`, `{"load": value}`, `["+", number, number]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from mlc.runtime.vm.encoding import Reader, Writer

Instruction: TypeAlias = "tuple[Any, ...]"
"""The name of an instruction, and its operands."""


@dataclass(frozen=True)
class Kind:
    """
    An instruction: its name, the kinds of its operands, and what it does.

    Kinds: `u` an unsigned number (of a kernel, loop, function, segment), `t` a target, `r` a register, `R` registers,
    `v` a value of the plan, `V` values, `n` a number or other value.
    """

    name: str
    operands: str
    meaning: str


KINDS: Sequence[Kind] = (
    Kind("ret", "R", "end the function (of a segment: with no registers)"),
    Kind("goto", "t", "go on at a target"),
    # code of kernels
    Kind("call", "uVn", "call a kernel on buffers and on sizes"),
    Kind("copy", "vvn", "copy so many bytes from the first buffer to the second"),
    Kind("fill", "vn", "set so many bytes of a buffer to 0"),
    Kind("store", "vn", "write a number into a buffer of one element"),
    Kind("unless", "nt", "go to the target if the number is 0"),
    Kind("count", "un", "loop u begins; it will run so often (None: until a test ends it)"),
    Kind("until", "ut", "go to the target if loop u has run as often as it was to"),
    Kind("next", "ut", "add 1 to the number of the iteration of loop u, and go to the target"),
    # code of tensors
    Kind("run", "uRR", "run a segment on the first registers; its outputs go to the second"),
    Kind("invoke", "uRR", "call a function of known code"),
    Kind("resolve", "uRR", "find or compile the code of a function for these tensors, and call it"),
    Kind("iffalse", "rt", "go to the target if the tensor, of one element, is false"),
    Kind("unlessless", "rrt", "go to the target unless the first tensor, of one element, is less than the second"),
    Kind("const", "rn", "a tensor: an integer, a truth value, or [dtype, shape, bytes]"),
    Kind("increment", "rr", "the first register is the tensor of the second plus 1"),
    Kind("move", "rr", "the first register holds what the second holds"),
    Kind("list", "rR", "the first register holds a list of these tensors"),
    Kind("append", "rr", "append the second register's tensor to the list in the first"),
    Kind("stack", "rrn", "stack the tensors of a list along a new axis 0; [dtype, shape] is a row of no iteration"),
)
NUMBERS = {kind.name: number for number, kind in enumerate(KINDS)}
"""The number of each instruction, by which bytecode has it."""


def write_code(writer: Writer, code: Sequence[Instruction]) -> None:
    """Code as bytes: a count, then for each instruction its number and its operands."""
    writer.unsigned(len(code))
    for name, *operands in code:
        kind = KINDS[NUMBERS[name]]
        writer.unsigned(NUMBERS[name])
        for what, operand in zip(kind.operands, operands, strict=True):
            if what == "n":
                writer.value(operand)
            elif what in "RV":
                writer.unsigned(len(operand))
                for one in operand:
                    writer.unsigned(one)
            else:
                writer.unsigned(operand)


def read_code(reader: Reader) -> list[Instruction]:
    """The code that `write_code` wrote; ValueError for an unknown instruction, or a target outside of the code."""
    count = reader.unsigned()
    code: list[Instruction] = []
    for _ in range(count):
        number = reader.unsigned()
        if number >= len(KINDS):
            raise ValueError(f"instruction {number} is unknown")
        code.append((KINDS[number].name, *(_operand(reader, what) for what in KINDS[number].operands)))
    for name, *operands in code:
        for what, operand in zip(KINDS[NUMBERS[name]].operands, operands, strict=True):
            if what == "t" and operand >= count:
                raise ValueError(f"instruction '{name}' goes to {operand}, but there are {count}")
    return code


def _operand(reader: Reader, what: str) -> Any:
    if what == "n":
        return reader.value()
    return [reader.unsigned() for _ in range(reader.unsigned())] if what in "RV" else reader.unsigned()


__all__ = ["KINDS", "NUMBERS", "Instruction", "Kind", "read_code", "write_code"]
