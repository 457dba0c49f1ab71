"""
Is a module well formed? xDSL's own checks, one op at a time so that the culprit is known, and dominance.

Invariants: every value is defined before its uses and in a region that encloses them; a block that needs a
terminator has one; an op with successors is its block's last and branches within its region; each op's
`verify_` holds.

An op's `verify_` runs once per signature (dialects/syntax/recipes/probe.py): where it reads nothing but the op's types
and attributes, what it accepts once it accepts again. The ops in a function are verified once per form of functions
(dialects/syntax/recipes/function_form.py), if their verifiers read nothing but the function; of a function that differs
from others in the contents of types and attributes, the checks that read these (passes/open_checks.py).
"""

# The fields of an op are read directly: its properties build a view of the op for each access.
# pyright: reportPrivateUsage=false

from collections import Counter
from collections.abc import Callable, Container
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.traits import IsTerminator, NoTerminator
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.symbol_lookup import unchanged_symbols
from mlc.dialects.syntax.recipes.function_form import FormKey, FunctionForm, function_form
from mlc.dialects.syntax.recipes.open_copy import FormFamilies
from mlc.dialects.syntax.recipes.probe import (
    ContextRead,
    IsolatedKernel,
    Signature,
    VerifiedAround,
    apart,
    kept_alive,
    probe,
    region_signature,
    signature,
)
from mlc.passes.dominance import DominatorTree
from mlc.passes.open_checks import Checks, open_checks

_REMEMBERED = 1 << 16
_CONTEXT_READS = 16


class InvalidIR(VerifyException):
    """The first operation that breaks a rule, and the rule."""

    def __init__(self, op: Operation, message: str) -> None:
        super().__init__(message)
        self.op = op


class _Function(NamedTuple):
    """A function that was verified."""

    copy: Operation
    """Keeps alive what the form of the function names."""
    is_whole: bool
    """Whether its own verifier, too, reads nothing but the function."""


class Verifier:
    """Verifies modules, and remembers the signatures of the ops that it has accepted, from one pass to the next."""

    def __init__(self) -> None:
        self._accepted: dict[Signature, tuple[Attribute, ...]] = {}
        self._context_reads: Counter[type[Operation]] = Counter()
        self._functions: dict[FormKey, _Function | None] = {}
        self._seen: set[int] = set()
        self._open_forms: FormFamilies[Checks] = FormFamilies(partial(open_checks, _verify_regions))

    def verify(self, op: Operation) -> None:
        """Raise InvalidIR for the first operation in `op`, itself included, that is not well formed."""
        inner = [nested for region in op.regions for block in region.blocks for nested in block.ops]
        forms = {nested: form for nested in inner if nested.regions and (form := function_form(nested)) is not None}
        verify_dominance(op, forms)
        with unchanged_symbols():
            for nested in inner:
                self._verify_inside(nested, forms.get(nested))
            self._verify_one(op)

    def _verify_inside(self, op: Operation, form: FunctionForm | None) -> None:
        """Verify an op of a module, its nested ops first; a function that equals a verified one is skipped."""
        if form is None:
            for nested in op.walk(region_first=True):
                self._verify_one(nested)
            return
        key = form.key
        known = self._functions.get(key)
        if known is None:
            self._verify_open(op, form)
            self._learn(op, key)
        elif not known.is_whole:
            self._verify_one(op)

    def _verify_open(self, op: Operation, form: FunctionForm) -> None:
        """Verify a function; if its form is known, only by the checks that read contents of types and attributes."""
        checks = self._open_forms.find(form)
        if checks is None:
            for nested in op.walk(region_first=True):
                self._verify_one(nested)
            return
        for number, check in checks:
            _verified(form.ops[number], check)

    def _learn(self, op: Operation, form: FormKey) -> None:
        """Remember a correct function when it is seen a second time, unless its verifiers read anything around it."""
        if (number := hash(form)) not in self._seen:
            self._seen.add(number)
        elif form not in self._functions:
            copy = apart(op)
            is_known = all(_reads_nothing_around(nested) for nested in copy.walk() if nested is not copy)
            self._functions[form] = _Function(copy, _reads_nothing_around(copy)) if is_known else None
        if len(self._seen) >= _REMEMBERED:
            self._seen.clear()
            self._functions.clear()

    def _verify_one(self, op: Operation) -> None:
        if op._successors:
            _verify_successors(op)
        if op.regions:
            _verify_regions(op)
        if self._context_reads[op.__class__] >= _CONTEXT_READS:
            key = None
        else:
            key = region_signature(op) if op.regions else signature(op)
        if key is None or (key not in self._accepted and not self._accepts(op, key)):
            _verified(op, op.__class__.verify_)
        elif op.regions:
            isolated = op.get_trait(IsolatedKernel)
            if isolated is not None:
                _verified(op, isolated.verify)
        elif isinstance(op, VerifiedAround):
            _verified(op, op.__class__.verify_around)

    def _accepts(self, op: Operation, key: Signature) -> bool:
        """Whether all ops of this signature are right; False also where that cannot be told."""
        if (number := hash(key)) not in self._seen:  # most of those that do not repeat are not worth a probe
            self._seen.add(number)
            return False
        try:
            probe(op).verify_()
        except ContextRead:
            self._context_reads[op.__class__] += 1
            return False
        except Exception:
            return False
        if len(self._accepted) >= _REMEMBERED:
            self._accepted.clear()
        self._accepted[key] = kept_alive(op)
        return True


