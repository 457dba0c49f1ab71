"""The index space answers what an enumeration of small loops answers: ranges, predicates, regions, dependences."""

import itertools
from collections.abc import Iterator, Mapping
from math import prod
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st
from loop_native import parse
from xdsl.ir import Operation

from mlc.dialects import loop
from mlc.dialects.index import Index, const, dim
from mlc.passes.loop.index_space.accesses import Access, accesses
from mlc.passes.loop.index_space.dependence import dependence_equalities, recoverable
from mlc.passes.loop.index_space.domain import loops_around, range_of
from mlc.passes.loop.index_space.predicates import always_holds, at_last_iterations, implies, unproved
from mlc.passes.loop.index_space.regions import interval_of, read_region, written_region
from mlc.passes.loop.index_space.space import IndexSpace

SMALL = st.integers(-4, 4)
SIZE = st.integers(1, 4)
Point = Mapping[int, int]
T = TypeVar("T", bound=Operation)


def points(space: IndexSpace, loops: list[loop.ForOp], at: Point) -> Iterator[dict[int, int]]:
    """The iterations of a nest: the value of each dimension."""
    if not loops:
        yield dict(at)
        return
    f, *inner = loops
    low, high = (space.expr(e, f.indices).evaluate(at) for e in (f.lower, f.upper))
    for i in range(low, high):
        yield from points(space, inner, {**at, space.number(f.iv): i})


def kernel(body: str, symbols: str = "") -> loop.FuncOp:
    """A kernel of one block."""
    return parse(f"loop.func @k(%Y: memref<999xf32>{symbols}) attributes {{outputs = 1 : i64}} {{\n{body}\n}}")


def only(f: loop.FuncOp, kind: type[T]) -> T:
    """The one op of a kind in a kernel."""
    (found,) = [op for op in f.walk() if isinstance(op, kind)]
    return found


@st.composite
def expressions(draw, dims: int) -> Index:
    """A quasi-affine expression over dimensions 0, 1, ..."""
    total = Index.of(draw(SMALL), {k: draw(SMALL) for k in range(dims)})
    for _ in range(draw(st.integers(0, 2))):
        inner, by = Index.of(draw(SMALL), {k: draw(SMALL) for k in range(dims)}), draw(st.integers(2, 5))
        total = total + (inner.mod(by) if draw(st.booleans()) else inner.floordiv(by)) * draw(SMALL)
    return total


# --- ranges ---


@given(st.data())
def test_a_range_holds_all_values_of_an_index(data):
    depth = data.draw(st.integers(1, 3))
    head, tail = "", ""
    for k in range(depth):
        outer = "".join(f" + %i{j} * {c}" for j in range(k) if (c := data.draw(SMALL)))
        head += f"loop.for %i{k} = {data.draw(SMALL)}{outer} to {data.draw(st.integers(-2, 6))}{outer} {{ "
        tail += "}"
    f = kernel(f'{head} loop.block "b" () {{ }} {tail}')
    loops = loops_around(only(f, loop.BlockOp))
    space = IndexSpace()
    numbers = [space.number(g.iv) for g in loops]
    found = list(points(space, loops, {}))
    for g, n in zip(loops, numbers, strict=True):
        low, high = range_of(g.iv)
        assert low <= high
        assert all(low <= p[n] <= high for p in found)
    if found:
        first = [p[numbers[0]] for p in found]
        assert range_of(loops[0].iv)[0] <= min(first)
        assert depth > 1 or range_of(loops[0].iv) == (min(first), max(first))


def test_a_loop_that_never_runs_has_the_range_of_one_iteration():
    f = kernel('loop.for %i = 3 to 3 { loop.block "b" () { } }')
    assert range_of(only(f, loop.ForOp).iv) == (3, 3)


def test_the_axis_of_a_block_and_a_symbol_have_ranges():
    f = kernel('loop.for %i = 0 to %n { loop.block "b" (%v : 7 = 0, %w : %n = %i) { } }', ", %n: index")
    v, w = only(f, loop.BlockOp).body.block.args
    n = f.args[1]
    assert range_of(v) == (0, 6)
    assert range_of(w) == (0, range_of(n)[1] - 1)
    assert range_of(only(f, loop.ForOp).iv) == range_of(w)


# --- predicates ---


