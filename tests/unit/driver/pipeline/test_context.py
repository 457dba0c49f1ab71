"""PassContext: which passes run, their options, and who watches them."""

import re
from dataclasses import dataclass

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.passes import ModulePass

import mlc
from mlc.dialects.graph import ConstantOp, MultiplyOp, ReluOp
from mlc.dialects.syntax.source import parse_module
from mlc.driver.pipeline.context import PassContext
from mlc.driver.pipeline.instruments import DumpIR, Timing, Veto
from mlc.driver.pipeline.manager import make_context, parse_pipeline, run_passes
from mlc.driver.pipeline.pipelines import pass_names
from mlc.support.errors import UserError


@pytest.fixture
def model(tmp_path):
    """conv, batch norm, relu, twice the same sum."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((8, 4, 3, 3)),
        **{name: rng.uniform(0.5, 1.5, 8) for name in ("scale", "shift", "mean", "var")},
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("Sigmoid", ["r"], ["s"]),
        helper.make_node("Sigmoid", ["r"], ["t"]),
        helper.make_node("Add", ["s", "t"], ["y"]),
    ]
    shapes = {"x": (1, 4, 9, 9), "y": (1, 8, 9, 9)}
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items())
    initializers = [numpy_helper.from_array(v.astype(np.float32), n) for n, v in weights.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], initializers)
    path = tmp_path / "model.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    return path


X = {"x": np.random.default_rng(1).standard_normal((1, 4, 9, 9)).astype(np.float32)}


def run(path, **options):
    exe = mlc.compile(path, threads=1, cache=False, **options)
    return len(exe.graph_json["nodes"]), exe(X)["y"]


def test_levels_differ_and_agree(model):
    counts, values = zip(*(run(model, opt_level=level) for level in range(5)), strict=True)
    assert counts[0] > counts[1] >= counts[2]
    assert len(set(counts)) >= 3
    for value in values[1:]:
        np.testing.assert_allclose(value, values[0], rtol=2e-5, atol=2e-6)


def test_a_context_gives_the_level_and_the_call_overrules_it(model):
    with mlc.PassContext(opt_level=0):
        plain, _ = run(model)
        fused, _ = run(model, opt_level=2)
    assert plain > fused
    assert PassContext.current() is None


def test_disabled_and_required_passes(model):
    timing = Timing()
    with mlc.PassContext(opt_level=3, disabled=["graph-fuse-ops"], instruments=[timing]):
        alone, value = run(model)
    assert "graph-fuse-ops" not in timing.seconds
    with mlc.PassContext(opt_level=1, required=["graph-eliminate-common-subexpr"], instruments=[timing := Timing()]):
        few, other = run(model)
    assert "graph-eliminate-common-subexpr" not in pass_names("graph-O1")
    assert timing.runs["graph-eliminate-common-subexpr"] == 1
    order = list(timing.seconds)
    assert order.index("graph-eliminate-common-subexpr") < order.index("graph-fuse-ops")
    assert few < alone
    np.testing.assert_allclose(value, other, rtol=2e-5, atol=2e-6)


def test_a_required_pass_ignores_a_veto(model):
    veto = Veto(lambda one, module: one.name in ("graph-fuse-ops", "graph-eliminate-common-subexpr"))
    with mlc.PassContext(required=["graph-fuse-ops"], instruments=[veto, timing := Timing()]):
        run(model)
    assert "graph-fuse-ops" in timing.runs
    assert "graph-eliminate-common-subexpr" not in timing.runs
    assert set(veto.left_out) == {"graph-eliminate-common-subexpr"}


class Seen:
    """An instrument with `before` alone; `answer` is what it says of one pass."""

    def __init__(self, name="", answer=None):
        self.name, self.answer, self.names = name, answer, []

    def before(self, module_pass, module):
        self.names.append(module_pass.name)
        return self.answer if module_pass.name == self.name else None


def test_nobody_sees_a_pass_that_is_left_out(model):
    seen = Seen()
    with mlc.PassContext(instruments=[seen, Veto(lambda one, module: one.name == "graph-fuse-ops")]):
        run(model)
    assert "graph-fuse-ops" not in seen.names
    assert "graph-outline-kernels" in seen.names
    with mlc.PassContext(instruments=[Seen("graph-fuse-ops", False), timing := Timing()]):
        run(model)
    assert "graph-fuse-ops" not in timing.runs
    with mlc.PassContext(required=["graph-fuse-ops"], instruments=[Seen("graph-fuse-ops", False), timing := Timing()]):
        run(model)
    assert "graph-fuse-ops" in timing.runs


@dataclass(frozen=True)
class HalvePass(ModulePass):
    """Each relu is followed by a product with a number."""

    name = "graph-halve"
    by: float = 0.5

    def apply(self, ctx, op):
        for relu in [one for one in op.walk() if isinstance(one, ReluOp)]:
            number = ConstantOp.make(self.by, dtype=relu.type.element_type)
            half = MultiplyOp.make(relu.result, number)
            relu.result.replace_all_uses_with(half.result)
            half.operands[0] = relu.result
            relu.parent.insert_ops_after([number, half], relu)


@pytest.fixture
def registry(monkeypatch):
    """Passes that a test registers are forgotten after it."""
    monkeypatch.setattr("mlc.driver.pipeline.registry.USER_PASSES", {})


@dataclass(frozen=True)
class NeedsOptionPass(ModulePass):
    """A pass that does not say what its option is by default."""

    name = "graph-needs-option"
    by: float

    def apply(self, ctx, op):
        pass


class BreaksPass(ModulePass):
    """Takes the kernels' ops apart from what reads them."""

    name = "graph-breaks"

    def apply(self, ctx, op):
        for relu in [one for one in op.walk() if isinstance(one, ReluOp)]:
            relu.detach()


