"""Directives that change the extents of loops: split, tile, fuse, peel."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import SSAValue

from mlc.dialects import loop, sched
from mlc.dialects.index import ZERO, Index
from mlc.passes.loop.directives import legality
from mlc.passes.loop.directives.kernel import (
    Kernel,
    blocks_below,
    body_of,
    insert_after,
    insert_before,
    make_loop,
    make_nest,
    move_ops,
    name_of,
)
from mlc.passes.loop.directives.order import permute
from mlc.passes.loop.index_space.expressions import substitute, users

Factors = list[int | Index]


def resolve_factors(kernel: Kernel, f: loop.ForOp, numbers: Sequence[int], knobs: Sequence[SSAValue]) -> Factors:
    """The extents of a split: knobs looked up, `?` computed; they cover the loop."""
    handles = iter(knobs)
    factors = [kernel.knob(next(handles)) if n < 0 else n for n in numbers]
    known = prod(n for n in factors if n)
    if (extent := f.extent) is None:
        return _symbolic_factors(kernel, f, factors, known)
    factors = [n or max(1, -(-extent // known)) for n in factors]
    if prod(factors) < extent:
        kernel.fail(
            f"expected factors that cover the {extent} iterations of {name_of(f)}, but {factors} cover "
            f"{prod(factors)}; use `?` for one of them"
        )
    return [*factors]


def _symbolic_factors(kernel: Kernel, f: loop.ForOp, factors: Sequence[int], known: int) -> Factors:
    """The extents of a split of a loop of symbolic extent: the outermost one is inferred."""
    if 0 in factors[1:] or factors[:1] != [0]:
        kernel.fail(f"expected `?` as first factor of {name_of(f)}, whose extent is symbolic, but got {list(factors)}")
    outer = (kernel.extent(f) + (known - 1)).floordiv(known, kernel.space.ranges)
    return [outer, *factors[1:]]


def split_loop(
    kernel: Kernel, f: loop.ForOp, factors: Sequence[int | Index], names: Sequence[str | None]
) -> list[loop.ForOp]:
    """Replace a loop by a nest; blocks get a predicate where the nest runs past the loop's extent."""
    nest = make_nest(factors, names, f, kernel.space.values)
    move_ops(body_of(f), body_of(nest[-1]))
    insert_before(nest[0], f)
    nest[0].attributes |= f.attributes
    expr: Index = ZERO
    for inner, n in zip(nest, factors, strict=True):
        expr = expr * (n if isinstance(n, int) else 1) + kernel.space.dim(inner.iv)
    substitute(kernel.space, users([f.iv]), {f.iv: expr})
    if f.extent is None or prod(n for n in factors if isinstance(n, int)) > f.extent:
        for block in blocks_below(nest[-1]):
            kernel.add_where(block, [kernel.extent(f) - expr - 1])
    kernel.retire(f)
    f.detach()
    f.erase()
    return nest


def part_names(f: loop.ForOp, results: Sequence[SSAValue]) -> list[str | None]:
    """Name hints for the parts of a loop: those of their handles, else derived from the loop's."""
    base = f.iv.name_hint or "l"
    names = [f"{base}_o", f"{base}_i"] if len(results) == 2 else [base] * len(results)
    return [r.name_hint or n for r, n in zip(results, names, strict=True)]


def split(kernel: Kernel, op: sched.SplitOp) -> None:
    """Split a loop into a nest."""
    f = kernel.loop(op.loop)
    kernel.check(legality.transformable(f))
    if not op.loops:
        kernel.fail("expected at least one factor")
    factors = resolve_factors(kernel, f, op.factors.get_values(), op.knobs)
    for handle, part in zip(op.loops, split_loop(kernel, f, factors, part_names(f, op.loops)), strict=True):
        kernel.give(handle, part)


def _nested(kernel: Kernel, handles: Sequence[SSAValue], otherwise: str) -> list[loop.ForOp]:
    """
    The loops behind the handles, which must be directly nested, outer to inner.

    Otherwise it fails with the message `otherwise`, formatted with the loops' names.
    """
    loops = kernel.loops(handles)
    for f in loops:
        kernel.check(legality.transformable(f))
    chain, reason = legality.nested_chain(loops)
    kernel.check(reason)
    if chain != loops:
        kernel.fail(otherwise.format(", ".join(map(name_of, loops))))
    return loops


