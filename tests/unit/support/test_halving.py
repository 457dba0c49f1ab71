"""Delta debugging: what is removed, in which parts, and the search for the first bad number."""

import pytest

from mlc.support.halving import first_bad, shrink


def removing(needed):
    """An attempt that removes items from a list as long as those needed stay, and the parts that were tried."""
    tried = []

    def attempt(state, items):
        tried.append(len(items))
        left = [one for one in state if one not in items]
        return left if needed <= set(left) else None

    return attempt, tried


@pytest.mark.parametrize("needed", [set(), {0}, {63}, {3, 40}, set(range(0, 64, 7))])
def test_only_what_is_needed_is_left(needed):
    attempt, tried = removing(needed)
    assert shrink(list(range(64)), lambda state: state, attempt) == sorted(needed)
    assert len(tried) <= 2 * 64


def test_halves_come_first():
    attempt, tried = removing({5})
    assert shrink(list(range(32)), lambda state: state, attempt) == [5]
    assert tried[:3] == [32, 16, 16]
    assert len(tried) < 16


def test_nothing_to_remove():
    assert shrink([], lambda state: state, lambda state, items: None) == []


@pytest.mark.parametrize("number", [1, 2, 7, 99, 100])
def test_the_first_bad_number(number):
    asked = []
    assert first_bad(100, lambda n: asked.append(n) or n >= number) == number
    assert len(asked) <= 7