class RaisesPass(ModulePass):
    """Raises something."""

    name = "te-raises"

    def apply(self, ctx, op):
        raise LookupError("no such thing")


class GraphRaisesPass(RaisesPass):
    """Raises something on the graph level."""

    name = "graph-raises"


class NamelessPass(ModulePass):
    """Has no name."""

    def apply(self, ctx, op):
        pass


@pytest.mark.parametrize(
    ("insert", "message"),
    [
        ({"before graph-fuse-ops": BreaksPass}, r"pass 'graph-breaks' left invalid IR: .*does not dominate this use"),
        (
            {"before graph-inline": GraphRaisesPass},
            r"pass 'graph-raises' raised LookupError: no such thing \(test_context",
        ),
        (
            {"before te-inline": RaisesPass},
            r"kernel '.*: your pass 'te-raises' raised LookupError: no such thing \(test_context",
        ),
    ],
)
def test_a_pass_of_the_users_own_that_fails_is_named(model, registry, insert, message):
    with pytest.raises(UserError, match=message):
        order_of(model, insert)


def test_a_pass_of_the_users_own_that_changes_a_result_is_named(tmp_path, registry):
    path = tmp_path / "m.mlir"
    body = "%0 = graph.relu %x : T\n  return %0 : T"
    path.write_text(f"func.func @main(%x: T) -> T {{\n  {body}\n}}\n".replace("T", "tensor<4xf32>"))
    what = r"m.mlir:1:1: your pass 'graph-halve' changed @main \(graph\): output 0 at \[0\]: expected \S+, but got "
    with pytest.raises(UserError, match=what) as error, mlc.PassContext(insert={"before graph-fuse-ops": HalvePass}):
        mlc.compile(path, threads=1, validate_each=True)
    assert "graph-halve" in error.value.reproducer[1]


def order_of(model, insert, **options):
    with mlc.PassContext(insert=insert, instruments=[timing := Timing()], **options):
        _, value = run(model)
    return list(timing.seconds), value