def tile(kernel: Kernel, op: sched.TileOp) -> None:
    """Split loops by inner extents and bring the inner parts inside."""
    loops = _nested(kernel, op.loops, "expected loops directly inside each other, but got {}")
    kernel.check(legality.perfectly_nested(loops) or legality.reorderable(kernel, loops))
    n, knobs = len(loops), iter(op.knobs)
    inner = [kernel.knob(next(knobs)) if k < 0 else k for k in op.factors.get_values()]
    parts: list[list[loop.ForOp]] = []
    for k, (f, extent) in enumerate(zip(loops, inner, strict=True)):
        names = part_names(f, [op.tiles[k], op.tiles[n + k]])
        parts.append(split_loop(kernel, f, resolve_factors(kernel, f, [0, extent], ()), names))
    outer, inside = [p[0] for p in parts], [p[1] for p in parts]
    permute([f for p in parts for f in p], [*outer, *inside])
    for handle, f in zip(op.tiles, [*outer, *inside], strict=True):
        kernel.give(handle, f)


def fuse(kernel: Kernel, op: sched.FuseOp) -> None:
    """Fuse the loops of a perfect nest into one."""
    otherwise = "expected loops directly inside each other, outer to inner, but got {}; use sched.reorder first"
    loops = _nested(kernel, op.loops, otherwise)
    kernel.check(legality.perfectly_nested(loops) or reduces_alike(kernel, loops))
    for f in loops[1:]:
        if f.extent is None:
            kernel.fail(f"expected static extents of all loops but the first, but that of {name_of(f)} is symbolic")
    name = op.result.name_hint or "_".join(f.iv.name_hint or "l" for f in loops)
    total = kernel.extent(loops[0]) * prod(f.extent or 0 for f in loops[1:])
    fused = make_loop(total, name, loops[0], kernel.space.values)
    move_ops(body_of(loops[-1]), body_of(fused))
    insert_before(fused, loops[0])
    rest, to = kernel.space.dim(fused.iv), dict[SSAValue, Index]()
    for f in loops[:0:-1]:
        to[f.iv] = rest.mod(f.extent or 1, kernel.space.ranges)
        rest = rest.floordiv(f.extent or 1, kernel.space.ranges)
    to[loops[0].iv] = rest
    substitute(kernel.space, users(to), to)
    for f in loops:
        kernel.retire(f)
    loops[0].detach()
    loops[0].erase()
    kernel.give(op.result, fused)


def reduces_alike(kernel: Kernel, loops: Sequence[loop.ForOp]) -> str | None:
    """Loops that reduce a block are not fused with loops that run along its spatial axes."""
    for block in blocks_below(loops[-1]):
        reducing = [f for f in loops if legality.reduces(kernel, f, block)]
        spatial = [f for f in loops if legality.spreads(kernel, f, block)]
        if reducing and spatial:
            return (
                f"expected loops of one kind, but {name_of(reducing[0])} reduces {name_of(block)} "
                f"and {name_of(spatial[0])} does not"
            )
    return None


def peelable(kernel: Kernel, f: loop.ForOp, main: int) -> str | None:
    """A reduction along the loop is initialized in the main part, and continued in the rest."""
    n = kernel.space.number(f.iv)
    for block in blocks_below(f):
        if block.has_init and legality.reduces(kernel, f, block):
            ranges = kernel.space.ranges_with({n: (main, main)})
            if not any(b.bounds(ranges)[0] > 0 for b in kernel.bindings(block)[block.num_spatial :]):
                return f"cannot tell that {name_of(block)} begins before the last iterations of {name_of(f)}"
    return None


def peel(kernel: Kernel, op: sched.PeelOp) -> None:
    """Move the last iterations of a loop into a second loop."""
    f = kernel.loop(op.loop)
    kernel.check(legality.transformable(f))
    by, extent = op.by.value.data, f.extent
    if extent is None:
        kernel.fail(f"expected a static extent of {name_of(f)}, but it is symbolic; use sched.split first")
    if not 0 < by < extent:
        kernel.fail(f"expected between 1 and {extent - 1} iterations of {name_of(f)} to peel, but got {by}")
    kernel.check(peelable(kernel, f, extent - by))
    base = f.iv.name_hint or "l"
    main = make_loop(extent - by, op.main.name_hint or base, f)
    rest = f.clone()
    rest.iv.name_hint = op.rest.name_hint or f"{base}_rest"
    rest_nest = make_loop(by, rest.iv.name_hint, f)
    move_ops(body_of(rest), body_of(rest_nest))
    move_ops(body_of(f), body_of(main))
    insert_before(main, f)
    insert_after(rest_nest, main)
    kernel.partial |= {*blocks_below(main), *blocks_below(rest_nest)}
    for block in blocks_below(rest_nest):
        if block.has_init and legality.reduces(kernel, rest, block):
            block.init.erase_block(block.init.block)
        kernel.name_block(block, f"{block.name_}_rest")
    substitute(kernel.space, users([f.iv]), {f.iv: kernel.space.dim(main.iv)})
    substitute(kernel.space, users([rest.iv]), {rest.iv: kernel.space.dim(rest_nest.iv) + (extent - by)})
    kernel.retire(f)
    f.detach()
    f.erase()
    kernel.give(op.main, main)
    kernel.give(op.rest, rest_nest)
