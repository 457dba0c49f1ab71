"""The planner, convert-graph-to-main, and the checker that reads the plan back from the IR."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import FunctionType, IntegerAttr, ModuleOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.parser import Parser

from mlc.dialects import graph, runtime
from mlc.dialects.graph.store import attach_store
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.lowering.graph_to_main.convert import find_function, plan_of
from mlc.lowering.memory.lifetimes import Lifetime, align, lower_bound
from mlc.lowering.memory.planners import PLANNER_NAMES, plan
from mlc.support.errors import UserError
from mlc.support.weights import WeightStore
from mlc.validation.plans.plan_check import PlanError, check_plan

lifetimes = st.builds(
    lambda size, first, length: Lifetime(size, first, first + length),
    st.integers(0, 10_000),
    st.integers(0, 30),
    st.integers(0, 12),
)


@given(st.lists(lifetimes, max_size=40), st.sampled_from(PLANNER_NAMES), st.integers(0, 3))
@settings(max_examples=80)
def test_buffers_alive_together_do_not_overlap(buffers: list[Lifetime], planner: str, seed: int):
    result = plan(buffers, planner, seed)
    assert result == plan(buffers, planner, seed)
    for i, (a, at) in enumerate(zip(buffers, result.offsets, strict=True)):
        assert at % 64 == 0
        assert at + a.bytes <= result.bytes
        for b, other in list(zip(buffers, result.offsets, strict=True))[:i]:
            assert not a.meets(b) or at + a.bytes <= other or other + b.bytes <= at
    assert result.bound_bytes <= result.bytes <= result.sum_bytes


@st.composite
def nested(draw: st.DrawFn) -> list[Lifetime]:
    """Buffers, some of which are filled by parts, which may be filled by parts in turn."""
    buffers: list[Lifetime] = []

    def add(inside: int | None, at: int, after: int, depth: int) -> int:
        index, first = len(buffers), draw(st.integers(0, 30))
        last = max(first, after) + draw(st.integers(0, 8))
        if depth == 0 or draw(st.booleans()):
            buffers.append(Lifetime(draw(st.integers(0, 3000)), first, last, inside, at))
            return index
        buffers.append(Lifetime(0, -1, last, inside, at))
        size = 0
        for _ in range(draw(st.integers(1, 4))):
            size += buffers[add(index, size, 0, depth - 1)].bytes
        buffers[index] = Lifetime(size, -1, last, inside, at)
        return index

    for _ in range(draw(st.integers(0, 8))):
        add(None, 0, 0, 2)
    return buffers


def life_of_bytes(buffers: list[Lifetime], index: int) -> Lifetime:
    """A written buffer, until the last use of what it is in."""
    at, last = index, buffers[index].last
    while (outer := buffers[at].inside) is not None:
        at, last = outer, max(last, buffers[outer].last)
    return Lifetime(buffers[index].bytes, buffers[index].first, last)


@given(nested(), st.sampled_from(PLANNER_NAMES))
@settings(max_examples=80)
def test_parts_are_where_they_belong_and_nothing_overlaps_them(buffers: list[Lifetime], planner: str):
    result = plan(buffers, planner)
    for buffer, at in zip(buffers, result.offsets, strict=True):
        if buffer.inside is None:
            assert at % 64 == 0
        else:
            assert at == result.offsets[buffer.inside] + buffer.at
        assert at + buffer.bytes <= result.bytes or not buffer.bytes
    written = [i for i, buffer in enumerate(buffers) if buffer.first >= 0 and buffer.bytes]
    for i in written:
        a, at = life_of_bytes(buffers, i), result.offsets[i]
        for j in written[: written.index(i)]:
            b, other = life_of_bytes(buffers, j), result.offsets[j]
            assert not a.meets(b) or at + a.bytes <= other or other + b.bytes <= at
    assert result.bound_bytes <= result.bytes <= result.sum_bytes


def test_the_room_of_parts_that_are_not_written_yet_is_free():
    # The second half of the whole is written at step 5: until then, another buffer stands there.
    whole = [Lifetime(512, -1, 6), Lifetime(256, 0, 0, 0, 0), Lifetime(256, 5, 5, 0, 256)]
    result = plan([*whole, Lifetime(256, 1, 3)])
    assert result.bytes == result.bound_bytes == 512
    assert result.offsets == (0, 0, 256, 256)


def test_a_chain_needs_two_buffers():
    chain = [Lifetime(1000, i, i + 1) for i in range(10)]
    result = plan(chain)
    assert result.bytes == result.bound_bytes == 2 * align(1000)
    assert result.sum_bytes == 10 * 1024


def test_the_tightest_gap_is_taken():
    # At step 1 two gaps are free below the buffer at the top: 128 and 64 bytes.
    held = [Lifetime(256, 0, 2), Lifetime(192, 0, 0), Lifetime(128, 0, 2), Lifetime(64, 1, 1)]
    result = plan(held)
    assert result.bytes == lower_bound(held) == 256 + 192 + 128


def test_tokens_grow_and_shrink_within_the_match_range():
    # TVM's GraphPlanMemory: 1 KiB takes the free block of 16 KiB, and 16 KiB makes one of 1 KiB grow; 17 KiB does not.
    small, large = 1 << 10, 16 << 10
    assert plan([Lifetime(large, 0, 0), Lifetime(small, 1, 1)], "tokens").bytes == large
    assert plan([Lifetime(small, 0, 0), Lifetime(large, 1, 1)], "tokens").bytes == large
    assert plan([Lifetime(small, 0, 0), Lifetime(large + small, 1, 1)], "tokens").bytes == large + 2 * small
    assert plan([Lifetime(large + small, 0, 0), Lifetime(small, 1, 1)], "tokens").bytes == large + 2 * small


def test_tokens_prefer_the_smallest_block_that_is_large_enough():
    blocks = [Lifetime(n << 10, 0, 0) for n in (1, 8, 4)]
    assert plan([*blocks, Lifetime(3 << 10, 1, 1)], "tokens").offsets == (0, 1 << 10, 9 << 10, 9 << 10)


def test_tokens_of_a_chain_and_of_a_residual_are_those_of_tvm():
    chain = [Lifetime(64, k, k + 1) for k in range(4)]
    assert plan(chain, "tokens").offsets == (0, 64, 0, 64)
    residual = [Lifetime(64, 0, 3), *chain[1:]]
    assert plan(residual, "tokens").offsets == (0, 64, 128, 64)


HARD = [(100, 4, 6), (400, 0, 3), (400, 3, 4), (400, 0, 0), (400, 6, 9), (100, 4, 7)]
"""Buffers of (64 bytes, first step, last step) that greedy-by-size does not place within the lower bound."""


def test_the_best_plan_is_at_least_as_small_as_every_other():
    buffers = [Lifetime(64 * size, first, last) for size, first, last in HARD]
    sizes = {name: plan(buffers, name).bytes for name in PLANNER_NAMES}
    assert sizes["best"] == min(sizes.values())
    assert sizes["hill-climb"] < sizes["greedy-by-size"]


def test_an_unknown_planner_is_refused():
    with pytest.raises(UserError, match=r"expected a memory planner among best, .*, but got 'greedy'; did you mean"):
        plan([], "greedy")


# --- random programs: shapes, fan-out, reshapes, outputs ---

T = graph.tensor


@st.composite
def programs(draw: st.DrawFn, parts: bool = True) -> tuple[ModuleOp, int]:
    sizes = st.sampled_from([4, 64, 100, 1000])
    block = Block(arg_types=[T((draw(sizes),)) for _ in range(draw(st.integers(1, 3)))])
    values = list(block.args)
    names = st.sampled_from(["w0", "w1", "w2"])
    free: list[SSAValue] = []  # what is in no concatenation
    calls = draw(st.integers(1, 14))
    for index in range(calls):
        operands = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
        if draw(st.integers(0, 3)) == 0:
            param = graph.ParamOp.create(
                properties={"entry": graph.ParamOp.entry.encode(draw(names))}, result_types=[T((64,))]
            )
            block.add_op(param)
            operands.append(param.results[0])
        results = [T((draw(sizes),)) for _ in range(draw(st.integers(1, 2)))]
        call = graph.CallOp(f"k{index}", operands, results)
        block.add_op(call)
        values += call.results
        if draw(st.integers(0, 3)) == 0:
            (size,) = graph.static_shape(call.results[0].type)
            reshape = graph.ReshapeOp.make(call.results[0], result=T((2, size // 2)))
            block.add_op(reshape)
            values.append(reshape.result)
        if not parts:
            continue
        values += add_part(draw, block, call.results[0])
        free += call.results
        if len(free) > 1 and draw(st.integers(0, 2)) == 0:
            whole = graph.ConcatenateOp.make(free.pop(), free.pop(0), axis=0)
            block.add_op(whole)
            values.append(whole.result)
            free.append(whole.result)
    returned = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    block.add_op(func.ReturnOp(*returned))
    type_ = FunctionType.from_lists([a.type for a in block.args], [v.type for v in returned])
    return ModuleOp([func.FuncOp("main", type_, Region(block))]), calls


def add_part(draw: st.DrawFn, block: Block, value: SSAValue) -> list[SSAValue]:
    """Sometimes, a slice or the parts of a split of a tensor."""
    (size,) = graph.static_shape(value.type)
    kind = draw(st.sampled_from(["slice", "split", "none", "none"]))
    if kind == "none" or size < 4:
        return []
    if kind == "slice":
        op = graph.SliceOp.make(value, begin=(1,), end=(size - 1,), strides=(1,))
    else:
        op = graph.SplitOp.make(value, axis=0, sections=(1, size - 1))
    block.add_op(op)
    return list(op.results)


def convert(module: ModuleOp) -> func.FuncOp:
    run_passes(module, make_context(), ["convert-graph-to-main"], verify=True)
    return find_function(module, "main")


@given(programs())
@settings(max_examples=30)
def test_plans_of_random_programs_are_right(program: tuple[ModuleOp, int]):
    module, calls = program
    main = convert(module)
    assert check_plan(main) == calls
    figures = plan_of(main)
    assert figures.bound_bytes <= figures.bytes <= figures.sum_bytes


@given(programs(parts=False))
@settings(max_examples=30)
def test_the_checker_finds_moved_buffers(program: tuple[ModuleOp, int]):
    """Where the checker accepts a workspace squeezed into one place, no two buffers were alive together."""
    module, _ = program
    main = convert(module)
    views = [op for op in main.body.block.ops if isinstance(op, memref.ViewOp) and op.source is main.args[-1]]
    for view in views:
        constant = view.byte_shift.owner
        assert isinstance(constant, arith.ConstantOp)
        constant.properties["value"] = IntegerAttr(0, constant.result.type)
    together = _alive_together(main)
    try:
        check_plan(main)
        accepted = True
    except PlanError:
        accepted = False
    assert accepted == (not together)


def _alive_together(main: func.FuncOp) -> bool:
    """Whether two workspace buffers are in use at one call, or one is written while the other waits to be read."""
    spans: dict[object, list[int]] = {}
    workspace = main.args[-1]
    for step, op in enumerate(main.body.block.ops):
        if isinstance(op, runtime.CallOp | memref.CopyOp):
            for value in op.operands:
                while isinstance(value.owner, memref.ReinterpretCastOp):
                    value = value.owner.source
                if isinstance(value.owner, memref.ViewOp) and value.owner.source is workspace:
                    spans.setdefault(value, []).append(step)
    lives = [(min(s), max(s)) for s in spans.values()]
    return any(a[0] <= b[1] and b[0] <= a[1] for i, a in enumerate(lives) for b in lives[:i])


# --- what the conversion writes ---

TEXT = """
func.func @main(%x: tensor<1x784xf32>) -> (tensor<1x256xf32>, tensor<16x16xf32>, tensor<1x784xf32>) {
  %w = graph.param "a" : tensor<256x784xf32>
  %v = graph.param "b" : tensor<256x784xf32>
  %0 = graph.call @k0(%x, %w) : (tensor<1x784xf32>, tensor<256x784xf32>) -> tensor<1x256xf32>
  %1 = graph.call @k0(%x, %v) : (tensor<1x784xf32>, tensor<256x784xf32>) -> tensor<1x256xf32>
  %2 = graph.call @k1(%0, %1) : (tensor<1x256xf32>, tensor<1x256xf32>) -> tensor<1x256xf32>
  %3 = graph.reshape %2 : (tensor<1x256xf32>) -> tensor<16x16xf32>
  return %1, %3, %x : tensor<1x256xf32>, tensor<16x16xf32>, tensor<1x784xf32>
}
"""


def parse(text: str) -> ModuleOp:
    return Parser(make_context(), text).parse_module()


def test_outputs_are_written_in_place_and_inputs_are_copied():
    main = convert(parse(TEXT))
    calls = [op for op in main.body.block.ops if isinstance(op, runtime.CallOp)]
    assert calls[1].outs[0] is main.args[1]
    assert calls[2].outs[0].owner.source is main.args[2]  # a reshape of the second output
    (copy,) = [op for op in main.body.block.ops if isinstance(op, memref.CopyOp)]
    assert (copy.source, copy.destination) == (main.args[0], main.args[3])
    assert plan_of(main).sum_bytes == 1024  # only %0 is an intermediate


@pytest.mark.parametrize(("content", "size"), [("same", 1), ("other", 2), ("none", 2)])
def test_equal_weights_share_memory(content: str, size: int):
    module = parse(TEXT)
    if content != "none":
        store = WeightStore()
        store.add("a", np.ones((256, 784), np.float32) + np.arange(784, dtype=np.float32))
        store.add("b", store.array("a") + (content == "other"))
        attach_store(module, store)
    main = convert(module)
    assert main.args[-2].type.get_shape() == (size * 256 * 784 * 4,)


def test_symbols_that_no_input_has_are_refused():
    text = "func.func @main(%x: tensor<?xf32, #graph.dims<[n]>>) -> tensor<?xf32, #graph.dims<[m]>> { "
    text += "%0 = graph.call @k(%x) : (tensor<?xf32, #graph.dims<[n]>>) -> tensor<?xf32, #graph.dims<[m]>>"
    text += " %1 = graph.call @k(%0) : (tensor<?xf32, #graph.dims<[m]>>) -> tensor<?xf32, #graph.dims<[m]>>"
    with pytest.raises(UserError, match=r"over the symbols of the inputs of @main \(n\), but got m"):
        convert(parse(text + " return %1 : tensor<?xf32, #graph.dims<[m]>> }"))


def test_operations_that_are_not_kernels_are_refused():
    text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { %0 = graph.relu %x : tensor<4xf32>\n return %0 : "
    with pytest.raises(UserError, match="run graph-outline-kernels first"):
        convert(parse(text + "tensor<4xf32> }"))


def test_a_module_without_main_is_refused():
    with pytest.raises(UserError, match="expected a function @main"):
        convert(ModuleOp([]))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("runtime.call @k ins(%a : memref<16xf32>) outs(%y : memref<16xf32>)", "is read before it is written"),
        (
            "runtime.call @k ins(%x : memref<16xf32>) outs(%a : memref<16xf32>)\n"
            "runtime.call @k ins(%x : memref<16xf32>) outs(%b : memref<16xf32>)\n"
            "runtime.call @k ins(%a : memref<16xf32>) outs(%y : memref<16xf32>)",
            "is overwritten by %b before it is read",
        ),
        (
            "runtime.call @k ins(%x : memref<16xf32>) outs(%a : memref<16xf32>)\n"
            "runtime.call @k ins(%a : memref<16xf32>) outs(%b : memref<16xf32>)",
            "is written while",
        ),
        ("runtime.call @k ins(%y : memref<16xf32>) outs(%x : memref<16xf32>)", "is read before it is written"),
        ("runtime.call @k ins(%x : memref<16xf32>) outs(%x : memref<16xf32>)", "an input or a weight, is written"),
        ("runtime.call @k ins(%x : memref<16xf32>) outs(%a : memref<16xf32>)", "output 0 of @main is not written"),
    ],
)
def test_the_checker_says_what_is_wrong(body: str, message: str):
    text = f"""
    func.func @main(%x: memref<16xf32>, %y: memref<16xf32>, %w: memref<0xi8>, %s: memref<128xi8>)
        attributes {{mlc.inputs = 1 : i64, mlc.outputs = 1 : i64}} {{
      %c0 = arith.constant 0 : index
      %a = memref.view %s[%c0][] : memref<128xi8> to memref<16xf32>
      %b = memref.view %s[%c0][] : memref<128xi8> to memref<16xf32>
      {body}
      return
    }}"""
    with pytest.raises(PlanError, match=message):
        check_plan(find_function(parse(text), "main"))


PARTS = """
    func.func @main(%x: memref<16xf32>, %y: memref<16xf32>, %w: memref<0xi8>, %s: memref<128xi8>)
        attributes {{mlc.inputs = 1 : i64, mlc.outputs = 1 : i64}} {{
      %c0 = arith.constant 0 : index
      %a = memref.view %s[%c0][] : memref<128xi8> to memref<32xf32>
      %low = runtime.part %a at 0 : memref<32xf32> to memref<16xf32>
      %high = runtime.part %a at 64 : memref<32xf32> to memref<16xf32>
      %middle = runtime.part %a at 32 : memref<32xf32> to memref<16xf32>
      {body}
      return
    }}"""
WRITE_LOW = "runtime.call @k ins(%x : memref<16xf32>) outs(%low : memref<16xf32>)\n"
WRITE_HIGH = "runtime.call @k ins(%low : memref<16xf32>) outs(%high : memref<16xf32>)\n"
WRITE_MIDDLE = "runtime.call @k ins(%x : memref<16xf32>) outs(%middle : memref<16xf32>)\n"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            WRITE_LOW + "runtime.call @f ins(%a : memref<32xf32>) outs(%y : memref<16xf32>)",
            "is read before it is written",
        ),
        (
            WRITE_LOW + WRITE_MIDDLE + "runtime.call @k ins(%low : memref<16xf32>) outs(%y : memref<16xf32>)",
            "is overwritten by %middle before it is read",
        ),
        (WRITE_LOW + "runtime.call @k ins(%middle : memref<16xf32>) outs(%y : memref<16xf32>)", "is read before"),
        ("runtime.call @k ins(%low : memref<16xf32>) outs(%a : memref<32xf32>)", "is read before it is written"),
        (WRITE_LOW + "runtime.call @k ins(%low : memref<16xf32>) outs(%a : memref<32xf32>)", "is written while"),
    ],
)
def test_the_checker_says_what_is_wrong_with_parts(body: str, message: str):
    with pytest.raises(PlanError, match=message):
        check_plan(find_function(parse(PARTS.format(body=body)), "main"))


def test_what_is_written_as_parts_may_be_read_as_a_whole_or_as_other_parts():
    body = WRITE_LOW + WRITE_HIGH + "runtime.call @f ins(%a : memref<32xf32>) outs(%y : memref<16xf32>)\n"
    body += "runtime.call @k ins(%middle : memref<16xf32>) outs(%y : memref<16xf32>)"
    assert check_plan(find_function(parse(PARTS.format(body=body)), "main")) == 4


def test_operands_that_cannot_be_written_in_place_are_refused():
    text = """
    func.func @main(%x: tensor<4xf32>) -> tensor<8xf32> {
      %0 = graph.concatenate %x, %x {axis = 0} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
      return %0 : tensor<8xf32>
    }"""
    with pytest.raises(UserError, match="expected operand 0 to be written for it alone; run graph-outline-kernels"):
        convert(parse(text))


def test_slices_that_are_not_of_one_piece_are_refused():
    text = """
    func.func @main(%x: tensor<4x4xf32>) -> tensor<4x2xf32> {
      %0 = graph.slice %x {begin = [0, 0], end = [4, 2], strides = [1, 1]} : (tensor<4x4xf32>) -> tensor<4x2xf32>
      return %0 : tensor<4x2xf32>
    }"""
    with pytest.raises(UserError, match=r"expected a graph\.slice in @main to be one piece of a computed tensor"):
        convert(parse(text))


def test_the_checker_wants_aligned_views_inside_the_workspace():
    text = """
    func.func @main(%y: memref<16xf32>, %w: memref<0xi8>, %s: memref<64xi8>)
        attributes {mlc.inputs = 0 : i64, mlc.outputs = 1 : i64} {
      %c = arith.constant 64 : index
      %a = memref.view %s[%c][] : memref<64xi8> to memref<16xf32>
      runtime.call @k ins() outs(%a : memref<16xf32>)
      return
    }"""
    with pytest.raises(PlanError, match="within 64 bytes"):
        check_plan(find_function(parse(text), "main"))