def test_a_pass_of_the_users_own_goes_anywhere(model, registry):
    _, plain = run(model)
    ran, value = order_of(model, {"before graph-fuse-ops": HalvePass()})
    assert ran[ran.index("graph-fuse-ops") - 1] == "graph-halve"
    assert np.abs(value - plain).max() > 1e-3
    ran, other = order_of(model, {"after graph-simplify-expr": [HalvePass(by=0.25), HalvePass(by=2.0)]})
    np.testing.assert_allclose(other, value, rtol=2e-5, atol=2e-6)
    _, third = order_of(model, {"after graph-inline": "graph-halve{by=0.75}"}, config={"graph-halve.by": 0.5})
    np.testing.assert_allclose(third, value, rtol=2e-5, atol=2e-6)
    _, fourth = order_of(model, {"after graph-inline": HalvePass}, disabled=["graph-halve"])
    np.testing.assert_allclose(fourth, plain, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("level", range(5))
def test_a_place_may_be_a_pass_of_another_level(registry, level):
    context = mlc.PassContext(level, insert={"after graph-fold-scale-axis": HalvePass})
    ran = [one.name for one in context.configure(parse_pipeline(f"graph-O{level}"), parse_pipeline("graph-O4"))]
    assert ("graph-fold-scale-axis" in ran) == (level >= 3)
    assert "graph-fuse-ops" not in ran or ran.index("graph-halve") < ran.index("graph-fuse-ops")
    assert ran.count("graph-halve") == 1
    assert [name for name in ran if name != "graph-halve"] == pass_names(f"graph-O{level}")


def test_kernels_have_places_too(model):
    ran, _ = order_of(model, {"before te-add-schedule": "te-inline"})
    assert ran.index("te-inline") < ran.index("te-add-schedule")
    context = mlc.PassContext(insert={"after te-inline": ["te-inline", "te-inline"]})
    passes = context.configure(parse_pipeline("kernel-O3"))
    assert [one.name for one in passes].count("te-inline") == 3
    assert context.key() != mlc.PassContext().key()


def test_a_dump_of_a_pass_that_fails_is_what_it_got(model, tmp_path):
    class Failing(ModulePass):
        name = "graph-failing"

        def apply(self, ctx, op):
            raise ValueError("no")

    with pytest.raises(UserError, match="unknown pass 'graph-inlin'; did you mean 'graph-inline'"):
        DumpIR(tmp_path, passes=["graph-inlin"])
    dumps = DumpIR(tmp_path, passes=["graph-inline"])
    module = parse_module("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\nreturn %x : tensor<2xf32>\n}")
    with pytest.raises(ValueError, match="no"):
        run_passes(module, make_context(), ["graph-inline", "graph-fuse-ops", Failing()], instruments=[dumps])
    assert [path.name for path in dumps.written] == ["0000-graph-inline-after.mlir", "0001-graph-failing-failed.mlir"]


def test_the_default_level_has_what_level_two_has_not():
    names = [one.name for one in mlc.PassContext().configure(parse_pipeline(f"graph-O{mlc.PassContext().opt_level}"))]
    assert "graph-alter-op-layout" in names
    assert "graph-alter-op-layout" not in pass_names("graph-O2")


def test_config_reaches_the_pass(model):
    with mlc.PassContext(config={"graph-fuse-ops.max-depth": 1}):
        apart, value = run(model)
    together, other = run(model)
    assert apart > together
    np.testing.assert_allclose(value, other, rtol=2e-5, atol=2e-6)


def test_a_cache_tells_contexts_apart(model, tmp_path, monkeypatch):
    monkeypatch.setenv("MLC_CACHE_DIR", str(tmp_path / "cache"))
    counts = []
    for depth in (1, 256, 1):
        with mlc.PassContext(config={"graph-fuse-ops.max-depth": depth}):
            counts.append(len(mlc.compile(model, threads=1).graph_json["nodes"]))
    assert counts[0] == counts[2] > counts[1]


def test_dumps_are_numbered_and_only_where_something_changed(model, tmp_path):
    every, changes = DumpIR(tmp_path / "all"), DumpIR(tmp_path / "changed", when="change")
    with mlc.PassContext(instruments=[every, changes]):
        run(model)
    names = [path.name for path in every.written]
    assert names[0] == f"0000-{names[0].split('-', 1)[1]}"
    assert any(name.endswith("graph-fuse-ops-after.mlir") for name in names)
    kernels = [path for path in every.written if "loop-promote-tiles-after-" in path.name]
    assert len(kernels) == len({path.name for path in kernels}) > 1
    headers = []
    for path in kernels:
        first, _, text = path.read_text().partition("\n")
        kernel = path.stem.partition("-after-")[2]
        assert re.fullmatch(rf"// kernel @{kernel}(, nodes?: \S.*)?", first)
        assert f"loop.func @{kernel}" in text
        headers.append(first)
    assert any(", nodes: Conv_0" in first for first in headers), headers
    assert 0 < len(changes.written) < len(every.written)
    assert "graph.fused" in next(p for p in changes.written if "graph-fuse-ops" in p.name).read_text()


def test_timing_is_a_tree(model):
    with mlc.PassContext(instruments=[timing := Timing()]):
        run(model)
    levels = dict(timing.tree())
    assert {"graph", "te", "loop", "convert"} <= set(levels)
    rows = [line.split() for line in str(timing).splitlines()[1:]]
    assert ["graph-fuse-ops", "1"] in [[row[2], row[1]] for row in rows if len(row) == 3]
    assert rows[-1][1:] == [str(sum(timing.runs.values())), "all"]
    by_level = sum(float(row[0]) for row in rows if len(row) == 2)
    assert float(rows[-1][0]) == pytest.approx(by_level, abs=1e-3)


def test_dumps_before_passes_are_what_the_passes_get(model, tmp_path):
    before = DumpIR(tmp_path / "before", when="before", passes=["graph-fuse-ops"])
    after = DumpIR(tmp_path / "after", passes=["graph-fuse-ops"])
    with mlc.PassContext(instruments=[before, after]):
        run(model)
    (one,), (other,) = before.written, after.written
    assert one.name == "0000-graph-fuse-ops-before.mlir"
    assert "graph.fused" not in one.read_text()
    assert "graph.fused" in other.read_text()
    with pytest.raises(UserError, match="expected when to be 'before', 'after' or 'change', but got 'during'"):
        DumpIR(tmp_path, when="during")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"opt_level": 7}, "expected opt_level to be 0 to 4, but got 7"),
        ({"opt_level": True}, "expected opt_level to be 0 to 4, but got True"),
        ({"opt_level": 2.0}, "expected opt_level to be 0 to 4, but got 2.0"),
        ({"disabled": None}, "expected disabled to be a list of pass names, but got None"),
        ({"disabled": [3]}, "expected the name of a pass, but got 3"),
        ({"instruments": Timing()}, "expected instruments to be a list of objects, but got Timing("),
        ({"instruments": [Timing]}, "expected an instrument, but got the class Timing; call it"),
        ({"instruments": [3]}, "expected an instrument with one of enter_context, exit_context, should_run"),
        ({"config": [1]}, "expected config to be a dict with texts as keys, but got [1]"),
        ({"config": {1: 2}}, "expected config to be a dict with texts as keys, but got {1: 2}"),
        (
            {"config": {"graph-fuse-ops.mode": "tvmm"}},
            "'graph-fuse-ops.mode' to be one of 'tvm', 'mlc', but got 'tvmm'; did you mean 'tvm'?",
        ),
        ({"disabled": ["graph-fuse-op"]}, "unknown pass 'graph-fuse-op'; did you mean 'graph-fuse-ops'?"),
        ({"disabled": "graph-fuse-ops"}, "expected disabled to be a list of pass names"),
        ({"required": ["te-inline"], "disabled": ["te-inline"]}, "'te-inline' is both"),
        (
            {"required": ["graph-eliminate-dead-code"]},
            "pipelines, but got 'graph-eliminate-dead-code'; insert={\"before",
        ),
        ({"insert": {"graph-fuse-ops": HalvePass}}, "places like 'before graph-fuse-ops', but got 'graph-fuse-ops'"),
        ({"insert": {"after graph-fuse-op": HalvePass}}, "compiler's pipelines; did you mean 'graph-fuse-ops'?"),
        ({"insert": {"after te-inline": "te-inlin"}}, "unknown pass 'te-inlin'"),
        ({"insert": {"after te-inline": int}}, "expected insert to hold passes, their classes or the text"),
        ({"insert": {"after te-inline": 3}}, "of a pipeline, but got 3"),
        (
            {"insert": {"after te-inline": NeedsOptionPass}},
            "expected an object of pass 'graph-needs-option' with its op",
        ),
        (
            {"insert": {"before graph-fuse-ops": "loop-promote-tiles"}},
            "a pass of the graph level at 'before graph-fuse-ops', but got 'loop-promote-tiles'; its level is at 'aft",
        ),
        ({"insert": {"after convert-te-to-loop": "te-inline"}}, "of the loop level at 'after convert-te-to-loop', but"),
        (
            {"insert": {"after te-inline": RaisesPass, "before te-inline": HalvePass}},
            "of the te level at 'before te-",
        ),
        ({"insert": {"after te-inline": NamelessPass}}, "expected a pass with a name, but class NamelessPass has none"),
        ({"insert": [HalvePass]}, "expected insert to be a dict with texts as keys"),
        ({"config": {"max-depth": 1}}, "expected a config key like"),
        ({"config": {"graph-fuse-ops.max-dept": 1}}, "no option 'max-dept'; did you mean 'max-depth'?"),
        ({"config": {"graph-fuse-ops.max-depth": "1"}}, "expected config 'graph-fuse-ops.max-depth' to be int"),
        ({"config": {"graph-fuse-ops.max-depth": True}}, "expected config 'graph-fuse-ops.max-depth' to be int"),
    ],
)
def test_wrong_contexts_are_refused(arguments, message):
    with pytest.raises(UserError) as error:
        mlc.PassContext(**arguments)
    assert message in str(error.value)