@given(st.data())
def test_predicates_are_proved_and_dropped_as_in_an_enumeration(data):
    f = kernel(
        f"""loop.for %i = 0 to %n {{ loop.for %j = 0 to {data.draw(SIZE)} {{
        loop.block "b" (%v : %n = %i) {{ }} }} }}""",
        ", %n: index",
    )
    block = only(f, loop.BlockOp)
    loops, space = loops_around(block), IndexSpace()
    order = [space.number(v) for v in (f.args[1], *(g.iv for g in loops))]
    where = [data.draw(expressions(3)) for _ in range(data.draw(st.integers(1, 3)))]
    if data.draw(st.booleans()):
        where.append(dim(order[0]) - dim(order[1]) - 1)
    domain = [p for n in range(7) for p in points(space, loops, {order[0]: n})]
    kept = unproved(space, where)
    for e in where:
        last = at_last_iterations(e, space.last_value)
        for p in domain:
            assert not always_holds(space, e) or e.evaluate(p) >= 0
            assert e.evaluate(p) >= last.evaluate(p)
    for p in domain:
        assert all(e.evaluate(p) >= 0 for e in where) == all(e.evaluate(p) >= 0 for e in kept)


@given(st.data())
def test_an_implied_predicate_holds_where_the_known_one_does(data):
    e = data.draw(expressions(2))
    known = data.draw(expressions(2)) if data.draw(st.booleans()) else e * data.draw(SIZE) + data.draw(SMALL)
    if implies(known, e, {0: (0, 3), 1: (1, 5)}):
        for at in itertools.product(range(4), range(1, 6)):
            assert known.evaluate(at) < 0 or e.evaluate(at) >= 0


def test_one_of_two_predicates_that_imply_each_other_is_kept():
    f = kernel('loop.for %i = 0 to %n { loop.for %j = 0 to 1 { loop.block "b" () { } } }', ", %n: index")
    block, space = only(f, loop.BlockOp), IndexSpace()
    n, i, j = (space.dim(v) for v in (f.args[1], *(g.iv for g in loops_around(block))))
    assert len(unproved(space, [n * 2 - i * 3 + 2, n * 2 - i * 3 + j * 2 + 2])) == 1


def test_an_index_that_also_increases_an_expression_is_not_replaced_by_its_last_value():
    f = kernel('loop.for %i = 0 to %n { loop.block "b" () { } }', ", %n: index")
    space = IndexSpace()
    n, i = space.dim(f.args[1]), space.dim(only(f, loop.ForOp).iv)
    assert at_last_iterations(n - i - 1, space.last_value) == Index(0, ())
    assert always_holds(space, n - i - 1)
    # At the last index n - 1 this is 2 or more for n >= 8, at index 1 it is -1.
    e = i.floordiv(2) * 3 - i
    assert at_last_iterations(e, space.last_value) == e


# --- regions ---


@given(expressions(3), st.sets(st.integers(0, 2)), st.tuples(SIZE, SIZE, SIZE))
def test_an_interval_holds_all_values_and_where_exact_no_others(expr, fixed, sizes):
    interval = interval_of(expr, fixed, {k: (0, n - 1) for k, n in enumerate(sizes)})
    values: dict[tuple[int, ...], set[int]] = {}
    for at in itertools.product(*map(range, sizes)):
        found = values.setdefault(tuple(at[d] for d in sorted(fixed)), set())
        found.add(expr.evaluate(at) - interval.base.evaluate(at))
    for found in values.values():
        assert found <= set(range(interval.extent))
        assert not interval.exact or found == set(range(interval.extent))


SUBSCRIPTS = ("%v", "%w", "%v floordiv 2", "%v mod 2", "%v * 2 + %w", "%v + %w", "%w * 2", "%v * 3 + %w", "%w mod 3")


