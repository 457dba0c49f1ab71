import ctypes

import numpy as np
import pytest

from mlc.support.abi import KERNEL
from mlc.tuning.farm import Evaluation
from mlc.tuning.measure.evaluator import KernelFailed, Timer, time_evaluator


def evaluated(evaluation, ns_a_call, slower_than=float("inf"), least=0):
    """The seconds, and the numbers of calls of each timed loop; the clock does not see less than `least` ns."""
    numbers, flushes = [], []

    def run(number):
        numbers.append(number)
        spent = number * ns_a_call
        return spent if spent >= least else 0

    seconds = time_evaluator(run, evaluation, lambda: flushes.append(len(numbers)), slower_than)
    return seconds, numbers, flushes


def test_one_number_for_each_repeat():
    assert evaluated(Evaluation(number=4, repeat=3, min_repeat_ms=0), 1000) == ((1e-6,) * 3, [4, 4, 4], [0, 1, 2])


def test_the_number_grows_by_the_time_that_is_missing_and_stays():
    # 4 calls take 4 us of 100: the next loop has 100 / 1 + 1 calls
    assert evaluated(Evaluation(number=4, repeat=2, min_repeat_ms=0.1), 1000)[1:] == ([4, 101, 101], [0, 2])


def test_the_number_grows_at_least_by_the_golden_ratio():
    # 100 calls take 99.9 us of 100: 101.1 calls would do, but 161 are made
    assert evaluated(Evaluation(number=100, repeat=1, min_repeat_ms=0.1), 999)[1] == [100, 161]


def test_a_clock_without_ticks_ends():
    assert evaluated(Evaluation(number=1, repeat=1, min_repeat_ms=1), 1, least=1 << 40)[1] == [1] * 101


def test_a_candidate_that_is_clearly_slower_is_timed_once():
    assert evaluated(Evaluation(number=2, repeat=3, min_repeat_ms=0), 1000, slower_than=0.9e-6)[1] == [2]
    assert evaluated(Evaluation(number=2, repeat=3, min_repeat_ms=0), 1000, slower_than=1.1e-6)[1] == [2, 2, 2]


def test_the_loop_of_machine_code_calls_so_often():
    calls = []

    def kernel(args, rt):
        calls.append((args, rt))
        return 7 if len(calls) == 9 else 0

    timer, called = Timer(), KERNEL(kernel)
    address = ctypes.cast(called, ctypes.c_void_p).value
    assert timer.nanoseconds(address, 16, 32, 5) > 0
    assert calls == [(16, 32)] * 5
    with pytest.raises(KernelFailed, match="the kernel returned error 7"):
        timer.nanoseconds(address, 16, 32, 9)
    assert len(calls) == 9


def test_flushing_keeps_the_values():
    array = np.arange(1000, dtype=np.float32)
    Timer().flush([(array.ctypes.data, array.nbytes), (0, 0)])
    assert np.array_equal(array, np.arange(1000, dtype=np.float32))