class Recorder:
    def __init__(self, log, name, fails=""):
        self.log, self.name, self.fails = log, name, fails

    def enter_context(self, context):
        self.log.append(f"enter {self.name}")
        if self.fails == "enter":
            raise ValueError(self.name)

    def exit_context(self, context):
        self.log.append(f"exit {self.name}")
        if self.fails == "exit":
            raise ValueError(self.name)


def test_instruments_that_entered_leave_when_another_refuses():
    log: list[str] = []
    context = mlc.PassContext(instruments=[Recorder(log, "a"), Recorder(log, "b", "enter"), Recorder(log, "c")])
    with pytest.raises(ValueError, match="b"), context:
        pass
    assert log == ["enter a", "enter b", "exit a"]
    assert PassContext.current() is None


def test_every_instrument_leaves_though_one_fails():
    log: list[str] = []
    context = mlc.PassContext(instruments=[Recorder(log, "a"), Recorder(log, "b", "exit")])
    with pytest.raises(ValueError, match="b"), context:
        pass
    assert log == ["enter a", "enter b", "exit b", "exit a"]
    assert PassContext.current() is None


def test_contexts_nest():
    with mlc.PassContext(opt_level=1) as outer, mlc.PassContext(opt_level=2) as inner:
        assert PassContext.current() is inner
        assert outer.opt_level == 1
    assert PassContext.current() is None
