"""Run pass objects over a module, in order, watched by instruments; see driver/pipeline/manager.py for text."""

import traceback
from collections.abc import Callable, Collection, Iterable
from typing import Any, Protocol

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from mlc.passes.endless import EndlessRewrite, guard_walkers
from mlc.passes.verifier import Verifier
from mlc.support.diagnostics import Place, place_of_op
from mlc.support.errors import UserError


class Instrument(Protocol):
    """
    What may watch a pipeline. Each method is optional.

    should_run(pass, module)     False leaves the pass out; a required pass is not asked about
    before(pass, module)         before a pass that runs; False leaves it out still, unless it is required
    after(pass, module)          after a pass that succeeded, before its result is verified
    failed(pass, module, error)  after a pass that raised
    rejected(pass, module, error)  after a pass whose result an instrument or the verifier refused
    """


class BrokenByPass(Exception):
    """A pass turned valid IR into invalid IR: the pass has a bug."""

    def __init__(self, module_pass: ModulePass, error: VerifyException) -> None:
        self.op = getattr(error, "op", None)
        about = f"'{self.op.name}' op " if self.op is not None else ""
        super().__init__(f"pass '{module_pass.name}' left invalid IR: {about}{error}")
        self.module_pass = module_pass


class NeverEnds(BrokenByPass):
    """A pass whose rewrites never end was stopped."""

    def __init__(self, module_pass: ModulePass, error: EndlessRewrite) -> None:
        Exception.__init__(self, f"pass '{module_pass.name}' {error}")
        self.op = error.op
        self.module_pass = module_pass


class PassFailed(UserError):
    """A pass of the user's own is wrong: it raised something, left invalid IR or changed a result."""

    def __init__(self, module_pass: ModulePass, error: Exception) -> None:
        if isinstance(error, BrokenByPass):
            super().__init__(f"your {error}", place=str(place_of_op(error.op, Place(""), {})))
            return
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
        super().__init__(f"your pass '{module_pass.name}' raised {type(error).__name__}: {error} ({place})")


def apply_passes(
    module: ModuleOp,
    ctx: Context,
    passes: Iterable[ModulePass],
    *,
    verify: bool = False,
    instruments: Iterable[Any] = (),
    required: Collection[str] = (),
    is_users: Callable[[ModulePass], bool] = lambda module_pass: False,
) -> None:
    """
    Apply the passes in order; with `verify`, raise BrokenByPass after one that breaks the IR.

    No instrument can leave out a pass whose name is in `required`. Where `is_users` says that a pass is the user's own,
    an exception that it raises becomes a UserError, and so does invalid IR that it leaves.
    """
    guard_walkers()
    hooks = list(instruments)
    asked = [hook.should_run for hook in hooks if hasattr(hook, "should_run")]
    before = [hook.before for hook in hooks if hasattr(hook, "before")]
    after = [hook.after for hook in reversed(hooks) if hasattr(hook, "after")]
    failed = [hook.failed for hook in hooks if hasattr(hook, "failed")]
    rejected = [hook.rejected for hook in hooks if hasattr(hook, "rejected")]
    verifier = Verifier()
    for module_pass in passes:
        free = module_pass.name not in required
        if free and False in [hook(module_pass, module) for hook in asked]:
            continue
        if False in [hook(module_pass, module) for hook in before] and free:
            continue
        told = failed
        try:
            _apply(module_pass, ctx, module)
            told = rejected
            for hook in after:
                hook(module_pass, module)
            if verify or is_users(module_pass):
                _verify(verifier, module_pass, module)
        except Exception as error:
            for hook in told:
                hook(module_pass, module, error)
            own = told is failed or isinstance(error, BrokenByPass)  # not an instrument's own exception
            if own and is_users(module_pass) and not isinstance(error, UserError):
                raise PassFailed(module_pass, error) from error
            raise


def _apply(module_pass: ModulePass, ctx: Context, module: ModuleOp) -> None:
    try:
        module_pass.apply(ctx, module)
    except EndlessRewrite as error:
        raise NeverEnds(module_pass, error) from error


def _verify(verifier: Verifier, module_pass: ModulePass, module: ModuleOp) -> None:
    try:
        verifier.verify(module)
    except VerifyException as error:
        raise BrokenByPass(module_pass, error) from error
