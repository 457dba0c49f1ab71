"""mlc-opt refuses whatever is wrong with one diagnostic and exit code 1, and reports its own bugs with exit code 2."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlc.driver.pipeline.registry import USER_DIALECTS, USER_PASSES
from mlc.driver.pipeline.text import PipelineError, parse_pipeline, pass_text
from mlc.support.limits import Limits, limits
from mlc.tools import mlc_opt

ROOT = Path(__file__).parents[3]
INPUTS = ROOT / "tests" / "filecheck" / "mlc-opt" / "Inputs"
VALID = """\
func.func @f(%a: i32, %t: tensor<2x?xf32>) -> i32 {
  %c = arith.constant dense<[1, 2, 3]> : tensor<3xi32> loc("w")
  %0 = arith.addi %a, %a {name = "text \\22", n = [1, 2.5, @f, affine_map<(d0)[s0] -> (d0 + s0 * 2)>]} : i32
  %1 = scf.if %b -> (i32) {
    scf.yield %0 : i32
  } else {
    scf.yield %a : i32
  }
  func.return %1 : i32
}
""".replace("%b", "%cond").replace("  %1 =", "  %cond = arith.constant true\n  %1 =")


@pytest.fixture(autouse=True)
def _restore_limits():
    yield
    for name, value in vars(Limits()).items():
        setattr(limits, name, value)


@pytest.fixture
def opt(tmp_path, capsys, monkeypatch):
    """Run mlc-opt on a text in an empty directory; give back the exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(source, *args):
        words = [*args]
        if source is not None:
            Path("in.mlir").write_bytes(source if isinstance(source, bytes) else source.encode())
            words.insert(0, "in.mlir")
        USER_PASSES.clear()
        USER_DIALECTS.clear()
        try:
            code = mlc_opt.run(words)
        except SystemExit as stop:  # argparse
            code = stop.code
        return code, *capsys.readouterr()

    return run


def diagnostics(err):
    return [line for line in err.splitlines() if re.search(r": (error|warning|note): ", line)]


def assert_refused(result, pattern):
    code, _out, err = result
    assert code == 1, err
    assert "Traceback" not in err
    assert len(diagnostics(err)) == 1, err
    assert re.match(pattern, err), err


def test_a_valid_module_is_printed_and_reads_back(opt):
    code, out, err = opt(VALID)
    assert (code, err) == (0, "")
    assert opt(out) == (0, out, "")


@pytest.mark.parametrize(
    ("source", "pattern"),
    [
        ("func.func @f( {", r"in\.mlir:1:15: error: "),
        ("garbage", r"in\.mlir:1:1: error: operation 'garbage' is not registered"),
        ("}", r"in\.mlir:1:1: error: "),
        ('%0 = "a.b"() : () -> i32', r"in\.mlir:1:6: error: operation 'a.b' is not registered"),
        ("func.func @f() { func.return %x : i32 }", r"in\.mlir:1:30: error: use of undeclared value %x"),
        ("func.func @f(%a: i32) { func.return %a : i64 }", r"in\.mlir:1:37: error: operand is used with type i64"),
        ("func.func @f(%a: i32) { func.return %a : i32 }", r"in\.mlir:1:25: error: 'func.return' op "),
        ("\n\n  func.func @f() -> i32 { func.return }", r"in\.mlir:3:27: error: 'func.return' op "),
        (b"\x7fELF\x02\x01\x01\x00\x00\x00", r"in\.mlir:1:1: error: Unexpected character"),
        (b"\xff\xfe\x00", r"in\.mlir:1:1: error: expected UTF-8 text, but got byte 0xff"),
        ("// \u00e9\n  ".encode() + b"\xc3(", r"in\.mlir:2:3: error: expected UTF-8 text, but got byte 0xc3"),
        (bytes(range(256)) * 20, r"in\.mlir:\d+:\d+: error: "),
        ('"test.op"() ({' * 10_000, r"in\.mlir:1:\d+: error: expected at most 128 nested operations"),
        ('"test.op"() ({' * 10_000 + "}) : () -> ()" * 10_000, r"in\.mlir:1:1793: error: expected at most 128 nested"),
        ("module {" * 10_000, r"in\.mlir:1:\d+: error: expected at most 128 nested operations"),
        ('"test.op"() {a = ' + "[" * 50_000, r"in\.mlir:1:\d+: error: expected less deeply nested text"),
        ('"test.op"() {a = ' + "{a = " * 50_000, r"in\.mlir:1:\d+: error: expected less deeply nested text"),
        ('"test.op"() {a = affine_map<(d0) -> (' + "(" * 50_000, r"in\.mlir:1:\d+: error: expected less deeply"),
        ('"test.op"() : () -> ' + "tuple<" * 50_000, r"in\.mlir:1:\d+: error: expected less deeply nested text"),
        ('"test.op"() {a = "' + "x" * 100_000, r"in\.mlir:1:18: error: End of file reached"),
        ('"test.op"() {a = ' + "9" * 10_000 + "}", r"in\.mlir:1:\d+: error: cannot parse this \(ValueError"),
        ("func.func @f() { %0 = arith.constant dense<1> : tensor<9999999x9999999xi8> }", r".* expected a constant of"),
        ('"test.op"() {a = dense<"0x00"> : tensor<99999999x999999xi8>} : () -> ()', r".* expected a constant of"),
        ("%0:99999999999999 = \"test.op\"() : () -> i32", r"in\.mlir:1:1: error: Operation has 1 results"),
        ("#a = #b\n", r"in\.mlir:1:6: error: undefined symbol alias '#b'"),
        ("{-# external_resources: {} #-}", r"in\.mlir:1:\d+: error: cannot parse this \(NotImplementedError"),
    ],
    ids=range(26),
)  # fmt: skip
def test_malformed_text(opt, source, pattern):
    assert_refused(opt(source), pattern)