def split_block(data, subscripts: int) -> tuple[IndexSpace, loop.BlockOp, Access, list[int]]:
    """A block over two axes that are split by factors, and where these do not divide the extents, with predicates."""
    n, m, a, b = (data.draw(SIZE) for _ in range(4))
    n, m = n + 1, m + 1
    where = [f"{n - 1} - %i * {a} - %p"] * (n % a > 0) + [f"{m - 1} - %j * {b} - %q"] * (m % b > 0)
    order = data.draw(st.permutations([("i", -(-n // a)), ("p", a), ("j", -(-m // b)), ("q", b)]))
    at = ", ".join(data.draw(st.sampled_from(SUBSCRIPTS)) for _ in range(subscripts))
    nest = " ".join(f"loop.for %{name} = 0 to {size} {{" for name, size in order)
    f = parse(
        f"""loop.func @k(%Y: memref<{"x".join(["99"] * subscripts)}xf32>) attributes {{outputs = 1 : i64}} {{
        {nest} loop.block "b" (%v : {n} = %i * {a} + %p, %w : {m} = %j * {b} + %q)
        {f"where ({', '.join(where)})" if where else ""}
        {{ %z = arith.constant 0.0 : f32 loop.store %z, %Y[{at}] : f32 }} }} }} }} }} }}"""
    )
    block, space = only(f, loop.BlockOp), IndexSpace()
    numbers = [space.number(g.iv) for g in loops_around(block)]
    return space, block, accesses(space, block)[0], numbers


def iterations(space: IndexSpace, block: loop.BlockOp) -> list[dict[int, int]]:
    """The points at which a block runs."""
    where = space.exprs(block.where_exprs, block.args)
    return [p for p in points(space, loops_around(block), {}) if all(e.evaluate(p) >= 0 for e in where)]


@given(st.data())
def test_regions_hold_what_an_enumeration_touches(data):
    space, block, access, numbers = split_block(data, data.draw(st.integers(1, 3)))
    fixed = set(numbers[: data.draw(st.integers(0, 4))])
    domain = iterations(space, block)
    everywhere = {tuple(e.evaluate(p) for e in access.exprs) for p in domain}
    sizes = [max(x) + 1 for x in zip(*everywhere, strict=True)]
    touched: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    base: dict[tuple[int, ...], Point] = {}
    for p in domain:
        key = tuple(p[d] for d in sorted(fixed))
        base[key] = p
        touched.setdefault(key, set()).add(tuple(e.evaluate(p) for e in access.exprs))
    read, written = (region(space, access, fixed, sizes) for region in (read_region, written_region))
    covers = len(everywhere) == prod(sizes)
    injective = len(everywhere) == prod(block.static_extents)  # as blocks promise
    for key, found in touched.items():
        box = [range(i.base.evaluate(base[key]), i.base.evaluate(base[key]) + i.extent) for i in read]
        assert all(x in axis for point in found for x, axis in zip(point, box, strict=True))
        if covers and injective and all(i.exact for i in written):
            sure = [range(i.base.evaluate(base[key]), i.base.evaluate(base[key]) + i.extent) for i in written]
            inside = itertools.product(*([x for x in s if x < n] for s, n in zip(sure, sizes, strict=True)))
            assert set(inside) <= found


# --- dependences ---


def test_a_larger_digit_that_varies_hides_no_smaller_one():
    """`64 * a + 32 * p + i`: two iterations with different p never meet, whatever a and i are."""
    space = IndexSpace()
    loops = [loop.ForOp.make(const(n)) for n in (4, 2, 32, 33)]
    a, p, i, more = (space.dim(f.iv) for f in loops)
    block = loop.BlockOp.__new__(loop.BlockOp)  # only the expressions of an access count

    def equal(*exprs: Index) -> set[Index]:
        one, other = (Access(block, block, loops[0].iv, (e,), is_store=True) for e in exprs)
        return dependence_equalities(space, one, other, {1}, {0, 2, 3})

    whole = a * 64 + p * 32 + i
    assert equal(whole, whole) == {p}
    assert equal(whole, a * 64 + p * 32 + i.floordiv(4) * 4) == {p}
    assert equal(whole, whole + 1) == set()  # 63 and 64 - 1 + 0
    assert equal(a * 64 + p * 32 + more, a * 64 + p * 32 + more) == set()
    assert equal(a * 32 + p * 32 + i, a * 32 + p * 32 + i) == set()


@given(st.data())
def test_dependence_equalities_hold_between_iterations_that_meet(data):
    space, block, access, numbers = split_block(data, data.draw(st.integers(1, 3)))
    apart = set(data.draw(st.lists(st.sampled_from(numbers), min_size=1, unique=True)))
    inner = set(data.draw(st.lists(st.sampled_from(numbers), unique=True))) - apart
    same = [d for d in numbers if d not in apart | inner]
    equal = dependence_equalities(space, access, access, apart, inner)
    independent = all(recoverable(dim(d), equal, space.ranges) for d in apart)
    by_element: dict[tuple[object, ...], list[dict[int, int]]] = {}
    for p in iterations(space, block):
        key = tuple(e.evaluate(p) for e in access.exprs), tuple(p[d] for d in same)
        by_element.setdefault(key, []).append(p)
    for meeting in by_element.values():
        for e in equal:
            assert len({e.evaluate(p) for p in meeting}) == 1
        if independent:
            assert len({tuple(p[d] for d in sorted(apart)) for p in meeting}) == 1
