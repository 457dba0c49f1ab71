"""Every op's text is a fixed point: what is printed parses back and prints the same, in custom and in generic form."""

from io import StringIO
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.lexer import Input

from mlc.dialects import DIALECTS
from mlc.dialects.syntax.source import SourceParser
from mlc.driver.pipeline.registry import import_target, make_context

FILES = Path(__file__).parents[2] / "filecheck"
OURS = {name: import_target("dialect", target) for name, target in DIALECTS.items()}


def parse(text: str) -> ModuleOp:
    return Parser(make_context(), text).parse_module()


def source(text: str) -> ModuleOp:
    return SourceParser(make_context(), Input(text, "names.mlir")).parse_module()


def printed(module: ModuleOp, *, generic: bool) -> str:
    stream = StringIO()
    Printer(stream, print_generic_format=generic).print_op(module)
    return stream.getvalue()


def verifies(module: ModuleOp) -> bool:
    try:
        module.verify()
    except VerifyException:
        return False
    return True


def valid_modules() -> dict[str, list[ModuleOp]]:
    """The chunks of all FileCheck tests that expect no error, by file; mlc-opt's own inputs are junk on purpose."""
    found: dict[str, list[ModuleOp]] = {}
    for path in sorted(FILES.rglob("*.mlir")):
        chunks = [] if "mlc-opt" in path.parts else path.read_text().split("// -----")
        modules = [parse(chunk) for chunk in chunks if "expected-error" not in chunk]
        if kept := [module for module in modules if verifies(module)]:
            found[str(path.relative_to(FILES))] = kept
    return found


MODULES = valid_modules()


@pytest.mark.parametrize("file", MODULES)
@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
def test_text_is_a_fixed_point(file, generic):
    for module in MODULES[file]:
        text = printed(module, generic=generic)
        again = parse(text)
        again.verify()
        assert printed(again, generic=generic) == text
        assert again.is_structurally_equivalent(module)


def test_attributes_that_no_op_declares_survive():
    lost = set()
    for module in (m for modules in MODULES.values() for m in modules):
        tagged = module.clone()
        for op in tagged.walk():
            op.attributes["test.tag"] = UnitAttr()
        again = parse(printed(tagged, generic=False))
        for op in again.walk():
            if op.name.partition(".")[0] in OURS and "test.tag" not in op.attributes:
                lost.add(op.name)
    assert not lost


def test_every_op_occurs():
    seen = {op.name for modules in MODULES.values() for m in modules for op in m.walk()}
    missing = {op.name for dialect in OURS.values() for op in dialect.operations} - seen
    assert not missing


def test_names_that_end_in_numbers():
    arguments = ", ".join(f"%{name}: f32" for name in ("_0", "_0_1", "a_1_2", "a", "a_4"))
    lines = ["%_1 = arith.addf %_0, %_0_1 : f32", "%_1_2 = arith.addf %_1, %a_1_2 : f32"]
    text = "\n".join([f"func.func @f({arguments}) -> f32 {{", *lines, "func.return %_1_2 : f32", "}"])
    once = printed(source(text).clone().clone(), generic=False)
    assert "@f(%0: f32, %1: f32, %a: f32, %a_1: f32, %a_2: f32)" in once
    assert printed(source(once), generic=False) == once