@pytest.mark.parametrize(
    ("pipeline", "pattern"),
    [
        ("", r"<pass-pipeline>:1:1: error: expected a pass name, but got an empty pipeline"),
        ("   ", r"<pass-pipeline>:1:4: error: expected a pass name, but got an empty pipeline"),
        ("csee", r"<pass-pipeline>:1:1: error: unknown pass 'csee'; did you mean 'cse'\?"),
        ("cse,xyzzyxyzzy", r"<pass-pipeline>:1:5: error: unknown pass 'xyzzyxyzzy'$"),
        ("cse,,dce", r"<pass-pipeline>:1:5: error: expected a pass name, but got ','"),
        ("cse,", r"<pass-pipeline>:1:5: error: expected a pass name, but got the end of the pipeline"),
        ("cse dce", r"<pass-pipeline>:1:5: error: expected ',' or the end of the pipeline, but got 'dce'"),
        ("builtin.module(cse", r"<pass-pipeline>:1:19: error: expected '\)' at the end of 'builtin.module\('"),
        ("cse)", r"<pass-pipeline>:1:4: error: expected ',' or the end of the pipeline"),
        ("func.func(cse)", r"<pass-pipeline>:1:1: error: expected a pipeline on 'builtin.module', but got"),
        ("builtin.module(" * 100 + "cse" + ")" * 100, r"<pass-pipeline>:1:\d+: error: expected at most 64 nested"),
        ("cse{", r"<pass-pipeline>:1:5: error: expected an option name or '}', but got the end"),
        ("cse{factor=4}", r"<pass-pipeline>:1:5: error: unknown option 'factor' of pass 'cse'"),
        ("my-mark-ops{mrk=x}", r".*:13: error: unknown option 'mrk' of pass 'my-mark-ops'; did you mean 'mark'\?"),
        ("my-mark-ops{times=x}", r".*:13: error: option 'times' of pass 'my-mark-ops': expected int, but got x"),
        ("graph-fuse-ops{mode=x}", r".*:16: error: option 'mode' of .*: expected tvm or mlc, but got x"),
        ("my-mark-ops{times}", r".*:13: error: option 'times' of pass 'my-mark-ops': expected int, but got no value"),
        ("my-mark-ops{times=1,2}", r".*:13: error: option 'times' of pass 'my-mark-ops': expected int, but got 1,2"),
        ("my-mark-ops{times=true}", r".*:13: error: option 'times' of pass 'my-mark-ops': expected int, but got True"),
        ("my-mark-ops{times=1 times=2}", r".*:21: error: option 'times' is given twice"),
        ("my-mark-ops{times=}", r".*:19: error: expected a value, but got '}'"),
        ('my-mark-ops{mark="x}', r".*:18: error: unexpected character '\"' in the pipeline"),
        ("my-forbid", r"<pass-pipeline>:1:1: error: pass 'my-forbid': option 'dialect' is required"),
    ],
)  # fmt: skip
def test_wrong_pipelines(opt, pipeline, pattern):
    assert_refused(opt(VALID, f"--pass-pipeline={pipeline}", f"--load={INPUTS / 'my_pass.py'}"), pattern)


