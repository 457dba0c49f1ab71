"""The register tile of a contraction whose factors a matrix unit multiplies."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from mlc.schedules.analysis import Stage
from mlc.schedules.strategies.roles import Roles
from mlc.targets.cost.thresholds import MATRIX_LEAST_ROWS, MATRIX_LEAST_WORDS
from mlc.targets.cost.tiles import divisors, even_split
from mlc.targets.matrix import MATRIX_ROWS, MATRIX_WORDS, matrix_steps, multiplies_matrices
from mlc.targets.target import Target

MOST_COLUMNS = {1: 4, 2: 2}
"""Matrix registers along a tile's rows -> the most along its columns: a loaded operand is used two or four times."""


class MatrixTile(NamedTuple):
    """Rows, steps of the column axis, lanes; and the words of the last reduction axis that are summed at once."""

    rows: int
    columns: int
    lanes: int
    words: int


def matrix_tile(stage: Stage, roles: Roles, target: Target, packed: int) -> MatrixTile | None:
    """
    The tile for the target's matrix unit; None where it has none, or where S and V are not stored as it loads them.

    `packed` is the number of vectors in a block of V, which a tile must not cross.
    """
    words = _words(stage, roles, target)
    if roles.rows is None or words < MATRIX_LEAST_WORDS:
        return None
    rows, lanes = _rows(stage.extents[roles.rows]), stage.extents[roles.lanes]
    if roles.columns is not None and ceil(lanes / MATRIX_WORDS) > MOST_COLUMNS[ceil(rows / MATRIX_ROWS)]:
        rows = ceil(rows / 2)
    most = MOST_COLUMNS[ceil(rows / MATRIX_ROWS)]
    if roles.columns is not None:
        columns = even_split(stage.extents[roles.columns], max(1, most // ceil(lanes / MATRIX_WORDS)))
        if roles.column_blocks:
            columns = max(n for n in divisors(roles.column_blocks) if n <= columns)
        return MatrixTile(rows, columns, lanes, words)
    vectors = max(n for n in divisors(packed) if n <= most)
    return MatrixTile(rows, 1, min(lanes, vectors * MATRIX_WORDS), words)


def _rows(extent: int) -> int:
    """
    The rows of a tile: the rows of one matrix register, or of two.

    The shape of each register is fixed within a function, so all tiles have equally many rows. Vectors compute the rows
    that are left over; one of them takes about as long as a product of the matrix unit.
    """
    high = min(range(min(MATRIX_ROWS, extent), 0, -1), key=lambda n: extent // n + extent % n)
    count, rest = divmod(extent, high)
    return high if count == 1 or (rest and count % 2) else 2 * high


def _words(stage: Stage, roles: Roles, target: Target) -> int:
    """The words that one product sums; 0 where the matrix unit does not take these operands."""
    s, v, last = roles.scalar, roles.vector, stage.reduce[-1]
    if not multiplies_matrices(s.element, target) or s.unit != v.unit or s.unit == 1 or roles.rows is None:
        return 0
    if s.mask or v.mask or stage.symbolic or roles.dot or roles.across is not None:
        return 0
    if s.uses(roles.lanes) or roles.stride > 1 or stage.extents[roles.rows] < MATRIX_LEAST_ROWS:
        return 0
    if roles.columns is not None and stage.extents[roles.lanes] > max(MOST_COLUMNS.values()) * MATRIX_WORDS:
        return 0
    words = matrix_steps(stage.extents[last] // s.unit)
    run = words * s.unit
    ranges = dict(enumerate(stage.ranges)) | {last: (0, stage.extents[last] // run - 1)}
    return words if s.is_contiguous_run(last, run, ranges) else 0
