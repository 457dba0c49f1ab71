"""What a caller of the interpreters may ask to see: each operation that ran, with the values that it computed."""

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import Operation

Observe = Callable[[Operation, Sequence[Any]], None]
"""
Called after an operation ran, with its results: numpy arrays and scalars, which the callee must not change.

For an operation without results that writes memory (loop.store, runtime.call) they are the values that it wrote.
"""
