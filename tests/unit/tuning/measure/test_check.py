import numpy as np
import pytest

from mlc.support.dtypes import dtype_of
from mlc.tuning.measure.check import Reference, allowances, silent_share


def array(*values, dtype="float32"):
    return np.array(values, dtype_of(dtype))


def difference(expected, got, allowed=0.0, from_floats=True):
    found = Reference([expected], [allowed], from_floats).difference([got])
    return None if found is None else found.index


@pytest.mark.parametrize(
    ("got", "index"),
    [
        ((1.0, 2.0, 3.0), None),
        ((1.0, 2.0009, 3.0), None),
        ((1.0, 2.01, 3.0), (1,)),
        ((1.0, 2.0, np.nan), (2,)),
        ((np.inf, 2.0, 3.0), (0,)),
    ],
)
def test_floats(got, index):
    assert difference(array(1.0, 2.0, 3.0), array(*got), 1e-3) == index


def test_what_is_no_number_must_stand_at_the_same_places():
    base = array(np.nan, np.inf, -np.inf, 1.0)
    assert difference(base, base.copy(), 1e-3) is None
    assert difference(base, array(np.nan, np.inf, np.inf, 1.0), 1e-3) == (2,)
    assert difference(base, array(0.0, np.inf, -np.inf, 1.0), 1e-3) == (0,)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_may_be_two_units_off(dtype):
    unit = 2**-10 if dtype == "float16" else 2**-7
    base = array(1.0, 100.0, dtype=dtype)
    assert difference(base, array(1 + unit, 100.0, dtype=dtype)) is None
    assert difference(base, array(1 + 4 * unit, 100.0, dtype=dtype)) == (0,)


def test_integers_are_equal_unless_floats_decide_them():
    base = np.arange(200, dtype=np.int32)
    near, far = base.copy(), base.copy()
    near[7] += 1
    far[7] += 2
    assert difference(base, near) is None
    assert difference(base, near, from_floats=False) == (7,)
    assert difference(base, far) == (7,)


def test_what_is_allowed_follows_from_the_type_and_from_how_inputs_move_outputs():
    single, half = 2.0**-23, 2.0**-10
    outputs = [array(1.0, -8.0), array(3, dtype="int32")]
    assert allowances(outputs, [], single) == [64 * single * 8, 0.0]
    assert allowances(outputs, [], half) == [64 * half * 8, 0.0]  # sums in f16
    moved = [array(1.5, -8.0), array(4, dtype="int32")]
    assert allowances(outputs, [outputs, moved], single) == [64 * single * 8 + 16 * 0.5, 0.0]
    assert allowances([array(1.0, np.inf)], [[array(np.nan, 1.0)]], single) == [64 * single]


def test_outputs_that_say_nothing():
    base = [array(1.0, 2.0, np.nan, np.inf), array(7, dtype="int32")]
    moved = [array(1.0, 2.5, 1.0, 3.0), array(9, dtype="int32")]
    assert silent_share(base, moved) == 0.75
    assert silent_share([array(7, dtype="int32")], [array(7, dtype="int32")]) == 0.0


def test_an_algorithm_may_err_by_its_growth():
    reference = Reference([np.ones(4, np.float32)], [1e-4], True)
    got = [np.ones(4, np.float32) + 5e-4]
    assert reference.difference(got) is not None
    assert reference.difference(got, growth=12.0) is None
    assert reference.difference([got[0] + 1e-3], growth=12.0) is not None
