"""What is recorded of a compilation: texts of every pass, and for every line what it came from."""

import re
from itertools import pairwise
from pathlib import Path

import html_reports
import pytest
import small_model

from mlc.codegen.native import assemble
from mlc.driver.models.compile import load_model
from mlc.driver.options import Options
from mlc.tools.html.collect import assembly_lines, collect
from mlc.tools.html.report import InspectReport

STAGE, OP, LOOP = 1, 2, 3
DENSE = """
func.func @main(%x: tensor<96x256xf32>, %w: tensor<128x256xf32>) -> tensor<96x128xf32> {
  %0 = graph.dense %x, %w : (tensor<96x256xf32>, tensor<128x256xf32>) -> tensor<96x128xf32>
  %1 = graph.relu %0 : tensor<96x128xf32>
  return %1 : tensor<96x128xf32>
}
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> InspectReport:
    return html_reports.report(small_model.write(tmp_path_factory.mktemp("model")))


@pytest.fixture(scope="module")
def dense(report: InspectReport) -> int:
    """The kernel of dense, bias and relu."""
    return next(k for k, one in enumerate(report.kernels) if "graph.relu" in one["ops"])


def lines_of(unit, text):
    """The lines of a text in the JSON of a pool, with their tags."""
    runs = unit["texts"][text]["tags"]
    marks = [mark for mark, count in zip(runs[::2], runs[1::2], strict=True) for _ in range(count)]
    for line, mark in zip(unit["texts"][text]["lines"], marks, strict=True):
        yield unit["lines"][line], None if mark < 0 else tuple(unit["tags"][mark])


def last(unit, level, kind):
    """The lines of the last text of a kind on a level, with their tags."""
    step = next(step for step in reversed(unit["steps"]) if step["level"] == level)
    (text,) = [number for key, number in step["texts"].items() if key.startswith(kind)]
    return list(lines_of(unit, text))


def test_an_operation_is_followed_from_the_graph_to_llvm(report, dense):
    unit, ops = report.unit(dense + 1), report.kernels[dense]["ops"]
    relu, add = ops.index("graph.relu"), next(k for k, op in enumerate(ops) if op in ("graph.bias_add", "graph.add"))
    for level, kind, word in (
        ("te", "te.func", "maximumf"),
        ("loop", "loop.func", "maximumf"),
        ("llvm-ir", "LLVM", " fcmp "),
    ):
        found = {tag[OP] for line, tag in last(unit, level, kind) if word in line and tag}
        assert found == {relu}, level
    sums = [tag[OP] for line, tag in last(unit, "loop", "loop.func") if "arith.addf" in line and tag]
    assert add in sums


def test_every_stage_has_loops_and_instructions(report):
    for k, kernel in enumerate(report.kernels):
        unit, stages = report.unit(k + 1), set(range(len(kernel["stages"])))
        assert stages
        assert stages == {tag[STAGE] for _, tag in last(unit, "loop", "loop.func") if tag} - {-1}
        assert {tag[STAGE] for _, tag in last(unit, "asm", "assembly") if tag} & stages


def test_most_instructions_have_an_origin(report, dense):
    code = [(line, tag) for line, tag in last(report.unit(dense + 1), "asm", "assembly") if line.startswith("    ")]
    known = [tag for line, tag in code if tag is not None and not line.strip().startswith(".")]
    assert len(known) > 0.5 * len(code)
    loops = last(report.unit(dense + 1), "loop", "loop.func")
    assert {tag[0] for tag in known} <= set(range(1, len(loops) + 1))


def test_a_directive_names_the_loops_that_it_made(tmp_path: Path):
    (tmp_path / "dense.mlir").write_text(DENSE)
    report = html_reports.report(tmp_path / "dense.mlir")
    unit, kernel = report.unit(len(report.kernels)), report.kernels[-1]
    directives = {tag[4]: line for line, tag in last(unit, "te", "sched.schedule") if tag and tag[4] >= 0}
    loops = {tag[LOOP]: line for line, tag in last(unit, "loop", "loop.func") if "loop.for" in line and tag}
    made = {number: line for number, line in loops.items() if re.search(r"%\w+_[oi] = ", line)}
    split = {number: line for number, line in made.items() if " unrolled " not in line}  # loop-unroll made the others
    assert split
    for number in split:
        makers = [directives[k] for k, made in enumerate(kernel["directive_loops"]) if number in made]
        assert any("sched.split" in line or "sched.tile" in line for line in makers), (loops[number], makers)


def test_the_instructions_are_those_of_the_compiled_kernel(report, dense):
    """Debug lines change no instruction."""
    unit = report.unit(dense + 1)
    ir = "\n".join(line for line, _ in last(unit, "llvm-ir", "LLVM"))
    instructions = [x.split() for x in assemble(ir).split("\n") if x.startswith("\t") and not x.startswith("\t.")]
    shown = [
        x.split() for x, _ in last(unit, "asm", "assembly") if x.startswith("    ") and not x.strip().startswith(".")
    ]
    assert shown == instructions


def test_steps_name_what_changed(report, dense):
    unit = report.unit(dense + 1)
    steps = unit["steps"]
    assert [step["name"] for step in steps][:2] == ["input", "convert-graph-to-te"]
    assert [step["name"] for step in steps][-2:] == ["print-llvm-ir", "codegen"]
    for before, step in pairwise(steps):
        # The lines: the last text of the loop level has tags of its own.
        kept, left = (
            {key: unit["texts"][number]["lines"] for key, number in one["texts"].items()} for one in (before, step)
        )
        assert (not step["changed"]) == (kept == left)
    module = report.unit(0)["steps"]
    assert module[0]["name"] == "input"
    assert {"graph-fuse-ops", "convert-graph-to-main", "convert-main-to-llvm"} <= {step["name"] for step in module}
    assert any(not step["changed"] for step in module[1:])


def test_text_is_what_the_printer_prints(tmp_path: Path):
    path = small_model.write(tmp_path, small_model.ONE_TEXT)
    shown = "\n".join(line for line, _ in last(html_reports.report(path).unit(0), "graph", "func.func @main"))
    main = collect(load_model(path), Options(threads=1)).main
    assert "graph.call @" in str(main)
    assert shown == str(main)


def test_calls_of_one_kernel_keep_their_own_source_nodes():
    report = html_reports.report(html_reports.twins())
    shared = [call for call in report.calls if len(report.kernels[call.kernel]["calls"]) > 1]
    assert len(shared) >= 2
    names = [set(call.sources) for call in shared]
    assert names[0].isdisjoint(names[1])
    assert {name for call in report.calls for name in call.sources} >= {"second", "fourth", "product", "again"}


def test_a_loc_directive_holds_to_the_end_of_its_function():
    words = [
        "\t.text",
        "f:",
        "\tpushq %rbx",
        "\t.loc\t1 7 0",
        "\tmovq a, b",
        ".LBB0_1:",
        "\taddq a, b",
        "\t.loc\t1 0 0",
    ]
    text = "\n".join([*words, "\tretq", "\t.loc\t1 9 0", "\tnop", "helper:", "\tretq"])
    lines, tags = assembly_lines(text, lambda line: (line,) if line else None)
    code = [(line.strip(), tag) for line, tag in zip(lines, tags, strict=True) if line.startswith("    ")]
    assert code[1:] == [
        ("pushq %rbx", None),
        ("movq a, b", (7,)),
        ("addq a, b", (7,)),
        ("retq", None),
        ("nop", (9,)),
        ("retq", None),
    ]
    assert not any(".loc" in line for line in lines)
