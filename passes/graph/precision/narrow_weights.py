"""
graph-narrow-weights: products read weights of bytes as bytes, and widen them in registers.

A model that holds weights in int8, uint8, bf16 or f16 and widens them itself (Cast, DequantizeLinear, Mul) has them
folded to f32. Here a dense layer by such a weight reads the numbers that it was folded from: half or a quarter of the
bytes, which is what products of few rows wait for; the conversions cost products of many rows nothing that shows.
The values are those of the model's definition: nothing but the weights is narrow.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import CastOp, ConstantOp, DenseOp, GraphOp, MultiplyOp, ParamOp, shape_of, static_shape, tensor
from mlc.dialects.graph.store import store_of
from mlc.dialects.graph.types import Array, element_of, element_type
from mlc.dialects.loop import word_factors
from mlc.passes.graph.cleanup.eliminate_dead_code import eliminate_dead_code
from mlc.passes.graph.precision.narrow_products import is_faster_narrow
from mlc.passes.graph.shared.constants import is_static
from mlc.passes.graph.shared.narrow import NarrowWeight, Source, narrow_result
from mlc.passes.rewriting import functions, outer_blocks
from mlc.support.weights import WeightStore
from mlc.targets.target import Target

PREFIX = "narrow."


class Narrower:
    """One run over a module; a weight that several products read is stored and packed once."""

    def __init__(self, store: WeightStore, target: Target) -> None:
        self.store, self.target = store, target
        self.names: dict[int, tuple[Array, str]] = {}
        self.made: dict[SSAValue, tuple[SSAValue, SSAValue | None] | None] = {}

    def run(self, block: Block) -> None:
        """Rewrite the dense layers of a block."""
        for op in list(block.ops):
            if (
                isinstance(op, DenseOp)
                and not op.out_dtype
                and op.kernel_layout == "OI"
                and op.type.element_type == f32
            ):
                self.dense(op, block)

    def dense(self, op: DenseOp, block: Block) -> None:
        """`dense %x, (numbers * scale)` -> `multiply (dense %x, numbers {out_dtype = "float32"}), scale`."""
        x, w = op.operands
        if w not in self.made:
            self.made[w] = self.narrowed(w)
        made = self.made[w]
        if made is None:
            return
        numbers, scale = made
        if self.multiplies(op, numbers):
            assert isinstance(x.owner, CastOp)
            x = x.owner.operands[0]
        result: GraphOp = DenseOp.make(x, numbers, out_dtype="float32", units=op.units, location=op.location)
        block.insert_op_before(result, op)
        if scale is not None:
            result = MultiplyOp.make(result.results[0], scale, location=op.location)
            block.insert_op_before(result, op)
        op.results[0].replace_all_uses_with(result.results[0])
        block.erase_op(op)

    def multiplies(self, op: DenseOp, numbers: SSAValue) -> bool:
        """Whether x is widened from the numbers' type, and the target multiplies words of both: products are exact."""
        x, element = op.operands[0], element_of(numbers)
        if not isinstance(x.owner, CastOp) or element_of(x.owner.operands[0]) != element:
            return False
        words = static_shape(numbers.type)[1] % word_factors(element) == 0
        return words and is_faster_narrow(op, str(element), self.target)

    def narrowed(self, value: SSAValue) -> tuple[SSAValue, SSAValue | None] | None:
        """The numbers and the scale of a weight, inserted where it is defined; None where a product needs it in f32."""
        sizes, weight, owner = shape_of(value.type), self.weight_of(value), value.owner
        if weight is None or not isinstance(owner, GraphOp) or len(sizes) != 2 or not is_static(sizes) or sizes[0] < 2:
            return None
        if weight.scale is not None and weight.scale.shape[1] != 1:
            return None
        type = tensor(sizes, element_type(weight.numbers.dtype.name))
        numbers = _insert(ParamOp.make(result=type, entry=self.stored(weight)), owner)
        return numbers, None if weight.scale is None else _insert(self.factor(weight.scale.reshape(-1)), owner)

    def factor(self, scale: Array) -> GraphOp:
        """One scale, or one for each column of the product."""
        if scale.size == 1:
            return ConstantOp.make(scale.reshape(()))
        if scale.size <= ConstantOp.MAX_ELEMENTS:
            return ConstantOp.make(scale)
        entry = self.store.add(self.store.fresh(f"{PREFIX}scale"), scale)
        return ParamOp.make(result=tensor(scale.shape, f32), entry=entry)

    def weight_of(self, value: SSAValue) -> NarrowWeight | None:
        """What a weight was folded from, moves of it that are not folded yet included."""
        owner = value.owner
        if isinstance(owner, ParamOp):
            known = self.store.narrow.get(owner.entry)
            return known if isinstance(known, NarrowWeight) else None
        if not isinstance(owner, GraphOp) or len(owner.operands) != 1:
            return None
        source = self.weight_of(owner.operands[0])
        return None if source is None else narrow_result(owner, [Source(source.numbers, source)])

    def stored(self, weight: NarrowWeight) -> str:
        """The entry of the numbers."""
        key = id(weight.numbers)
        if key not in self.names:
            self.names[key] = (weight.numbers, self.store.add(self.store.fresh(f"{PREFIX}weight"), weight.numbers))
        return self.names[key][1]


def _insert(new: GraphOp, owner: GraphOp) -> SSAValue:
    """The result of a new op, inserted behind the op that it replaces."""
    block = owner.parent
    assert block is not None
    new.location = owner.location
    block.insert_op_after(new, owner)
    return new.results[0]


@dataclass(frozen=True)
class NarrowWeightsPass(ModulePass):
    """
    `graph.dense %x, %w` -> `graph.multiply (graph.dense %x, %numbers {out_dtype = "float32"}), %scale`

    where graph-fold-constant computed %w as numbers of 1 or 2 bytes times a scale, one or one for each output. An %x
    that is a widened bf16 is multiplied as bf16 by a weight of bf16 where `target` has an instruction for it.
    """

    name = "graph-narrow-weights"

    target: str = "native"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place; the numbers become weights of its store."""
        store = store_of(op)
        if store is None or not store.narrow:
            return
        narrower = Narrower(store, Target.parse(self.target))
        for function in functions(op):
            for block in outer_blocks(function):
                narrower.run(block)
        eliminate_dead_code(op)
        _forget(op, store)


def _forget(module: Operation, store: WeightStore) -> None:
    """Remove the f32 weights that no product reads any more."""
    named = {op.entry for op in module.walk() if isinstance(op, ParamOp)}
    for name in list(store.narrow):
        if name not in named:
            store.remove(name)
