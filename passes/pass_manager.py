"""Run pass objects over a module, in order, watched by instruments; see driver/pipeline/manager.py for text."""

import traceback
from collections.abc import Callable, Collection, Iterable
from typing import Any, Protocol

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from mlc.passes.verifier import Verifier
from mlc.support.errors import UserError


class Instrument(Protocol):
    """
    What may watch a pipeline. Each method is optional.

    should_run(pass, module)     False leaves the pass out; a required pass is not asked about
    before(pass, module)         before a pass that runs; False leaves it out still, unless it is required
    after(pass, module)          after a pass that succeeded, before its result is verified
    failed(pass, module, error)  after a pass that raised
    """


class BrokenByPass(Exception):
    """A pass turned valid IR into invalid IR: the pass has a bug."""

    def __init__(self, module_pass: ModulePass, error: VerifyException) -> None:
        self.op = getattr(error, "op", None)
        about = f"'{self.op.name}' op " if self.op is not None else ""
        super().__init__(f"pass '{module_pass.name}' left invalid IR: {about}{error}")
        self.module_pass = module_pass


class PassFailed(UserError):
    """A pass of the user's own raised something: what, and where."""

    def __init__(self, module_pass: ModulePass, error: Exception) -> None:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
        super().__init__(f"pass '{module_pass.name}' raised {type(error).__name__}: {error} ({place})")


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
    hooks = list(instruments)
    asked = [hook.should_run for hook in hooks if hasattr(hook, "should_run")]
    before = [hook.before for hook in hooks if hasattr(hook, "before")]
    after = [hook.after for hook in reversed(hooks) if hasattr(hook, "after")]
    failed = [hook.failed for hook in hooks if hasattr(hook, "failed")]
    verifier = Verifier()
    for module_pass in passes:
        free = module_pass.name not in required
        if free and False in [hook(module_pass, module) for hook in asked]:
            continue
        if False in [hook(module_pass, module) for hook in before] and free:
            continue
        try:
            module_pass.apply(ctx, module)
        except Exception as error:
            for hook in failed:
                hook(module_pass, module, error)
            if is_users(module_pass) and not isinstance(error, UserError):
                raise PassFailed(module_pass, error) from error
            raise
        for hook in after:
            hook(module_pass, module)
        if verify or is_users(module_pass):
            try:
                verifier.verify(module)
            except VerifyException as error:
                broken = BrokenByPass(module_pass, error)
                raise (UserError(str(broken)) if is_users(module_pass) else broken) from error
