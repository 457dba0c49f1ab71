"""Quotients and remainders that ranges simplify: values stay, and a lane inside of a block leaves the division."""

from hypothesis import given
from hypothesis import strategies as st

from mlc.dialects.index import Index, dim

SIZES = st.lists(st.sampled_from([1, 2, 3, 4, 8, 16]), min_size=3, max_size=3)
COEFFICIENTS = st.lists(st.sampled_from([-1, 0, 1, 2, 3, 4, 8, 16, 32]), min_size=3, max_size=3)


@given(SIZES, COEFFICIENTS, st.integers(-20, 20), st.sampled_from([2, 3, 4, 6, 8, 12, 16, 32, 64]), st.data())
def test_simplified_quotient_and_remainder_keep_their_values(sizes, coefficients, constant, by, data):
    e = Index.of(constant, dict(enumerate(coefficients)))
    ranges = [(0, n - 1) for n in sizes]
    values = [data.draw(st.integers(0, n - 1)) for n in sizes]
    x = e.evaluate(values)
    assert e.floordiv(by, ranges).evaluate(values) == x // by
    assert e.mod(by, ranges).evaluate(values) == x % by


def test_a_lane_leaves_the_division_by_a_multiple_of_its_block():
    e = dim(0) * 16 + dim(1)
    ranges = [(0, 7), (0, 15)]
    assert e.floordiv(32, ranges) == dim(0).floordiv(2)
    assert e.mod(32, ranges) == dim(0).mod(2) * 16 + dim(1)
