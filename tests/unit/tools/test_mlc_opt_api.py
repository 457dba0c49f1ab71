"""The pass manager, the verifier and --verify-diagnostics, used from Python."""

from dataclasses import dataclass

import pytest
from xdsl.dialects.arith import AddiOp, ConstantOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.lexer import Input

from mlc.dialects.syntax.source import parse
from mlc.driver.pipeline import pipelines, registry
from mlc.driver.pipeline.manager import BrokenByPass, make_context, parse_pipeline, run_passes
from mlc.driver.pipeline.text import PipelineError, pass_text
from mlc.passes.verifier import InvalidIR, verify, verify_dominance
from mlc.support.diagnostics import Diagnostic, Place
from mlc.support.errors import UserError, collected_warnings, did_you_mean, fail, warn
from mlc.tools.opt.expected import compare, expectations
from mlc.tools.opt.show import show_pipeline

TEXT = "func.func @f(%a: i32) -> i32 {\n  %0 = arith.addi %a, %a : i32\n  func.return %0 : i32\n}\n"


@dataclass(frozen=True)
class OptionsPass(ModulePass):
    """All kinds of options."""

    name = "test-options"
    number: int = 1
    ratio: float = 0.5
    on: bool = False
    text: str = "a"
    tiles: tuple[int, ...] = ()
    maybe: int | None = None

    def apply(self, ctx, op):
        pass


@dataclass(frozen=True)
class ReversePass(ModulePass):
    """Leaves each function with its first op last."""

    name = "test-reverse"

    def apply(self, ctx, op):
        for function in op.ops:
            block = function.regions[0].block
            first = block.first_op
            first.detach()
            block.add_op(first)


@pytest.fixture(autouse=True)
def _passes(monkeypatch):
    monkeypatch.setattr(registry, "USER_PASSES", {"test-options": OptionsPass, "test-reverse": ReversePass})
    monkeypatch.setattr(pipelines, "PIPELINES", pipelines.PIPELINES)
    before = dict(pipelines.PIPELINES)
    yield
    pipelines.PIPELINES.clear()
    pipelines.PIPELINES.update(before)


def module():
    return parse(make_context(), Input(TEXT, "t.mlir"))[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("test-options", OptionsPass()),
        ("test-options{}", OptionsPass()),
        ("test-options{ number=-3\n ratio=2 }", OptionsPass(number=-3, ratio=2.0)),
        ("test-options{ratio=1e-3 on}", OptionsPass(ratio=1e-3, on=True)),
        ("test-options{on=true text=x86-64:v4}", OptionsPass(on=True, text="x86-64:v4")),
        ('test-options{text="a b \\"c\\", {}"}', OptionsPass(text='a b "c", {}')),
        ("test-options{tiles=4,8,16 maybe=2}", OptionsPass(tiles=(4, 8, 16), maybe=2)),
        ("test-options{tiles=4 maybe}", OptionsPass(tiles=(4,))),
    ],
)
def test_options(text, expected):
    assert parse_pipeline(text) == [expected]
    assert parse_pipeline(pass_text(expected)) == [expected]


def test_named_pipelines_nest():
    pipelines.PIPELINES.update({"T0": ["test-options{number=1}"], "T1": ["T0", "test-options{number=2}"]})
    numbers = [p.number for p in parse_pipeline("T1,test-options{number=3},builtin.module(T0)")]
    assert numbers == [1, 2, 3, 1]
    assert show_pipeline("T1") == "builtin.module(\n  test-options{number=1},\n  test-options{number=2}\n)"
    assert parse_pipeline(show_pipeline("T1")) == parse_pipeline("T1")
    with pytest.raises(PipelineError, match="pipeline 'T0' takes no options"):
        parse_pipeline("T0{a=1}")
    with pytest.raises(PipelineError, match="unknown pass 'T00'; did you mean 'T0'"):
        parse_pipeline("T00")


def test_wrong_named_pipelines():
    pipelines.PIPELINES.update({"T0": ["T1"], "T1": ["T0"], "T2": ["nothing-like-it"]})
    with pytest.raises(PipelineError, match="pipeline 'T0' contains itself"):
        parse_pipeline("T0")
    with pytest.raises(UserError, match="pipeline 'T0' contains itself"):
        show_pipeline("T0")
    with pytest.raises(PipelineError, match="in pipeline 'T2': unknown pass 'nothing-like-it'"):
        parse_pipeline("T2")
    with pytest.raises(UserError, match="unknown pipeline 'T22'; did you mean 'T2'"):
        pipelines.pipeline("T22")


def test_every_pipeline_and_every_registered_pass_exists():
    from mlc.driver.pipeline.registry import PASSES

    for name in PASSES:
        assert registry.pass_class(name).name == name
    for name in pipelines.PIPELINES:
        assert parse_pipeline(name)


def test_every_registered_dialect_exists_under_its_name():
    from mlc.dialects import DIALECTS

    ctx = make_context()
    for name in DIALECTS:
        assert ctx.get_dialect(name).name == name


