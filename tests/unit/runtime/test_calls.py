"""What a call does with its arrays: the quick way for those that fit, a copy or an error for the others."""

import numpy as np
import pytest

import mlc
from mlc.runtime.executable import address_of, is_ready

te = mlc.te


@pytest.fixture(scope="module")
def op():
    x = te.placeholder((3, 5), name="x")
    return mlc.build(te.func("twice", [x], [te.compute((3, 5), lambda i, j: x[i, j] * 2.0, "y")]), threads=1)


X = np.arange(15, dtype=np.float32).reshape(3, 5)


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (2, 0, 4)])
def test_addresses_are_those_of_the_interface(shape):
    array = np.zeros(shape, np.float32)
    assert address_of(array) == array.__array_interface__["data"][0]


def test_addresses_of_views():
    array = np.arange(24.0).reshape(4, 6)
    for view in (array[1:], array[:, ::2], array.T, array.reshape(-1)[3:5]):
        assert address_of(view) == view.__array_interface__["data"][0]


def test_only_plain_arrays_go_the_quick_way():
    dtype = np.dtype(np.float32)
    assert is_ready(X, dtype, (3, 5))
    frozen = X.copy()
    frozen.flags.writeable = False
    for other in (X.T, X.astype("f8"), X.astype(">f4"), X[:, :4], X[:2], X.tolist(), frozen, X.view(np.recarray)):
        assert not is_ready(other, dtype, (3, 5))


def test_what_is_not_ready_is_copied_or_refused(op):
    frozen = X.copy()
    frozen.flags.writeable = False
    odd = np.asfortranarray(X)
    for given in (X, frozen, odd, X.view(np.recarray)):
        np.testing.assert_array_equal(op(given), X * 2)
    for wrong in (X.astype("f8"), X.astype(">f4"), X[:2], X.T):
        with pytest.raises(ValueError, match="expected input 'x'"):
            op(wrong)
    for wrong in (X.astype("f8"), odd.copy(order="F"), frozen, X[:2].copy()):
        with pytest.raises(ValueError, match="expected output"):
            op(X, out=wrong)


def test_out_is_written_and_returned(op):
    out = np.empty_like(X)
    assert op(X, out=out) is out
    assert op(X, out=[out]) is out
    np.testing.assert_array_equal(out, X * 2)
