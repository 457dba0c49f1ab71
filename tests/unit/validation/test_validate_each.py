"""--validate-each: it lets right passes pass, and catches every bug that is put into a kernel."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import FloatAttr, ModuleOp, StringAttr
from xdsl.ir import Operation, Region
from xdsl.parser import Parser
from xdsl.passes import ModulePass

from mlc.dialects import loop
from mlc.dialects.index import IndexMapAttr
from mlc.driver.pipeline.manager import run_passes
from mlc.driver.pipeline.registry import make_context
from mlc.interp.compare import difference, differences, epsilon
from mlc.validation.execute import INTERPRETED_OPERATIONS
from mlc.validation.facts import count_operations
from mlc.validation.validate_each import ResultChanged, ValidateInstrument

GEMM = """
  loop.func @gemm(%A: memref<5x6xf32>, %B: memref<6x7xf32>, %C: memref<5x7xf32>) attributes {outputs = 1 : i64} {
    loop.for %i = 0 to 5 parallel {
      loop.for %jo = 0 to 2 {
        loop.for %ji = 0 to 4 {
          loop.for %k = 0 to 6 {
            loop.block "mm" (%vi : 5 = %i, %vj : 7 = %jo * 4 + %ji) reduce (%vk : 6 = %k)
              where (6 - %jo * 4 - %ji) init {
            ^bb0(%vi : index, %vj : index, %vk : index):
              %z = arith.constant 0.0 : f32
              loop.store %z, %C[%vi, %vj] : f32
            } {
              %a = loop.load %A[%vi, %vk] : f32
              %b = loop.load %B[%vk, %vj] : f32
              %c = loop.load %C[%vi, %vj] : f32
              %n = loop.fma %a, %b, %c : f32, f32, f32
              loop.store %n, %C[%vi, %vj] : f32
            }
          }
        }
      }
    }
  }"""

CONV = """
  loop.func @conv(%X: memref<10xf32>, %W: memref<3xf32>, %Y: memref<10xf32>) attributes {outputs = 1 : i64} {
    %p = loop.alloc "shared" : memref<12xf32>
    %zero = arith.constant 0.0 : f32
    loop.for %i = 0 to 12 {
      loop.block "pad" (%v : 12 = %i) {
        %x = loop.load %X[%v - 1] mask (%v - 1, 10 - %v) else %zero : f32
        loop.store %x, %p[%v] : f32
      }
    }
    loop.for %i = 0 to 10 {
      loop.for %k = 0 to 3 {
        loop.block "conv" (%v : 10 = %i) reduce (%r : 3 = %k) init {
        ^bb0(%v : index, %r : index):
          %z = arith.constant 0.0 : f32
          loop.store %z, %Y[%v] : f32
        } {
          %x = loop.load %p[%v + %r] : f32
          %w = loop.load %W[%r] : f32
          %y = loop.load %Y[%v] : f32
          %m = arith.subf %x, %w : f32
          %n = loop.fma %m, %w, %y : f32, f32, f32
          loop.store %n, %Y[%v] : f32
        }
      }
    }
  }"""

ROWS = """
  loop.func @rows(%X: memref<4x9xf32>, %Y: memref<4x9xf32>) attributes {outputs = 1 : i64} {
    %low = arith.constant 0xFF800000 : f32
    %lows = loop.broadcast %low : f32 to vector<1x16xf32>
    loop.for %i = 0 to 4 parallel {
      %x = loop.load %X[%i, d1] mask (8 - d1) else %lows tile (d0 : 1, d1 : 16) : vector<1x16xf32>
      %m = loop.reduce max %x axes [1] : vector<1x16xf32> to vector<1x1xf32>
      %b = loop.broadcast %m : vector<1x1xf32> to vector<1x16xf32>
      %d = arith.subf %x, %b : vector<1x16xf32>
      %e = math.exp %d : vector<1x16xf32>
      %s = loop.reduce sum %e axes [1] : vector<1x16xf32> to vector<1x1xf32>
      %t = loop.broadcast %s : vector<1x1xf32> to vector<1x16xf32>
      %y = arith.divf %e, %t : vector<1x16xf32>
      loop.store %y, %Y[%i, d1] mask (8 - d1) tile (d0 : 1, d1 : 16) : vector<1x16xf32>
    }
  }"""
KERNELS = {"gemm": GEMM, "conv": CONV, "rows": ROWS}


def parse(*texts: str) -> tuple[Context, ModuleOp]:
    ctx = make_context()
    module = Parser(ctx, "builtin.module {" + "\n".join(texts) + "}").parse_module()
    module.verify()
    return ctx, module


# --- bugs: each changes one place of a kernel; a generator counts the places -----------------------------------------

Bug = Callable[[Operation], Iterator[Callable[[], None]]]


def _set(op: Operation, key: str, value: object) -> Callable[[], None]:
    return lambda: op.properties.__setitem__(key, value)  # type: ignore[arg-type]


def upper_bound(op: Operation) -> Iterator[Callable[[], None]]:
    """One iteration too few, and one too many."""
    if isinstance(op, loop.ForOp):
        for d in (-1, 1):
            yield _set(op, "bounds", IndexMapAttr.get([op.lower, op.upper + d]))


def lower_bound(op: Operation) -> Iterator[Callable[[], None]]:
    if isinstance(op, loop.ForOp):
        yield _set(op, "bounds", IndexMapAttr.get([op.lower + 1, op.upper]))


def index_off_by_one(op: Operation) -> Iterator[Callable[[], None]]:
    if isinstance(op, loop.LoadOp | loop.StoreOp):
        for k, e in enumerate(op.map.data):
            yield _set(op, "map", IndexMapAttr.get([*op.map.data[:k], e + 1, *op.map.data[k + 1 :]]))


def swapped_operands(op: Operation) -> Iterator[Callable[[], None]]:
    def reverse() -> None:
        op.operands = list(op.operands)[::-1]

    if isinstance(op, arith.SubfOp | arith.DivfOp | loop.FmaOp):
        yield reverse


def dropped_init(op: Operation) -> Iterator[Callable[[], None]]:
    if isinstance(op, loop.BlockOp) and op.has_init:

        def drop() -> None:
            op.detach_region(op.init)
            op.add_region(Region())
            op.add_region(op.detach_region(op.regions[0]))

        yield drop


def dropped_where(op: Operation) -> Iterator[Callable[[], None]]:
    if isinstance(op, loop.BlockOp) and op.where is not None:
        yield lambda: op.properties.pop("where")  # type: ignore
        for d in (-1, 1):
            yield _set(op, "where", IndexMapAttr.get([e + d for e in op.where_exprs]))


def wrong_mask(op: Operation) -> Iterator[Callable[[], None]]:
    if isinstance(op, loop.LoadOp | loop.StoreOp):
        for k, e in enumerate(op.mask_exprs):
            for d in (-1, 1):
                yield _set(op, "mask", IndexMapAttr.get([*op.mask_exprs[:k], e + d, *op.mask_exprs[k + 1 :]]))


def wrong_constant(op: Operation) -> Iterator[Callable[[], None]]:
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, FloatAttr):
        yield _set(op, "value", FloatAttr(1.0, op.value.type))


def wrong_combiner(op: Operation) -> Iterator[Callable[[], None]]:
    if isinstance(op, loop.ReduceOp):
        yield _set(op, "combiner", StringAttr("prod"))


def missing_store(op: Operation) -> Iterator[Callable[[], None]]:
    def remove() -> None:
        op.detach()
        op.erase()

    if isinstance(op, loop.StoreOp):
        yield remove


BUGS: list[Bug] = [
    upper_bound,
    lower_bound,
    index_off_by_one,
    swapped_operands,
    dropped_init,
    dropped_where,
    wrong_mask,
    wrong_constant,
    wrong_combiner,
    missing_store,
]


class BugPass(ModulePass):
    name = "loop-bug"
    bug: Bug
    place: int

    def __init__(self, bug: Bug, place: int) -> None:
        object.__setattr__(self, "bug", bug)
        object.__setattr__(self, "place", place)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        list(place for inner in op.walk() for place in self.bug(inner))[self.place]()


def places(kernel: str, bug: Bug) -> int:
    return sum(1 for op in parse(KERNELS[kernel])[1].walk() for _ in bug(op))


# One more iteration where the predicate, or one more padded lane where the mask, cuts it off again: the same program.
HARMLESS = {("gemm", "upper_bound", 5), ("gemm", "upper_bound", 3)}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("bug", BUGS, ids=lambda b: b.__name__)
def test_every_bug_is_caught(kernel, bug):
    for place in range(places(kernel, bug)):
        ctx, module = parse(KERNELS[kernel])
        if (kernel, bug.__name__, place) in HARMLESS:
            run_passes(module, ctx, [BugPass(bug, place)], instruments=[ValidateInstrument()])
            continue
        with pytest.raises(ResultChanged) as error:
            run_passes(module, ctx, [BugPass(bug, place)], instruments=[ValidateInstrument()])
        assert error.value.function == kernel
        assert str(error.value).startswith(f"pass 'loop-bug' changed @{kernel} (loop): ")


def test_there_are_bugs_of_every_kind():
    assert all(sum(places(k, bug) for k in KERNELS) for bug in BUGS)
    assert sum(places(k, bug) for k in KERNELS for bug in BUGS) > 60


# --- right passes ----------------------------------------------------------------------------------------------------


DENSE = """
  te.func @dense(%x: tensor<5x24xf32>, %w: tensor<24x40xf32>) -> tensor<5x40xf32> {
    %d = te.compute "dense" (%i : 5, %j : 40) reduce (%k : 24) sum {
      %0 = te.read %x[%i, %k] : f32
      %1 = te.read %w[%k, %j] : f32
      %2 = arith.mulf %0, %1 : f32
      te.yield %2 : f32
    } : tensor<5x40xf32>
    te.return %d : tensor<5x40xf32>
  }"""


def test_a_kernel_keeps_its_results_from_te_to_native_code():
    ctx, module = parse(DENSE)
    watch = ValidateInstrument()
    passes = ["convert-te-to-loop", "loop-form-tiles", "loop-promote-tiles", "convert-loop-to-llvm"]
    run_passes(module, ctx, passes, verify=True, instruments=[watch])
    assert next(op.name for op in module.body.block.ops if op.name.endswith("func")) == "llvm.func"
    assert watch.ran >= 4
    known = watch.known["dense"]
    x, w = known.arrays
    np.testing.assert_allclose(known.measured.wide[0], x.astype(float) @ w, rtol=1e-12)
    np.testing.assert_allclose(known.measured.own[0], x @ w, rtol=1e-4, atol=1e-5)


class BreakNative(ModulePass):
    """The first fma of the machine code adds one of its factors."""

    name = "llvm-bug"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if inner.name == "llvm.call_intrinsic" or inner.name.endswith("fma"):
                a, b, c = list(inner.operands)[:3]
                inner.operands[2] = a if a.type == c.type else b
                return
        raise AssertionError("expected an fma in the machine code")


def test_a_bug_in_native_code_is_caught():
    ctx, module = parse(DENSE)
    passes = ["convert-te-to-loop", "loop-form-tiles", "convert-loop-to-llvm", BreakNative()]
    with pytest.raises(ResultChanged, match=r"pass 'llvm-bug' changed @dense \(llvm\): output 0 at \["):
        run_passes(module, ctx, passes, instruments=[ValidateInstrument()])


class StoreAnywhere(ModulePass):
    """The first store of the machine code writes to address 0."""

    name = "llvm-wild-store"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        store = next(inner for inner in op.walk() if isinstance(inner, llvm.StoreOp))
        null = llvm.ZeroOp.build(result_types=[llvm.LLVMPointerType()])
        store.parent.insert_op_before(null, store)
        store.operands[1] = null.results[0]


def test_machine_code_that_ends_its_process_is_blamed_on_its_pass():
    ctx, module = parse(DENSE)
    passes = ["convert-te-to-loop", "loop-form-tiles", "convert-loop-to-llvm", StoreAnywhere()]
    with pytest.raises(ResultChanged, match=r"'llvm-wild-store' .* its machine code ended the process: SIG"):
        run_passes(module, ctx, passes, instruments=[ValidateInstrument()])


GRAPH = """
  func.func @main(%x: tensor<2x4xf32>) -> tensor<2x3xf32> {
    %w = graph.param "fc.weight" : tensor<3x4xf32>
    %0 = graph.call @k(%x, %w) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
  func.func private @k(%x: tensor<2x4xf32>, %w: tensor<3x4xf32>) -> tensor<2x3xf32> attributes {graph.kernel} {
    %0 = graph.dense %x, %w : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
    %1 = graph.relu %0 : tensor<2x3xf32>
    return %1 : tensor<2x3xf32>
  }"""


class GraphBug(ModulePass):
    name = "graph-bug"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        relu = next(inner for inner in op.walk() if inner.name == "graph.relu")
        relu.results[0].replace_all_uses_with(relu.operands[0])
        relu.detach()
        relu.erase()


def test_kernels_get_the_inputs_that_main_gave_them():
    ctx, module = parse(GRAPH)
    watch = ValidateInstrument()
    run_passes(module, ctx, ["graph-eliminate-dead-code"], instruments=[watch])
    main, kernel = watch.known["main"], watch.known["k"]
    assert (kernel.arrays[0] == main.arrays[0]).all()
    assert (kernel.measured.wide[0] == main.measured.wide[0]).all()
    assert (kernel.arrays[1] != 0).all()


def test_a_bug_in_a_graph_pass_is_caught():
    ctx, module = parse(GRAPH)
    with pytest.raises(ResultChanged, match="pass 'graph-bug' changed @main"):
        run_passes(module, ctx, [GraphBug()], instruments=[ValidateInstrument()])


class Nothing(ModulePass):
    name = "nothing"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pass


def test_what_a_pass_leaves_alone_is_not_run_again():
    ctx, module = parse(GEMM)
    watch = ValidateInstrument()
    run_passes(module, ctx, [Nothing(), Nothing()], instruments=[watch])
    assert watch.ran == 5  # its own precision, large inputs, f64, and two draws moved a little


class Reassociate(ModulePass):
    """Run the reduction backwards: right, but not to the bit."""

    name = "reassociate"
    exact = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if isinstance(inner, loop.LoadOp) and inner.buffer.name_hint in ("A", "B"):
                k = 1 if inner.buffer.name_hint == "A" else 0
                exprs = list(inner.map.data)
                exprs[k] = -exprs[k] + 5
                inner.properties["map"] = IndexMapAttr.get(exprs)


class ReassociateExactly(Reassociate):
    name = "reassociate-exactly"
    exact = True


def test_a_pass_may_promise_to_be_exact():
    ctx, module = parse(GEMM)
    run_passes(module, ctx, [Reassociate()], instruments=[ValidateInstrument()])
    ctx, module = parse(GEMM)
    with pytest.raises(ResultChanged, match="pass 'reassociate-exactly' changed @gemm"):
        run_passes(module, ctx, [ReassociateExactly()], instruments=[ValidateInstrument()])


def test_large_kernels_run_as_c():
    text = GEMM.replace("5x6x", "200x200x").replace("6x7x", "200x7x").replace("5x7x", "200x7x")
    text = text.replace("%i = 0 to 5", "%i = 0 to 200").replace("%k = 0 to 6", "%k = 0 to 200")
    text = text.replace(": 5 =", ": 200 =").replace(": 6 =", ": 200 =")
    ctx, module = parse(text)
    func = next(iter(module.body.block.ops))
    assert isinstance(func, loop.FuncOp)
    assert count_operations(func) > INTERPRETED_OPERATIONS
    with pytest.raises(ResultChanged, match="changed @gemm"):
        run_passes(module, ctx, [BugPass(upper_bound, 6)], instruments=[ValidateInstrument()])
    ctx, module = parse(text)
    with pytest.raises(ResultChanged, match=r"it no longer runs: 'loop.load' goes out of bounds"):
        run_passes(module, ctx, [BugPass(index_off_by_one, 2)], instruments=[ValidateInstrument()])


def test_what_cannot_be_run_is_a_warning_and_no_error(capsys):
    ctx, module = parse("""
  loop.func @bad(%X: memref<4xf32>, %Y: memref<4xf32>) attributes {outputs = 1 : i64} {
    %four = arith.constant 4 : i64
    %at = arith.index_cast %four : i64 to index
    %v = loop.load %X[%at] : f32
    loop.store %v, %Y[0] : f32
  }""")
    run_passes(module, ctx, [Nothing()], instruments=[ValidateInstrument()])
    assert "is not validated, for its interpreter says: 'loop.load' reads %X[4], out of" in capsys.readouterr().err


# --- comparing -------------------------------------------------------------------------------------------------------


def test_integers_are_compared_exactly():
    found = difference(np.array([[1, 2], [3, 4]]), np.array([[1, 2], [5, 4]]))
    assert found is not None
    assert str(found) == "output 0 at [1, 0]: expected 3, but got 5"
    assert difference(np.array([2**60]), np.array([2**60 + 1])) is not None
    assert difference(np.array([3, 4]), np.array([4, 4]), 1.0) is None


def test_floats_may_differ_by_what_is_allowed_for_each():
    a, b = np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-5], np.float32)
    assert difference(a, b) is not None
    assert difference(a, b, np.array([1e-4, 1e-6])) is not None
    assert difference(a, b, np.array([0.0, 1e-4])) is None


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinities_stand_at_the_same_places(value):
    good, bad = np.array([value, 1.0]), np.array([0.0, 1.0], np.float32)
    assert difference(good, good.astype(np.float32)) is None
    assert difference(good, bad, 1e30) is not None
    assert difference(bad, good.astype(np.float32), 1e30) is not None


def test_differences_names_the_output_and_shapes_count():
    one, two = np.zeros(2), np.ones(2)
    found = differences([one, one], [one, two])
    assert found is not None
    assert (found.output, found.index) == (1, (0,))
    shapes = difference(np.zeros(2), np.zeros(3))
    assert shapes is not None
    assert "shape (2,)" in str(shapes)


def test_an_f64_reference_of_bf16_allows_its_rounding():
    import ml_dtypes

    x = np.linspace(-3, 3, 50)
    unit = epsilon(np.dtype(ml_dtypes.bfloat16))
    assert difference(x, x.astype(ml_dtypes.bfloat16), 3 * unit) is None
    assert difference(x, (x * 1.2).astype(ml_dtypes.bfloat16), 3 * unit) is not None
