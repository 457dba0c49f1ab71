"""The collector is slowed down inside of compilations, also of several threads, and as before after them."""

import gc
import threading

import pytest

from mlc.support.collector import RARE, rarely_collected


def test_the_threshold_is_restored_after_the_last_of_nested_uses() -> None:
    before = gc.get_threshold()
    with rarely_collected():
        with rarely_collected():
            assert gc.get_threshold()[0] == RARE
        assert gc.get_threshold()[0] == RARE
    assert gc.get_threshold() == before


def test_an_error_restores_it_too() -> None:
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="inside"), rarely_collected():
        raise ValueError("inside")
    assert gc.get_threshold() == before


def test_threads_that_overlap() -> None:
    before = gc.get_threshold()
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with rarely_collected():
            inside.set()
            leave.wait()

    with rarely_collected():
        thread = threading.Thread(target=other)
        thread.start()
        inside.wait()
    assert gc.get_threshold()[0] == RARE  # the other thread is inside still
    leave.set()
    thread.join()
    assert gc.get_threshold() == before