@pytest.mark.parametrize(
    ("args", "pattern"),
    [
        (["missing.mlir"], r"missing\.mlir: error: cannot read the file: No such file or directory"),
        (["."], r"\.: error: cannot read the file: Is a directory"),
        (["a\0b"], r"a\\x00b: error: cannot read the file"),
        (["--pass-pipelin=cse"], r"mlc-opt: error: unknown option '--pass-pipelin=cse'; did you mean '--pass"),
        (["--verify-each=maybe"], r"mlc-opt: error: argument --verify-each: expected true or false, but got 'maybe'"),
        (["--max-ops=-5"], r"mlc-opt: error: argument --max-ops: expected at least 1, but got -5"),
        (["--max-ops=many"], r"mlc-opt: error: argument --max-ops: expected a whole number, but got 'many'"),
        (["--max-ops=0"], r"mlc-opt: error: argument --max-ops: expected at least 1, but got 0"),
        (["--max-nesting=1001"], r"mlc-opt: error: argument --max-nesting: expected at most 1000, but got 1001"),
        (["--emit=elf"], r"mlc-opt: error: argument --emit: invalid choice: 'elf'"),
        (["--target=elf"], r"mlc-opt: error: argument -t/--target: invalid choice: 'elf'"),
        (["--target={"], r"mlc-opt: error: Error parsing pass pipeline specification"),
        (["a.mlir", "b.mlir"], r"mlc-opt: error: unexpected argument 'b.mlir'"),
        (["--load=missing.py"], r"missing\.py: error: cannot load the file: no such file"),
        (["--load=."], r"\.: error: cannot load the folder: expected a pyproject.toml in it"),
    ],
)  # fmt: skip
def test_wrong_command_lines(opt, args, pattern):
    assert_refused(opt(None, *args), pattern)


def test_an_output_that_cannot_be_written(opt):
    assert_refused(opt(VALID, "-o", "no/such/folder"), r"no/such/folder: error: cannot write the file")


def test_no_output_file_for_a_wrong_input(opt):
    assert opt("func.func @f() { func.return }\n// -----\ngarbage", "--split-input-file", "-o", "out.mlir")[0] == 1
    assert not Path("out.mlir").exists()


@pytest.mark.parametrize(
    ("flag", "source"),
    [
        ("--max-nesting=2", "module { module { module { } } }"),
        ("--max-ops=3", "module {} module {} module {} module {}"),
        ("--max-input-bytes=5", "module {}"),
        ("--max-rank=1", '%0 = "test.op"() : () -> memref<1x1xf32>'),
        ("--max-rank=1", "func.func @f(%a: memref<1x1xf32>) { func.return }"),
        ("--max-tensor-elements=3", '%0 = "test.op"() : () -> tensor<2x2xf32>'),
        ("--max-elements=3", '"test.op"() {a = dense<1> : tensor<4xi8>} : () -> ()'),
    ],
)
def test_limits(opt, flag, source):
    name = flag.partition("=")[0]
    assert opt(source)[0] == 0
    assert_refused(opt(source, flag), rf"in\.mlir:1:\d+: error: expected .*at most .* {name}")


@pytest.mark.parametrize("depth", [128, 1000])
def test_nesting_up_to_the_limit_goes_through_everything(opt, depth):
    source = "module {" * depth + "}" * depth
    code, out, err = opt(source, f"--max-nesting={depth}", "-p", "canonicalize,cse,dce", "--mlir-print-ir-after-change")
    assert (code, err) == (0, "")
    assert out.count("builtin.module") == depth


def test_the_ir_after_a_failure_is_printed_on_request(opt):
    load = f"--load={INPUTS / 'my_pass.py'}"
    code, _, err = opt(CRASHING, load, "-p", "my-forbid{dialect=arith}", "--mlir-print-ir-after-failure")
    assert code == 1
    assert "// -----// IR Dump After ForbidPass Failed (my-forbid) //----- //\nbuiltin.module {" in err


