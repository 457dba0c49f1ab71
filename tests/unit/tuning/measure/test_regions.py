import ctypes
import os

import numpy as np
import pytest

from mlc.tuning.measure.artefact import TensorInfo
from mlc.tuning.measure.child import in_child
from mlc.tuning.measure.regions import ArrayRegion, GuardedRegion, scratch_region


def written(address):
    """How a process ends that writes a byte there."""

    def write():
        ctypes.c_uint8.from_address(address).value = 1
        return "alive"

    return in_child(write, 60, 1 << 30)


@pytest.mark.parametrize("size", [1, 64, 240, 4096, 5000])
def test_memory_around_an_array_is_guarded(size):
    region = GuardedRegion(size)
    assert region.address % 64 == 0
    assert written(region.address + size - 1).value == "alive"
    assert written(region.first + region.length).died == "SIGSEGV"
    assert written(region.first - 1).died == "SIGSEGV"
    region.bytes[:] = 7
    assert region.intact()
    if region.address + size < region.first + region.length:
        ctypes.c_uint8.from_address(region.address + size).value = 1
        assert not region.intact()


def test_bytes_in_front_of_an_array_are_watched():
    region = GuardedRegion(100)
    ctypes.c_uint8.from_address(region.address - 1).value = 1
    assert not region.intact()


def test_a_frozen_array_is_read_only():
    region = ArrayRegion(TensorInfo((3, 5), "float32"))
    region.array[...] = 2
    region.freeze()
    assert written(region.address).died == "SIGSEGV"
    assert np.array_equal(region.array, np.full((3, 5), 2, np.float32))


def test_shared_memory_is_seen_by_the_parent():
    region = GuardedRegion(8, shared=True)
    assert written(region.address).value == "alive"
    assert region.bytes[0] == 1


def test_scratch_of_threads_does_not_share_lines():
    region, stride = scratch_region(100, 3)
    assert (region.size, stride) == (384, 128)


def test_a_child_that_hangs_is_ended():
    ended = in_child(lambda: os.read(os.pipe()[0], 1), 0.2, 1 << 30)
    assert ended.timed_out
    assert ended.value is None


def test_a_child_has_a_memory_limit():
    def allocate():
        try:
            GuardedRegion(1 << 30)
        except OSError as error:
            return error.strerror
        return "memory"

    assert in_child(allocate, 60, 1 << 24).value == "Cannot allocate memory"
    assert in_child(allocate, 60, 1 << 32).value == "memory"


def test_how_a_child_ended():
    assert in_child(lambda: os.kill(os.getpid(), 9), 60, 1 << 30).died == "SIGKILL"
    assert in_child(lambda: os._exit(3), 60, 1 << 30).died == "exit code 3"


def test_a_value_comes_whole_and_before_its_process_is_torn_down(monkeypatch):
    waited = []
    wait = os.waitpid
    monkeypatch.setattr(os, "waitpid", lambda pid, how: waited.append(pid) or wait(pid, how))
    in_child(lambda: 0, 60, 1 << 30)
    del waited[:]
    value = in_child(lambda: bytes(5 << 20), 60, 1 << 30).value
    assert value == bytes(5 << 20)
    assert len(waited) == 1  # the child before this one
    in_child(lambda: 0, 60, 1 << 30)
    assert len(waited) == 2  # no more than one dead child is left
