"""Loads of tiles that are contiguous along another axis than the lanes: vector loads, transposed in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from mlc.dialects.index import Index, Product, const, dim, term_dims
from mlc.lowering.loop_to_llvm.accesses import Accesses, LoweredAccess
from mlc.lowering.loop_to_llvm.builder import Builder
from mlc.lowering.loop_to_llvm.tiles import SCALAR, Chunk, native_type, positions


def contiguous_axis(a: LoweredAccess, shape: Sequence[int]) -> int | None:
    """The axis besides the lanes along which a tile is contiguous and its masks are affine; None if there is none."""
    if a.shift is not None or a.rank < 2 or len(shape) != a.rank:
        return None
    if not _moves_by(a.offset, -a.rank, lambda step: step not in (0, 1)) and not _moves_by_size(a.offset, -a.rank):
        return None
    found = [k for k in range(a.rank - 1) if _moves_by(a.offset, -1 - k, lambda step: step == 1)]
    if not found:
        return None
    along = -1 - found[-1]
    turns = any((e - dim(along) * e.coefficient(along)).uses(along) for e in a.mask)
    return None if turns else found[-1]


def _moves_by(offset: Index, axis: int, holds: Callable[[int], bool]) -> bool:
    """Whether an offset is affine along an axis, with a step that satisfies `holds`."""
    step = offset.coefficient(axis)
    return holds(step) and not (offset - dim(axis) * step).uses(axis)


def _moves_by_size(offset: Index, axis: int) -> bool:
    """Whether an offset moves along an axis by a size that is known at run time, and in no other way."""
    own = [t for t, _ in offset.terms if axis in term_dims(t)]
    return bool(own) and all(
        isinstance(t, Product) and not (t.expr - dim(axis) * t.expr.coefficient(axis)).uses(axis) for t in own
    )


def transpose(b: Builder, rows: Sequence[SSAValue]) -> list[SSAValue]:
    """Transpose n vectors of n lanes, n a power of two, by log2(n) rounds of shuffles."""
    values, n = list(rows), len(rows)
    half = n // 2
    while half:
        low = [j if not j & half else n + j - half for j in range(n)]
        high = [j + half if not j & half else n + j for j in range(n)]
        for i in range(n):
            if not i & half:
                one, two = values[i], values[i | half]
                values[i], values[i | half] = b.shuffle(one, two, low), b.shuffle(one, two, high)
        half //= 2
    return values


class TransposedLoad:
    """The native values of such a tile; a square is loaded and transposed when one of its rows is first used."""

    def __init__(self, accesses: Accesses, access: LoweredAccess, axis: int) -> None:
        self.accesses, self.access, self.axis = accesses, access, axis
        self._squares: dict[tuple[tuple[int, ...], Chunk], list[SSAValue]] = {}

    def thunks(
        self, shape: tuple[int, ...], lanes: int, fills: Sequence[SSAValue] | None
    ) -> list[Callable[[], SSAValue]]:
        """A function for each native value; scalars at the edge are loaded one by one; `fills` where masks fail."""
        found: list[Callable[[], SSAValue]] = []
        for k, (outer, chunk) in enumerate(positions(shape, lanes)):
            load = self._chosen if chunk.width else self._alone
            fill = fills[k] if fills is not None else None
            found.append(lambda o=outer, c=chunk, f=load, e=fill: f(o, c, shape[self.axis], e))
        return found

    def _alone(self, outer: tuple[int, ...], chunk: Chunk, _: int, fill: SSAValue | None) -> SSAValue:
        return self.accesses.load(self.access, outer, chunk, fill)

    def _chosen(self, outer: tuple[int, ...], chunk: Chunk, rows: int, fill: SSAValue | None) -> SSAValue:
        """A row of a square; `fill` in the lanes where the mask does not hold."""
        _, exprs = self.access.place(self.accesses.addresses, outer, chunk)
        mask = self.accesses.condition(exprs, -self.access.rank, chunk)
        if mask is False and fill is not None:
            return fill
        value = self._of_square(outer, chunk, rows)
        return value if isinstance(mask, bool) or fill is None else self.accesses.b.select(mask, value, fill)

    def _of_square(self, outer: tuple[int, ...], chunk: Chunk, rows: int) -> SSAValue:
        n, row = chunk.width, outer[self.axis]
        origin = (*outer[: self.axis], row - row % n, *outer[self.axis + 1 :])
        square = self._squares.get((origin, chunk))
        if square is None:
            valid = min(n, rows - origin[self.axis])
            square = self._squares[origin, chunk] = self._square(origin, chunk, Chunk(0, n, valid))
        return square[row % n]

    def _square(self, origin: tuple[int, ...], chunk: Chunk, column: Chunk) -> list[SSAValue]:
        """Load one vector along the contiguous axis for each lane, and transpose them to one for each row."""
        a, b, spans = self.access, self.accesses.b, self.accesses.addresses.spans()
        fixed = {-1 - k: const(i) for k, i in enumerate(origin)}
        along = -1 - self.axis
        columns = self.accesses.addresses.spans({along: (0, column.valid - 1)})
        vectors: list[SSAValue | None] = []
        for k in range(chunk.valid):
            at = fixed | {-a.rank: const(chunk.start + k)}
            moving = at | {along: dim(along) + origin[self.axis]}
            shared = [e.substitute(at, spans) for e in a.mask if not e.uses(along)]
            own = [e.substitute(moving, columns) for e in a.mask if e.uses(along)]
            whole = self.accesses.condition(shared, -a.rank, SCALAR)
            part = self.accesses.condition(own, along, column)
            if whole is False or part is False:
                vectors.append(None)
                continue
            vectors.append(self.accesses.load_contiguous(a, a.offset.substitute(at, spans), column, whole, part))
        missing = b.poison(native_type(a.element, column))
        vectors += [None] * (chunk.width - chunk.valid)
        return transpose(b, [missing if v is None else v for v in vectors])