def test_emit_calls_the_code_generator(opt, monkeypatch):
    native = SimpleNamespace(
        assemble=lambda text, target: f"asm of {text} for {target}\n",
        emit_object=lambda text, target: b"\x7fELF" + text.encode() + target.encode(),
    )
    monkeypatch.setitem(sys.modules, "mlc.codegen.llvm.ir", SimpleNamespace(print_module=lambda op: op.name))
    monkeypatch.setitem(sys.modules, "mlc.codegen.native", native)
    monkeypatch.setattr("mlc.codegen.native", native, raising=False)
    assert opt(VALID, "--emit=llvm-ir") == (0, "builtin.module", "")
    assert opt(VALID, "--emit=asm", "--emit-target=x") == (0, "asm of builtin.module for x\n", "")
    assert opt(VALID, "--emit=obj", "-o", "f.o") == (0, "", "")
    assert Path("f.o").read_bytes() == b"\x7fELFbuiltin.modulenative"


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("x = (", r"user\.py:1:5: error: '\(' was never closed"),
        ("\nraise KeyError('k')", r"user\.py:2:1: error: KeyError: 'k'"),
        ("raise SystemExit(3)", r"user\.py:1:1: error: SystemExit: 3"),
        ("import nowhere_at_all", r"user\.py:1:1: error: ModuleNotFoundError: No module named 'nowhere_at_all'"),
        (
            "from dataclasses import dataclass\nfrom xdsl.passes import ModulePass\n@dataclass(frozen=True)\n"
            "class P(ModulePass):\n    name = 'cse'\n    def apply(self, ctx, op): pass",
            r"user\.py: error: expected a new pass name, but got 'cse', which is already registered",
        ),
        (
            "from xdsl.ir import Dialect\nD = Dialect('arith', [])",
            r"user\.py: error: expected a new dialect name, but got 'arith'",
        ),
    ],
)
def test_a_wrong_user_file(opt, text, pattern):
    Path("user.py").write_text(text)
    assert_refused(opt(VALID, "--load=user.py"), pattern)