def verify(op: Operation) -> None:
    """Raise InvalidIR for the first operation in `op`, itself included, that is not well formed."""
    Verifier().verify(op)


def _reads_nothing_around(op: Operation) -> bool:
    """Whether an op of a function that stands apart, or this function, is verified without what is around it."""
    try:
        op.verify_()
    except (ContextRead, Exception):
        return False
    return True


def _verified(op: Operation, check: Callable[[Any], None]) -> None:
    """Call one of the op's checks; InvalidIR with its message."""
    try:
        check(op)
    except InvalidIR:
        raise
    except VerifyException as error:
        raise InvalidIR(op, str(error)) from error
    except Exception as error:
        # A verifier that takes for granted what does not hold: the operation is wrong all the same.
        raise InvalidIR(op, f"cannot be verified ({type(error).__name__}: {error})") from error


def _verify_successors(op: Operation) -> None:
    block = op.parent
    if block is None or block.last_op is not op:
        raise InvalidIR(op, "with successors must be the last operation of a block")
    if any(successor.parent is not block.parent for successor in op.successors):
        raise InvalidIR(op, "branches to a block of another region")


def _verify_regions(op: Operation) -> None:
    free = op.has_trait(NoTerminator)
    for region in op.regions:
        single = region.first_block is region.last_block
        for block in region.blocks:
            last = block.last_op
            if last is None:
                if not (single and free):
                    raise InvalidIR(op, "expects a terminator in each of its blocks, but got an empty block")
            elif not (single and free) and not last.has_trait(IsTerminator, value_if_unregistered=True):
                raise InvalidIR(last, "ends a block, but is not a terminator")


def verify_dominance(op: Operation, right: Container[Operation] = frozenset()) -> None:
    """Raise InvalidIR at the first use of a value that does not dominate it; in the ops of `right` none is."""
    for region in op.regions:
        _check_region(region, set(), (), right)


_Around: TypeAlias = tuple[tuple[DominatorTree, Block], ...]
"""The regions around an op that have several blocks, each with the block that the op stands in."""


def _check_region(region: Region, visible: set[int], around: _Around, right: Container[Operation]) -> None:
    first = region.first_block
    if first is None:
        return
    if first.next_block is None:
        _check_block(first, visible, around, right)
        return
    tree = DominatorTree(region)
    reachable = _reachable(first)
    for block in region.blocks:
        # A block that control cannot reach may use anything, as in MLIR.
        if block in reachable:
            _check_block(block, visible, (*around, (tree, block)), right)


def _reachable(entry: Block) -> set[Block]:
    found, pending = {entry}, [entry]
    while pending:
        last = pending.pop().last_op
        for successor in last.successors if last is not None else ():
            if successor not in found:
                found.add(successor)
                pending.append(successor)
    return found


def _check_block(block: Block, visible: set[int], around: _Around, right: Container[Operation]) -> None:
    """Check the block's ops in order; `visible`, identities of values, grows and is given back as it was."""
    here = [*map(id, block.args)]
    visible.update(here)
    for op in block.ops:
        for number, operand in enumerate(op._operands):
            if id(operand) not in visible and not _is_from_above(operand, around):
                _report(op, number, operand)
        for region in op.regions if op not in right else ():
            _check_region(region, visible, around, right)
        if op.results:
            results = [*map(id, op.results)]
            here += results
            visible.update(results)
    visible.difference_update(here)


def _is_from_above(value: SSAValue, around: _Around) -> bool:
    """Whether another block defines the value, in a region around, that dominates the one on the way to the use."""
    if isinstance(value, OpResult):
        block = value.op.parent
    else:
        block = value.block if isinstance(value, BlockArgument) else None
    return block is not None and any(block in tree and tree.strictly_dominates(block, at) for tree, at in around)


def _report(op: Operation, number: int, operand: SSAValue) -> None:
    name = f"%{operand.name_hint}" if operand.name_hint else "the value"
    where = f"{name} is defined later, or in a region not around it"
    raise InvalidIR(op, f"operand #{number} does not dominate this use: {where}")
