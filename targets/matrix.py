"""The matrix unit of x86 (AMX): its instructions, and the registers in which it multiplies."""

from mlc.targets.target import Target

MATRIX_INSTRUCTIONS = {"bf16": "tdpbf16ps", "i8": "tdpbusd"}
"""Type of narrow factors -> the instruction that multiplies matrices of them; `Target.instructions` has a target's."""
MATRIX_ROWS = 16
"""Rows of a matrix register (Intel SDM, volume 1, chapter 18: palette 1)."""
MATRIX_WORDS = 16
"""Words of 4 bytes in a row of a matrix register (palette 1: 64 bytes)."""
WORD_BYTES = 4
MATRIX_ROW = {"bf16": 2 * MATRIX_WORDS, "i8": 4 * MATRIX_WORDS}
"""Type of narrow factors -> how many of them fill a row of a matrix register."""
MATRIX_REGISTERS = 8
"""Matrix registers of a core (palette 1)."""
MATRIX_SUMS = MATRIX_REGISTERS - 2
"""Matrix registers that a tile may keep: one is left for each operand."""
MATRIX_PRODUCT_CYCLES = 16
"""Cycles from one product of whole registers to the next (Intel's optimization manual, chapter 20)."""


def multiplies_matrices(element: object, target: Target) -> bool:
    """Whether a target has a matrix unit for factors of a type."""
    return MATRIX_INSTRUCTIONS.get(str(element)) in target.instructions


def matrix_steps(words: int) -> int:
    """The words along the summed axis of a product: as many as fit a row, without a rest."""
    return max(n for n in range(1, MATRIX_WORDS + 1) if words % n == 0)
