"""The candidates that TVM's policies give, and what is refused."""

import pytest

from mlc.support.errors import UserError
from mlc.tuning.templates.policies import annotate_entities, reorder_entities, split_entities


def sizes(*arguments, **named):
    return [one.size for one in split_entities(*arguments, **named)]


def test_splits():
    assert sizes(6, num_outputs=2) == [(-1, 1), (-1, 2), (-1, 3), (-1, 6)]
    assert sizes(6, num_outputs=2, max_factor=2) == [(-1, 1), (-1, 2)]
    assert sizes(6, "power2", num_outputs=2) == [(-1, 1), (-1, 2), (-1, 4)]
    assert sizes(6, "power2", num_outputs=2, no_tail=True) == [(-1, 1), (-1, 2)]
    assert sizes(6, "verbose", num_outputs=2) == [(-1, n) for n in (1, 2, 3, 4, 6)]
    assert sizes(6, "candidate", num_outputs=2, candidate=[[-1, 4], [-1, 5]]) == [(-1, 4), (-1, 5)]
    assert sizes(6, num_outputs=2, filter=lambda one: one.size[-1] > 2) == [(-1, 3), (-1, 6)]
    three = sizes(12, num_outputs=3)
    assert len(three) == 18, "TVM's: for each divisor those of the quotient"
    assert all(12 % (b * c) == 0 for _, b, c in three)
    assert sizes(7, num_outputs=1) == [(-1,)]


def perms(*arguments, **named):
    return [one.perm for one in reorder_entities(*arguments, **named)]


def test_orders():
    assert perms("abc", "identity") == [(0, 1, 2)]
    assert len(set(perms("abcd"))) == 24
    assert perms("abcd", "interval_all", interval=(1, 3)) == [(0, 1, 2, 3), (0, 2, 1, 3)]
    assert perms("abc", "candidate", candidate=["cab"]) == [(2, 0, 1)]
    names = ["y0", "y1", "x0", "x1", "k"]
    found = perms(names, "interleave", spatial=[["y0", "y1"], ["x0", "x1"]], reduce=[["k"]])
    assert len(found) == len(set(found)) == 2 * 6
    for one in found:
        assert set(one[:2]) == {0, 2}, "the outer loops come first"


def test_annotations():
    words = [one.anns for one in annotate_entities(2, "try_unroll_vec")]
    assert ("vec", "vec") not in words
    assert len(words) == 8
    assert [one.anns for one in annotate_entities(1, "try_vec")] == [("none",), ("vec",)]
    assert [one.anns for one in annotate_entities(2, "candidate", [["none", "vec"]])] == [("none", "vec")]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: split_entities(6, "halves", num_outputs=2), "expected a policy among factors, power2, verbose"),
        (lambda: split_entities(6, num_outputs=0), "expected num_outputs of at least 1"),
        (lambda: split_entities(6, num_outputs=2, filter=lambda _: False), "expected at least one candidate"),
        (lambda: split_entities(6, "candidate", num_outputs=2, candidate=[[1, 2, 3]]), "candidates of 2 factors"),
        (lambda: split_entities(1 << 20, num_outputs=8), "expected at most 131072 candidates of the split"),
        (lambda: reorder_entities("abc", "some"), "expected a policy among identity"),
        (lambda: reorder_entities("abc", "candidate", candidate=["ab"]), "expected each of a, b, c once"),
        (lambda: reorder_entities("abc", "candidate", candidate=["abd"]), "expected loops among a, b, c"),
        (lambda: reorder_entities("abcdefghijkl"), "expected at most 131072 candidates of the reorder"),
        (lambda: annotate_entities(2, "bind_gpu"), "expected words among try, none, unroll, vec"),
        (lambda: annotate_entities(2, "candidate", [["vec"]]), "expected 2 words"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(UserError, match=message):
        make()
