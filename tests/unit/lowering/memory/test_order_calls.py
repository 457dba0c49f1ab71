"""graph-order-calls: fewer bytes alive at once, the same values, and no change where nothing is won."""

from collections.abc import Iterator
from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Block, Operation, Region
from xdsl.parser import Parser

from mlc.dialects import graph
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.lowering.graph_to_main.convert import find_function, plan_of
from mlc.lowering.memory.order_calls import peak_of
from mlc.validation.plans.plan_check import check_plan

T = graph.tensor
BRANCHES = """
func.func @main(%x: tensor<16xf32>) -> tensor<16xf32> {
  %a = graph.call @up(%x) : (tensor<16xf32>) -> tensor<4096xf32>
  %b = graph.call @up(%x) : (tensor<16xf32>) -> tensor<4096xf32>
  %c = graph.call @down(%a) : (tensor<4096xf32>) -> tensor<16xf32>
  %w = graph.param "w" : tensor<16xf32>
  %d = graph.call @down(%b) : (tensor<4096xf32>) -> tensor<16xf32>
  %v = graph.reshape %d : (tensor<16xf32>) -> tensor<4x4xf32>
  %y = graph.call @add(%c, %v, %w) : (tensor<16xf32>, tensor<4x4xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %y : tensor<16xf32>
}
"""


def parse(text: str) -> ModuleOp:
    return Parser(make_context(), text).parse_module()


def peak(module: ModuleOp) -> int:
    return peak_of(find_function(module, "main"), lambda name: name)


def ordered(module: ModuleOp) -> ModuleOp:
    copy = module.clone()
    run_passes(copy, make_context(), ["graph-order-calls"], verify=True)
    return copy


def planned(module: ModuleOp) -> int:
    """The bytes of the checked plan."""
    copy = module.clone()
    run_passes(copy, make_context(), ["convert-graph-to-main"], verify=True)
    main = find_function(copy, "main")
    check_plan(main)
    return plan_of(main).bytes


def test_a_large_result_is_used_before_the_next_is_made():
    module = parse(BRANCHES)
    after = ordered(module)
    calls = [op.callee.string_value() for op in after.walk() if isinstance(op, graph.CallOp)]
    assert calls == ["up", "down", "up", "down", "add"]
    assert (planned(module), planned(after)) == (2 * 4096 * 4 + 64, 4096 * 4 + 2 * 64)


def test_where_nothing_is_won_the_order_stays():
    text = BRANCHES.replace("4096", "16")
    assert str(ordered(parse(text))) == str(parse(text))
    after = ordered(parse(BRANCHES))
    assert str(ordered(after)) == str(after)


def callees(module: ModuleOp) -> list[str]:
    return sorted(op.callee.string_value() for op in module.walk() if isinstance(op, graph.CallOp))


@st.composite
def programs(draw: st.DrawFn, most: int = 10) -> ModuleOp:
    sizes = st.sampled_from([16, 64, 1024, 4096])
    block = Block(arg_types=[T((16,))])
    values = list(block.args)
    for index in range(draw(st.integers(2, most))):
        operands = draw(st.lists(st.sampled_from(values), min_size=1, max_size=2))
        call = graph.CallOp(f"k{index}", operands, [T((draw(sizes),))])
        block.add_op(call)
        values.append(call.results[0])
        if draw(st.integers(0, 3)) == 0:
            (size,) = graph.static_shape(call.results[0].type)
            reshape = graph.ReshapeOp.make(call.results[0], result=T((2, size // 2)))
            block.add_op(reshape)
            values.append(reshape.result)
    returned = draw(st.lists(st.sampled_from(values), min_size=1, max_size=2))
    block.add_op(func.ReturnOp(*returned))
    type_ = FunctionType.from_lists([T((16,))], [v.type for v in returned])
    return ModuleOp([func.FuncOp("main", type_, Region(block))])


@given(programs())
@settings(max_examples=25)
def test_random_programs_keep_their_calls_and_never_need_more(module: ModuleOp):
    after = ordered(module)
    assert peak(after) <= peak(module)
    assert callees(after) == callees(module)
    planned(after)


def every_order(done: list[Operation], left: list[Operation]) -> Iterator[list[Operation]]:
    """All orders of operations in which each stands behind those whose results it uses."""
    if not left:
        yield done
    for op in left:
        if not any(v.owner in left for v in op.operands):
            yield from every_order([*done, op], [o for o in left if o is not op])


@given(programs(most=5))
@settings(max_examples=15)
def test_small_programs_get_the_best_of_all_orders(module: ModuleOp):
    main = find_function(module, "main")
    *ops, last = main.body.block.ops
    orders = islice(every_order([], ops), 5000)
    assert peak(ordered(module)) == min(peak_of(main, lambda name: name, [*order, last]) for order in orders)


def test_open_sizes_are_left_alone():
    text = BRANCHES.replace("16xf32", "?xf32, #graph.dims<[n]>")
    module = parse(text[: text.index("%v =")] + "return %d : tensor<?xf32, #graph.dims<[n]>>\n}")
    assert str(ordered(module)) == str(module)
