"""Run pipelines, as pass objects or as text, for `mlc.compile`, mlc-opt and tests alike."""

from collections.abc import Collection, Iterable
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mlc.driver.pipeline.registry import is_users_own, make_context
from mlc.driver.pipeline.text import parse_pipeline
from mlc.passes.pass_manager import BrokenByPass, Instrument, PassFailed, apply_passes

__all__ = ["BrokenByPass", "Instrument", "PassFailed", "make_context", "parse_pipeline", "run_passes"]


def resolve(specs: Iterable[str | ModulePass]) -> list[ModulePass]:
    """The passes for a mixture of pass objects and pipeline texts."""
    passes: list[ModulePass] = []
    for spec in specs:
        passes += parse_pipeline(spec) if isinstance(spec, str) else [spec]
    return passes


def _is_nobodys(module_pass: ModulePass) -> bool:
    return False


def run_passes(
    module: ModuleOp,
    ctx: Context,
    specs: Iterable[str | ModulePass],
    *,
    verify: bool = False,
    instruments: Iterable[Any] = (),
    required: Collection[str] = (),
    blame: bool = False,
) -> None:
    """
    Apply the passes in order; with `verify`, raise BrokenByPass after one that breaks the IR.

    No instrument can leave out a pass whose name is in `required`. With `blame`, an exception that a pass of the
    user's own raises is a UserError, and so is IR that it breaks.
    """
    users = is_users_own if blame else _is_nobodys
    passes = resolve(specs)
    apply_passes(module, ctx, passes, verify=verify, instruments=instruments, required=required, is_users=users)
