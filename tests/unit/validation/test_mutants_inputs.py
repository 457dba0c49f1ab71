"""The mutants' own interpreter takes the inputs that kernels declare."""

import numpy as np
import pytest
from scripts import script
from xdsl.dialects.builtin import TensorType, f32, i8


@pytest.fixture(scope="module")
def program():
    return script("tests/mutants", "program")


def test_a_scalar_stays_one_and_bytes_are_signless(program) -> None:
    arrays = [np.array(2.5, np.float32), np.arange(250, 256, dtype=np.uint8).reshape(2, 3).T]
    scalar, table = program.as_declared(arrays, [TensorType(f32, []), TensorType(i8, [3, 2])])
    assert scalar.shape == ()
    assert table.dtype == np.int8
    assert table.flags.c_contiguous
    np.testing.assert_array_equal(table, [[-6, -3], [-5, -2], [-4, -1]])
