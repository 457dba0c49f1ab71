"""What reproduces a pass's error: the IR in front of it, the pipeline, and the inputs of the functions."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mlc.driver.pipeline.manager import PassFailed
from mlc.driver.pipeline.text import pass_text
from mlc.support.errors import UserError
from mlc.support.weights import WeightStore


@dataclass(frozen=True)
class ValidatedOn:
    """The inputs and weights with which a validating compilation has run functions."""

    inputs: dict[str, Any]
    """Recorded inputs by function."""
    weights: WeightStore | None
    """The weights that the module reads."""


@contextmanager
def replayable(
    text: Callable[[Any], str | None], passes: list[Any], compared: Callable[[Any], ValidatedOn | None]
) -> Generator[None]:
    """
    Attach the IR and the pipeline that reproduce what a pass does wrong to its exception, as `reproducer`.

    The inputs and weights with which a validating compilation has run the functions are attached, too, as `compared`.
    Where `text` gives no IR for the exception, nothing is attached.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, UserError) and not (isinstance(error, PassFailed) or getattr(error, "of_pass", False)):
            raise
        if (ir := text(error)) is None:
            raise
        try:
            setattr(error, "reproducer", (ir, ",".join(map(pass_text, passes))))  # noqa: B010
            setattr(error, "compared", compared(error))  # noqa: B010
        except AttributeError:
            pass
        raise
