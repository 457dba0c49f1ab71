"""Custom graph ops, which a program or an installed distribution defines; known to every context that mlc creates."""

from collections.abc import Callable
from functools import cache

from xdsl.ir import Operation

from mlc.support.errors import UserError
from mlc.support.registered.plugins import entry_points, plugins

ENTRY_POINT_GROUP = "mlc.ops"
"""The entry points of installed ops: the op's name -> module:Class; the module registers its te and its converter."""

USER_OPS: dict[str, type[Operation]] = {}
"""Name -> class of the custom ops with a te lowering."""


def register_op(op: type[Operation]) -> None:
    """Register a custom op by its name for every context; a later op of that name replaces it."""
    USER_OPS[op.name] = op


def find_own_op(name: str) -> type[Operation] | None:
    """The custom op of that name: the program's own, or an installed one, whose module is imported now."""
    if name not in USER_OPS and (point := entry_points(ENTRY_POINT_GROUP).get(name)) is not None:
        _load(name, point.load)
    return USER_OPS.get(name)


def load_installed_ops() -> None:
    """Import the modules of all installed ops, once: which ONNX nodes they convert is known only then."""
    _load_all(tuple(plugins()))


@cache
def _load_all(_plugins: object) -> None:
    for name, point in entry_points(ENTRY_POINT_GROUP).items():
        _load(name, point.load)


def _load(name: str, load: Callable[[], object]) -> None:
    try:
        found = load()
    except Exception as error:
        raise UserError(f"op '{name}' cannot be imported: {error}") from error
    if not isinstance(found, type) or not issubclass(found, Operation) or found.name != name:
        raise UserError(f"op '{name}': expected its entry point to name the class of that op, but got {found!r}")
    register_op(found)