def test_registry_entries_that_cannot_be_imported(monkeypatch):
    monkeypatch.setitem(registry.PASSES, "test-absent", "mlc.passes.nowhere:AbsentPass")
    monkeypatch.setitem(registry.PASSES, "test-no-class", "mlc.support.limits:limits")
    monkeypatch.setitem(registry.DIALECTS, "absent", "mlc.dialects.nowhere:Absent")
    with pytest.raises(UserError, match=r"pass 'test-absent' is registered as 'mlc.passes.nowhere:AbsentPass', which"):
        parse_pipeline("test-absent")
    with pytest.raises(UserError, match="pass 'test-no-class': expected a ModulePass class"):
        parse_pipeline("test-no-class")
    ctx = make_context()
    with pytest.raises(UserError, match="dialect 'absent' is registered as"):
        ctx.get_optional_op("absent.op")


def test_instruments_see_each_pass_and_may_leave_one_out():
    seen = []

    class Watch:
        def before(self, module_pass, op):
            assert isinstance(op, ModuleOp)
            seen.append(("before", module_pass.number))
            return module_pass.number != 2

        def after(self, module_pass, op):
            seen.append(("after", module_pass.number))

    run_passes(module(), make_context(), [OptionsPass(1), "test-options{number=2}"], instruments=[Watch(), object()])
    assert seen == [("before", 1), ("after", 1), ("before", 2)]


def test_a_failed_pass_is_told_to_the_instruments():
    seen = []

    class Watch:
        def failed(self, module_pass, op, error):
            seen.append((module_pass.name, str(error)))

    @dataclass(frozen=True)
    class Failing(ModulePass):
        name = "test-failing"

        def apply(self, ctx, op):
            fail(op, "no")

    with pytest.raises(UserError, match="no") as caught:
        run_passes(module(), make_context(), [Failing()], instruments=[Watch()])
    assert isinstance(caught.value.op, ModuleOp)
    assert seen == [("test-failing", "no")]


def test_verify_between_passes_is_a_choice():
    run_passes(module(), make_context(), ["test-reverse"])
    with pytest.raises(BrokenByPass, match=r"pass 'test-reverse' left invalid IR: 'func.return' op operand #0"):
        run_passes(module(), make_context(), ["test-reverse"], verify=True)


def test_the_verifier_names_the_operation():
    op = module()
    verify(op)
    function = op.body.block.first_op
    add = function.regions[0].block.first_op
    add.operands[0] = ConstantOp.from_int_and_width(1, 32).result
    with pytest.raises(InvalidIR, match="operand #0 does not dominate this use") as caught:
        verify_dominance(op)
    assert caught.value.op is add


def test_a_verifier_that_crashes_is_an_error_about_its_operation(monkeypatch):
    monkeypatch.setattr(AddiOp, "verify_", lambda self: 1 // 0)
    with pytest.raises(InvalidIR, match=r"cannot be verified \(ZeroDivisionError"):
        verify(module())


def test_warnings_go_to_the_last_sink(capsys):
    warn(None, "careful")
    assert capsys.readouterr().err == "warning: careful\n"
    with collected_warnings() as seen:
        warn(None, "quiet")
        warn(module().body.block.first_op, "is odd")
    assert seen == ["quiet", "'func.func' op is odd"]
    assert capsys.readouterr().err == ""


def test_did_you_mean():
    assert did_you_mean("graph-fuse-op", ["graph-fuse-ops", "cse"]) == "; did you mean 'graph-fuse-ops'?"
    assert did_you_mean("zzz", ["graph-fuse-ops"]) == ""


def test_expectations():
    text = (
        "// expected-error{{a}}\n"
        "// expected-error@+2 {{b}} expected-warning @-1 {{c}}\n"
        "// expected-note@below 2 {{d}}\n"
        "// expected-error-re@above {{e{{[0-9]+}}}}\n"
        "// expected-error@unknown {{f}}\n"
    )
    found = [(e.severity, e.line, e.text) for e in expectations(Input(text, "t"))]
    assert found == [
        ("error", 1, "a"),
        ("error", 4, "b"),
        ("warning", 1, "c"),
        ("note", 6, "d"),
        ("note", 6, "d"),
        ("error", 0, "e{{[0-9]+}}"),
        ("error", 0, "f"),
    ]


def test_what_was_announced_is_compared_with_what_was_produced():
    source = Input("x // expected-error {{size}}\ny // expected-error-re {{is {{[0-9]+}}}}\n", "t")
    size = Diagnostic(Place("t", 1, 1), "the size is 3")
    number = Diagnostic(Place("t", 2, 1), "it is 42")
    assert compare(source, [number, size]) == []
    assert [str(d) for d in compare(source, [size, size])] == [
        "t:1:1: error: unexpected error: the size is 3",
        't:2:6: error: expected error "is {{[0-9]+}}" was not produced',
    ]
    assert len(compare(source, [Diagnostic(Place("t", 1, 1), "the size is 3", "warning"), number])) == 2
