"""
What `--validate-each` says of a pass that changes a result, and what is needed to see it again.

    ResultChanged     the error: pass, function, output, index and both values
    find_rewrite      the first application of a rewrite with which the pass is wrong, and the op that it rewrote
    write_inputs      the inputs of the function, in a .npz file for `mlc-opt --validate-inputs`
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, NameLoc
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from mlc.dialects.graph.store import attach_store, store_of
from mlc.passes.pass_manager import BrokenByPass
from mlc.passes.rewrite_counter import RewriteApplication, RewriteCounter
from mlc.passes.verifier import verify
from mlc.support.errors import UserError, collected_warnings
from mlc.support.halving import first_bad

if TYPE_CHECKING:
    from mlc.interp.compare import Difference
    from mlc.validation.execute import RunnableFunction
    from mlc.validation.inputs import Recorded

SEARCH_SECONDS = 60.0
"""The time that the search for a rewrite may take; a longer one is left to `mlc bisect`."""


CHANGED_OPS = 3
"""The number of changed ops up to which a message names them."""


class ResultChanged(BrokenByPass):
    """A pass changed what a function computes: pass, function, output, index and both values."""

    def __init__(
        self, module_pass: ModulePass, executable: RunnableFunction, what: str, found: Difference | None
    ) -> None:
        node = source_node(executable.op)
        origin = f", from {node}" if node else ""
        at = ", ".join(f"{name} = {size}" for name, size in executable.sizes.items()) or executable.symbols
        where = f", at {at}" if at else ""
        message = f"pass '{module_pass.name}' changed @{executable.name} ({executable.level}{origin}{where}): {what}"
        Exception.__init__(self, message)
        self.op = executable.op
        self.module_pass = module_pass
        self.function = executable.name
        self.difference = found


def source_node(op: Operation) -> str:
    """The names of the model's nodes in the locations of a function's ops, at most three."""
    names: dict[str, None] = {}
    for inner in op.walk():
        if isinstance(inner.location, NameLoc):
            names[inner.location.desc.data] = None
    shown = list(names)
    return ", ".join(shown[:3]) + (" and others" if len(shown) > 3 else "")


@dataclass
class Replay:
    """A module before a pass, and what runs and compares it: a fresh validating instrument for each run."""

    module: ModuleOp
    module_pass: ModulePass
    ctx: Context
    instrument: Callable[[], Any]

    def error(self, limit: int | None = None) -> tuple[ResultChanged | None, list[RewriteApplication]]:
        """What the pass changes if it stops behind so many rewrites (None: all), and the rewrites that it applied."""
        copy = self.module.clone()
        if (store := store_of(self.module)) is not None:
            attach_store(copy, store)
        watching, counter = self.instrument(), RewriteCounter(limit)
        try:
            with collected_warnings():
                watching.before(self.module_pass, copy)
                with counter.watching():
                    self.module_pass.apply(self.ctx, copy)
                verify(copy)
                watching.after(self.module_pass, copy)
        except ResultChanged as error:
            return error, counter.applied
        except Exception:
            return None, counter.applied  # a pass that was stopped in its middle may leave what nobody can run
        return None, counter.applied

    def changed_ops(self) -> list[Operation]:
        """The ops that the pass changes or removes, if it is at most CHANGED_OPS of them."""
        copy = self.module.clone()
        if (store := store_of(self.module)) is not None:
            attach_store(copy, store)
        try:
            with collected_warnings():
                self.module_pass.apply(self.ctx, copy)
        except Exception:
            return []
        for with_operands in (False, True):
            left = Counter(_signature(op, with_operands) for op in copy.walk())
            changed: list[Operation] = []
            for op in self.module.walk():
                signature = _signature(op, with_operands)
                left[signature] -= 1
                if left[signature] < 0 and not op.regions:
                    changed.append(op)
            if changed:
                return changed if len(changed) <= CHANGED_OPS else []
        return []


def _signature(op: Operation, with_operands: bool) -> str:
    """What an op computes, and from the results of which ops."""
    facts = sorted(f"{name}={value}" for name, value in {**op.properties, **op.attributes}.items())
    sources = [f"{v.owner.name if isinstance(v.owner, Operation) else 'argument'}{v.name_hint}" for v in op.operands]
    return f"{op.name} {facts} {sources if with_operands else ''} {list(map(str, op.result_types))}"


def find_rewrite(replay: Replay) -> tuple[RewriteApplication, int] | None:
    """
    The first rewrite application with which the pass changes a result, and how many there are.

    None for a pass that does not consist of rewrites, or whose search would take more than SEARCH_SECONDS.
    """
    start = time.perf_counter()
    error, applied = replay.error()
    seconds = time.perf_counter() - start
    if error is None or not applied or seconds * len(applied).bit_length() > SEARCH_SECONDS:
        return None
    if replay.error(0)[0] is not None:
        return None
    number = first_bad(len(applied), lambda n: replay.error(n)[0] is not None)
    return applied[number - 1], len(applied)


def write_inputs(path: Path, recorded: Mapping[str, Recorded]) -> None:
    """Write the inputs of functions: `@main/0`, `@main/1`, .., and the values of symbols, `@main/size/H`."""
    entries: dict[str, Any] = {}
    for name, one in recorded.items():
        entries |= {f"@{name}/{k}": np.asarray(array) for k, array in enumerate(one.arrays)}
        entries |= {f"@{name}/size/{symbol}": np.int64(size) for symbol, size in one.sizes.items()}
    np.savez(path, **entries)


def read_inputs(path: Path) -> dict[str, Recorded]:
    """What `write_inputs` wrote, by function. Raises UserError for another file."""
    from mlc.validation.inputs import Recorded

    found: dict[str, dict[str, Any]] = {}
    sizes: dict[str, dict[str, int]] = {}
    try:
        with np.load(path, allow_pickle=False) as file:
            for key, value in dict(file).items():
                name, _, rest = key.removeprefix("@").partition("/")
                if rest.startswith("size/"):
                    sizes.setdefault(name, {})[rest.removeprefix("size/")] = int(value)
                else:
                    found.setdefault(name, {})[rest] = value
        ordered = {name: [arrays[str(k)] for k in range(len(arrays))] for name, arrays in found.items()}
    except OSError as error:
        raise UserError(f"{path}: cannot read the inputs: {error.strerror or error}") from error
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        message = "expected arrays '@function/0', '@function/1', .. in numpy's .npz format"
        raise UserError(f"{path}: {message}: {error}") from error
    names = {*ordered, *sizes}
    return {name: Recorded(ordered.get(name, []), sizes.get(name, {})) for name in names}
