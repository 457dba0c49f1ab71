"""The errors of loading a model: all of them are the user's (`mlc.passes.errors.UserError`)."""

from mlc.passes.errors import UserError

__all__ = ["UnsupportedOps", "UserError"]


class UnsupportedOps(UserError):
    """A model uses ops that mlc does not have; all of them, as (node path, op type, why)."""

    def __init__(self, source: str, ops: list[tuple[str, str, str]]):
        self.ops = ops
        lines = [f"  {path}: {kind}{f' ({why})' if why else ''}" for path, kind, why in ops]
        super().__init__(f"{source}: {len(ops)} nodes have no counterpart in mlc\n" + "\n".join(lines))
