"""Predicates of loops: what follows from what."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from mlc.dialects.index import Index, dim
from mlc.passes.loop.index_space.predicates import implies

NUMBER = st.integers(-6, 6)


def value(e: Index, at: tuple[int, ...]) -> int:
    return e.const + sum(c * at[t] for t, c in e.terms if isinstance(t, int))


@given(st.data())
def test_a_predicate_that_follows_from_another_holds_with_it(data):
    n, i = dim(0), dim(1)
    known, e = (n * data.draw(NUMBER) + i * data.draw(NUMBER) + data.draw(st.integers(-20, 20)) for _ in range(2))
    if data.draw(st.booleans()):
        known = e * data.draw(st.integers(1, 5)) + data.draw(st.integers(-4, 4))
    if implies(known, e, {0: (1, 9), 1: (0, 5)}):
        for at in itertools.product(range(1, 10), range(6)):
            assert value(known, at) < 0 or value(e, at) >= 0


def test_a_predicate_follows_from_a_multiple_of_it():
    n, i, inner = dim(0), dim(1), dim(2)
    ranges = {0: (1, 1 << 20), 1: (0, 114), 2: (0, 13)}
    assert implies(n * 4 - i * 14 - inner - 1, n * 2 - i * 7 - 1, ranges)
    assert not implies(n * 2 - i * 7 - 1, n * 4 - i * 14 - 3, ranges)
