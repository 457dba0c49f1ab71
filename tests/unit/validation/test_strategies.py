"""--validate-each over the kernel pipeline, on one small kernel of every strategy: no pass changes a result."""

from typing import Any

import pytest
from native import parse
from strategy_cases import CASES

from mlc.driver.pipeline.manager import run_passes
from mlc.driver.pipeline.registry import make_context
from mlc.validation.execute import RunnableFunction
from mlc.validation.validate_each import ValidateInstrument


class Levels(ValidateInstrument):
    """Remembers on which levels functions were run."""

    def _check(self, executable: RunnableFunction, text: str, module_pass: Any) -> None:
        seen.append(executable.level)
        super()._check(executable, text, module_pass)


seen: list[str] = []


@pytest.mark.parametrize("name", CASES)
def test_no_pass_changes_what_a_strategys_kernel_computes(name: str) -> None:
    seen.clear()
    validate = Levels()
    run_passes(parse(CASES[name]), make_context(), ["kernel-O3"], instruments=[validate], verify=True)
    assert list(validate.known) == ["k"]  # met once, and held to what it computed then
    assert (seen[0], seen[-1]) == ("te", "llvm")
    assert seen.count("loop") >= 4
