"""Write a schedule in Python: each method adds one directive and returns the handles that it gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mlc.dialects import sched
from mlc.dialects.index import Index
from mlc.dialects.sched import BLOCK, LOOP
from mlc.dialects.value_names import value_name
from mlc.schedules.knobs import chosen

Factor = int | SSAValue | None
T = TypeVar("T", int, str, tuple[int, ...])


def _int(value: int) -> IntegerAttr:
    return IntegerAttr(value, i64)


class ScheduleBuilder:
    """
    A schedule under construction.

    `s = ScheduleBuilder("dense"); c = s.block("dense"); i, j, k = s.loops(c, 3); jo, ji = s.split(j, [None, 16])`
    `s.reorder(i, jo, k, ji); s.vectorize(ji); op = s.finish()`
    Handles take the names in `names`, and so do the loops that they stand for.
    """

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self.body = Block()
        self.symbolic: set[SSAValue] = set()
        """Loops of symbolic extent; strategies add the loops that they obtain, splits and fusions propagate it."""
        self.knobs: dict[str, sched.KnobOp] = {}
        """What the strategy chose among several candidates; the schedule begins with them."""

    def finish(self) -> sched.ScheduleOp:
        """The schedule, to be put beside its kernel."""
        for op in reversed(self.knobs.values()):
            first = self.body.first_op
            self.body.add_op(op) if first is None else self.body.insert_op_before(op, first)
        return sched.ScheduleOp.make(self.kernel, Region(self.body))

    def add(self, op: Operation, names: Sequence[str] = ()) -> list[SSAValue]:
        """Any sched op; its results, named."""
        for result, name in zip(op.results, names, strict=False):
            result.name_hint = value_name(name)
        self.body.add_op(op)
        return list(op.results)

    def _do(
        self,
        op: type[Operation],
        operands: Sequence[SSAValue],
        properties: Mapping[str, Attribute] | None = None,
        results: Sequence[Attribute] = (),
        names: Sequence[str] = (),
    ) -> list[SSAValue]:
        new = op.create(operands=operands, properties=dict(properties or {}), result_types=results)
        return self.add(new, names)

    # --- finding and choosing -----------------------------------------------------------------------------------

    def block(self, name: str) -> SSAValue:
        """The block of this name."""
        return self._do(sched.BlockOp, [], {"block_name": StringAttr(name)}, [BLOCK], [_identifier(name)])[0]

    def loops(
        self, block: SSAValue, count: int, under: SSAValue | None = None, names: Sequence[str] = ()
    ) -> list[SSAValue]:
        """The `count` loops around a block, outer to inner; with `under`, those inside that loop."""
        return self.add(sched.LoopsOp.make(block, count, under), names)

    def child(self, loop: SSAValue, position: int, *, block: bool = False) -> SSAValue:
        """The loop, or block, at a position in a loop's body."""
        return self._do(sched.ChildOp, [loop], {"position": _int(position)}, [BLOCK if block else LOOP])[0]

    def knob(self, name: str, candidates: Sequence[int], default: int) -> SSAValue:
        """A choice for tuning, to be used as a factor."""
        return self.add(sched.KnobOp.make(name, candidates, default), [_identifier(name)])[0]

    def choose(self, name: str, candidates: Sequence[T], default: T) -> T:
        """
        The value of a choice of the strategy: the one given for the kernel, else the default; recorded as a knob.

        Raises UserError for a given value that is not among the candidates.
        """
        values = tuple(dict.fromkeys([*candidates, default]))
        value = chosen(name, values, default)
        if len(values) > 1 and name not in self.knobs:
            self.knobs[name] = op = sched.KnobOp.make(name, values, default, value)
            op.result.name_hint = value_name(_identifier(name))
        return cast("T", value)

    # --- loops --------------------------------------------------------------------------------------------------

    def split(self, loop: SSAValue, factors: Sequence[Factor], names: Sequence[str] = ()) -> list[SSAValue]:
        """Split a loop by factors, which may be knobs; the factor None is inferred."""
        parts = self.add(sched.SplitOp.make(loop, factors), names)
        if loop in self.symbolic:
            self.symbolic.add(parts[0])
        return parts

    def tile(
        self, loops: Sequence[SSAValue], factors: Sequence[int | SSAValue], names: Sequence[str] = ()
    ) -> list[SSAValue]:
        """Split loops by inner extents: the outer loops, then the inner ones."""
        return self.add(sched.TileOp.make(loops, factors), names)

    def fuse(self, *loops: SSAValue, name: str | None = None) -> SSAValue:
        """Fuse the loops of a perfect nest into one."""
        fused = self._do(sched.FuseOp, loops, {}, [LOOP], [name] if name else [])[0]
        if loops[0] in self.symbolic:
            self.symbolic.add(fused)
        return fused

    def grid(self, loops: Sequence[SSAValue]) -> list[SSAValue]:
        """Fuse the loops of a nest where possible: each symbolic loop starts a new one. -> the fused loops."""
        runs: list[list[SSAValue]] = []
        for loop in loops:
            if runs and loop not in self.symbolic:
                runs[-1].append(loop)
            else:
                runs.append([loop])
        return [self.fuse(*run) if len(run) > 1 else run[0] for run in runs]

    def symbolic_first(self, loops: Sequence[SSAValue]) -> list[SSAValue]:
        """The loops with the symbolic ones first, so that `grid` fuses most of them."""
        return sorted(loops, key=lambda loop: loop not in self.symbolic)

    def reorder(self, *loops: SSAValue) -> None:
        """Permute loops of a nest, outer to inner."""
        self._do(sched.ReorderOp, loops)

    def peel(self, loop: SSAValue, by: int, names: Sequence[str] = ()) -> list[SSAValue]:
        """Split off the last `by` iterations: (main, rest)."""
        return self._do(sched.PeelOp, [loop], {"by": _int(by)}, [LOOP, LOOP], names)

    def parallel(self, *loops: SSAValue) -> None:
        """Run the iterations of a nest on threads, outer to inner."""
        for loop in loops:
            self._do(sched.ParallelOp, [loop])

    def vectorize(self, *loops: SSAValue) -> None:
        """Make a register tile of a nest; the last loop is the lanes."""
        self._do(sched.VectorizeOp, loops)

    def unroll(self, loop: SSAValue) -> None:
        """Repeat a loop's body in place."""
        self._do(sched.UnrollOp, [loop])

    def bind(self, loop: SSAValue, axis: str) -> None:
        """Spread a loop over a device axis."""
        self._do(sched.BindOp, [loop], {"axis": StringAttr(axis)})

    def pragma(self, loop: SSAValue, key: str, value: Attribute | int | str) -> None:
        """Set an attribute on a loop."""
        attr = _int(value) if isinstance(value, int) else StringAttr(value) if isinstance(value, str) else value
        self._do(sched.PragmaOp, [loop], {"key": StringAttr(key), "value": attr})

    def tensorize(self, loop: SSAValue, intrin: str) -> None:
        """Replace a loop by an intrinsic."""
        self._do(sched.TensorizeOp, [loop], {"intrin": StringAttr(intrin)})

    # --- blocks -------------------------------------------------------------------------------------------------

    def compute_at(self, block: SSAValue, loop: SSAValue) -> None:
        """Move a producer into a loop of its consumers."""
        self._do(sched.ComputeAtOp, [block, loop])

    def reverse_compute_at(self, block: SSAValue, loop: SSAValue) -> None:
        """Move a consumer into a loop of its producer."""
        self._do(sched.ReverseComputeAtOp, [block, loop])

    def compute_inline(self, block: SSAValue) -> None:
        """Compute a producer where it is read."""
        self._do(sched.ComputeInlineOp, [block])

    def rfactor(self, loop: SSAValue, axis: int = 0) -> SSAValue:
        """Split a reduction in two steps; the block that computes the partial results."""
        return self._do(sched.RfactorOp, [loop], {"axis": _int(axis)}, [BLOCK])[0]

    def decompose_reduction(self, block: SSAValue, loop: SSAValue) -> list[SSAValue]:
        """Move the initialization of a reduction in front of a loop: (init, update)."""
        return self._do(sched.DecomposeReductionOp, [block, loop], {}, [BLOCK, BLOCK], ["init", "update"])

    # --- buffers ------------------------------------------------------------------------------------------------

    def cache_read(
        self, block: SSAValue, buffer: int, scope: str = "local", element: Attribute | None = None
    ) -> SSAValue:
        """Read a buffer (by number) through a copy, of `element`s to which it is cast; the copying block."""
        properties: dict[str, Attribute] = {"buffer": _int(buffer), "scope": StringAttr(scope)}
        if element is not None:
            properties["element"] = element
        return self._do(sched.CacheReadOp, [block], properties, [BLOCK])[0]

    def cache_write(self, block: SSAValue, scope: str = "local") -> SSAValue:
        """Write a buffer through a copy; the copying block."""
        return self._do(sched.CacheWriteOp, [block], {"scope": StringAttr(scope)}, [BLOCK])[0]

    def set_scope(self, block: SSAValue, scope: str) -> None:
        """Set the memory scope of the buffer that a block writes."""
        self._do(sched.SetScopeOp, [block], {"scope": StringAttr(scope)})

    def storage_align(self, block: SSAValue, axis: int, factor: int, offset: int = 0) -> None:
        """Pad the buffer that a block writes."""
        properties = {"axis": _int(axis), "factor": _int(factor), "offset": _int(offset)}
        self._do(sched.StorageAlignOp, [block], properties)

    def transform_layout(self, block: SSAValue, exprs: Sequence[Index]) -> None:
        """Change the layout of the buffer that a block writes; dimension k is `mlc.dialects.index.tile(k)`."""
        self.add(sched.TransformLayoutOp.make(block, exprs))


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name) if name[:1].isalpha() else "b"