def test_plugins_are_found_by_their_entry_points(tmp_path):
    info = tmp_path / "site" / "greeting-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greeting\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[mlc.passes]\nmy-mark-ops = my_pass:MarkOpsPass\n[mlc.dialects]\ngreet = my_pass:Greet\n"
    )
    (tmp_path / "site" / "my_pass.py").write_text((INPUTS / "my_pass.py").read_text())
    command = [sys.executable, "-m", "mlc.tools.mlc_opt", "-p", "my-mark-ops"]
    done = subprocess.run(
        command,
        input='"greet.hello"() : () -> ()',
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert '"greet.hello"() {mark = "seen"}' in done.stdout


def test_a_loaded_file_that_raises_is_named_with_the_line(opt, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("late.py").write_text("found = __file__\nassert found.startswith('/'), found\n1 / 0\n")
    code, _, err = opt("", "--load=late.py")
    assert code == 1
    assert err == "late.py:3:1: error: ZeroDivisionError: division by zero\n"


CRASHING = "func.func @f(%a: i32) -> i32 {\n  %0 = arith.addi %a, %a : i32\n  %1 = arith.addi %a, %a : i32\n  %2 = arith.muli %0, %1 : i32\n  func.return %2 : i32\n}\n"  # fmt: skip  # noqa: E501


def test_a_users_pass_that_raises_is_theirs_and_its_reproducer_replays_it(opt):
    load = f"--load={INPUTS / 'my_pass.py'}"
    code, _, err = opt(CRASHING, load, "-p", "cse,my-crash,canonicalize")
    assert code == 1
    assert "Traceback" not in err
    assert err.startswith("in.mlir:1:1: error: your pass 'my-crash' raised ZeroDivisionError: oh no (my_pass.py:")
    assert f"note: replay it with: mlc-opt --run-reproducer in.reproducer.mlir {load}" in err
    text = Path("in.reproducer.mlir").read_text()
    assert "// configuration: '--pass-pipeline=builtin.module(my-crash)' --verify-each=true" in text
    assert text.count("arith.addi") == 1  # cse has run
    code, _out, err = opt(None, "--run-reproducer", "in.reproducer.mlir", load)
    assert code == 1
    assert "raised ZeroDivisionError: oh no" in err
    assert [p.name for p in Path().glob("*.reproducer*")] == ["in.reproducer.mlir"]


def test_a_crash_of_a_pass_of_mlc_is_a_bug(opt, monkeypatch):
    def broken(*_):
        raise KeyError("oops")

    monkeypatch.setattr("mlc.passes.graph.cleanup.infer_types.InferTypesPass.apply", broken)
    code, _, err = opt(CRASHING, "-p", "graph-infer-types")
    assert code == 2
    assert err.startswith("in.mlir:1:1: error: a bug in mlc: pass 'graph-infer-types' raised KeyError: 'oops'")
    assert opt(None, "--run-reproducer", "in.reproducer.mlir")[0] == 2


def test_a_users_pass_that_leaves_invalid_ir_is_theirs(opt):
    load = f"--load={INPUTS / 'my_pass.py'}"
    dependent = CRASHING.replace("%1 = arith.addi %a", "%1 = arith.addi %0")
    code, _, err = opt(dependent, load, "-p", "my-break", "--mlir-pass-pipeline-crash-reproducer=r.mlir")
    assert code == 1
    what = "pass 'my-break' left invalid IR: 'arith.addi' op operand #0 does not dominate"
    assert err.startswith(f"in.mlir:3:8: error: your {what}")
    assert Path("r.mlir").exists()
    assert opt(dependent, load, "-p", "my-break", "--verify-each=false")[0] == 0
    assert opt(CRASHING, load, "-p", "my-break")[0] == 0


def test_a_reproducer_says_which_files_it_needs(opt):
    load = f"--load={INPUTS / 'my_pass.py'}"
    assert opt(CRASHING, load, "-p", "my-crash")[0] == 1
    code, _, err = opt(None, "--run-reproducer", "in.reproducer.mlir")
    assert code == 1
    command = f"mlc-opt --run-reproducer in.reproducer.mlir {load}"
    assert (
        err.splitlines()[0] == f"in.reproducer.mlir: note: it was made with files that it cannot load itself: {command}"
    )
    assert "unknown pass 'my-crash'" in err


def test_a_reproducer_cannot_load_code(opt):
    source = "// configuration: --load=evil.py\nmodule {}"
    assert_refused(opt(source, "--run-reproducer"), r"in\.mlir:1:1: error: a reproducer cannot set '--load=evil.py'")
    elsewhere = "// configuration: --validate-each --validate-inputs=../x.npz\nmodule {}"
    assert_refused(opt(elsewhere, "--run-reproducer"), r"in\.mlir:1:1: error: expected the inputs in a file beside the")
    assert_refused(opt("module {}", "--run-reproducer"), r"in\.mlir:1:1: error: expected a reproducer")
    assert_refused(opt("// configuration: 'x", "--run-reproducer"), r"in\.mlir:1:1: error: the configuration line")


def test_the_command_line_program():
    command = [sys.executable, "-m", "mlc.tools.mlc_opt"]
    good = subprocess.run(command, input=VALID, capture_output=True, text=True, cwd=ROOT)
    assert (good.returncode, good.stderr) == (0, "")
    bad = subprocess.run(command, input=b"\xff", capture_output=True, cwd=ROOT)
    assert bad.returncode == 1
    assert bad.stderr == b"<stdin>:1:1: error: expected UTF-8 text, but got byte 0xff\n"


def test_a_reader_that_goes_away_is_no_error_of_ours():
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "mlc.tools.mlc_opt"]
    done = subprocess.run(command, input=VALID, stdout=write, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    os.close(write)
    assert done.stderr == ""


def test_start_up_imports_nothing_heavy():
    code = (
        "import sys, mlc.tools.mlc_opt as m; m.run(sys.argv[1:]);"
        "print([n for n in ('numpy', 'onnx', 'llvmlite', 'rich', 'mlc.dialects.graph') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], input=VALID, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "[]"


# What a byte may become, besides any other byte: pieces of syntax.
_PIECES = [b"<", b">", b"{", b"}", b"(", b")", b"%0", b"dense<", b"-1", b"9" * 30, b'"', b"?", b"!x", b"#x", b"loc("]


@st.composite
def _mutated(draw):
    data = bytearray(VALID.encode())
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        kind = draw(st.integers(0, 3))
        if kind == 0:
            del data[at : at + draw(st.integers(1, 30))]
        elif kind == 1:
            data[at:at] = draw(st.sampled_from(_PIECES))
        elif kind == 2:
            data[at : at + 1] = draw(st.binary(min_size=1, max_size=3))
        else:
            start = draw(st.integers(0, len(data)))
            data[at:at] = data[start : start + draw(st.integers(1, 60))]
    return bytes(data)


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(_mutated(), st.sampled_from([[], ["--allow-unregistered-dialect"], ["-p", "canonicalize,cse"]]))
def test_mutated_text_is_read_or_refused(opt, data, args):
    code, out, err = opt(data, *args)
    if code == 0:
        assert out
        assert not err
    else:
        assert code == 1, err
        assert len(diagnostics(err)) == 1, err
        assert re.match(r"in\.mlir:\d+:\d+: error: ", err)


@settings(max_examples=300, derandomize=True)
@given(st.text(alphabet='cse,(){}=" \\1.builtnmodu-é\n', max_size=40))
def test_any_pipeline_text_is_read_or_refused(text):
    column = 1
    try:
        passes = parse_pipeline(text)
        assert parse_pipeline(f"builtin.module({','.join(map(pass_text, passes))})") == passes
    except PipelineError as error:
        column = error.column
    assert 1 <= column <= len(text) + 1
