"""The walk over lowered functions gives what xDSL's own gives."""

import pytest
from sched_kernels import KERNELS, parse

from mlc.dialects.walk import walk


@pytest.mark.parametrize("name", KERNELS)
def test_operations_come_in_the_order_of_the_text(name: str) -> None:
    func = parse(KERNELS[name])
    assert list(walk(func)) == list(func.walk())
