"""
Tiles that are contiguous in memory along another axis than the lanes, transposed in registers.

Loads are vectors along that axis. Stores are vectors of rows that are interleaved, such as the channels of pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from mlc.dialects.index import Index, Product, const, dim, term_dims
from mlc.dialects.llvm_ext.rules import lanes_of
from mlc.dialects.scalar import byte_size
from mlc.lowering.loop_to_llvm.access.accesses import Accesses, LoweredAccess
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


def transpose(b: Builder, rows: Sequence[SSAValue], half: int | None = None) -> list[SSAValue]:
    """
    Transpose n vectors of n lanes, n a power of two, by log2(n) rounds of shuffles.

    A round exchanges squares of `half` rows and lanes, n / 2 first; the rounds of larger ones are done elsewhere.
    """
    values, n = list(rows), len(rows)
    half = n // 2 if half is None else half
    while half:
        low = [j if not j & half else n + j - half for j in range(n)]
        high = [j + half if not j & half else n + j for j in range(n)]
        for i in range(n):
            if not i & half:
                one, two = values[i], values[i | half]
                values[i], values[i | half] = b.shuffle(one, two, low), b.shuffle(one, two, high)
        half //= 2
    return values


def interleaved_axis(a: LoweredAccess, shape: Sequence[int]) -> int | None:
    """The axis whose rows a store interleaves: an element of each row, side by side, for each lane; None if none."""
    if a.shift is not None or a.mask or a.element == i1 or a.rank < 2 or len(shape) != a.rank or shape[-1] == 1:
        return None
    for k in range(a.rank - 1):
        rows = shape[k]
        steps = rows > 1 and _moves_by(a.offset, -1 - k, lambda step: step == 1)
        if steps and _moves_by(a.offset, -a.rank, lambda step, n=rows: step == n):
            return k
    return None


def store_interleaved(
    accesses: Accesses, access: LoweredAccess, axis: int, shape: Sequence[int], natives: Sequence[SSAValue], lanes: int
) -> None:
    """Store the rows along `axis` of a tile as vectors that hold an element of each row in turn."""
    groups: dict[tuple[tuple[int, ...], Chunk], list[SSAValue]] = {}
    for (outer, chunk), v in zip(positions(tuple(shape), lanes), natives, strict=True):
        groups.setdefault(((*outer[:axis], 0, *outer[axis + 1 :]), chunk), []).append(v)
    for (outer, chunk), rows in groups.items():
        first = {-1 - k: const(i) for k, i in enumerate(outer)} | {-access.rank: const(chunk.start)}
        offset = access.offset.substitute(first, accesses.addresses.spans())
        start, end = 0, chunk.valid * len(rows)
        while start < end:
            size = min(chunk.width, 1 << (end - start).bit_length() - 1)
            accesses.store_vector(access, offset + start, _interleaved(accesses.b, rows, start, size))
            start += size


def _interleaved(b: Builder, rows: Sequence[SSAValue], start: int, size: int) -> SSAValue:
    """Elements `start` to `start + size` of interleaved rows: a vector, or a scalar if it is one element."""
    at = [divmod(start + k, len(rows)) for k in range(size)]
    (lane, row), width = at[0], lanes_of(rows[0].type)
    if size == 1:
        return b.extract(rows[row], lane)
    places = list(range(width))
    places[:size] = [lane if r == row else k for k, (lane, r) in enumerate(at)]
    total = rows[row]
    for other in [r for r in range(len(rows)) if r != row and any(r == one for _, one in at)]:
        places[:size] = [width + lane if r == other else places[k] for k, (lane, r) in enumerate(at)]
        total, places = b.shuffle(total, rows[other], places), list(range(width))
    return total if size == width else b.shuffle(total, total, range(size))


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
        if not a.mask and chunk.valid == column.valid == chunk.width and 8 * chunk.width * byte_size(a.element) == 256:
            offsets = [
                a.offset.substitute(fixed | {-a.rank: const(chunk.start + k)}, spans) for k in range(chunk.width)
            ]
            return self._square_of_halves(offsets)
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

    def _square_of_halves(self, offsets: Sequence[Index]) -> list[SSAValue]:
        """
        The square whose rows in memory begin at `offsets`.

        Halves of two rows are loaded into one vector, which spares AVX2 the shuffles across halves: they take as long
        as several shuffles within halves, and on Zen 1 as long as eight.
        """
        b, n = self.accesses.b, len(offsets)
        half = n // 2
        part = Chunk(0, half, half)
        values: list[SSAValue] = []
        for start in (0, half):
            halves = [self.accesses.load_contiguous(self.access, offset + start, part) for offset in offsets]
            values += [b.shuffle(halves[k], halves[k + half], range(n)) for k in range(half)]
        return transpose(b, values, half // 2)
