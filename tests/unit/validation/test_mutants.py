"""The mutation score of --validate-each (tests/mutants): its operators, its plan, and a sample of its mutants."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mlc.driver.pipeline.pipelines import COMPILER, pass_names

RUN = Path(__file__).parents[2] / "mutants" / "run.py"
LEVELS = {"graph", "layout", "fusion", "quantisation", "te", "schedule", "loop", "memory", "native"}
SAMPLE = ("residual", "te-softmax", "te-dense-ragged", "loop-conv")
RARE = {"graph-to-mixed-precision"}
"""Passes that no mutant need hit: the sample's seed decides."""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(RUN), *arguments], capture_output=True, text=True)


def test_there_are_operators_of_every_level() -> None:
    done = run("--list")
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    found = {row[0]: row[1] for row in rows if len(row) > 2 and row[1] in LEVELS}
    assert len(found) >= 100
    assert set(found.values()) == LEVELS


def test_the_seed_decides_the_mutants() -> None:
    plans = [
        run("--plan", "--subject", "te-softmax", "--count", "40", "--seed", str(seed)).stdout for seed in (1, 1, 2)
    ]
    slots = re.findall(r"^te-softmax/\d+:\S+/\S+/\d+$", plans[0], re.M)
    assert len(slots) == 40
    assert plans[0].splitlines()[-40:] == plans[1].splitlines()[-40:]
    assert plans[0].splitlines()[-40:] != plans[2].splitlines()[-40:]


def test_a_sample_of_mutants_is_caught_and_the_mutated_pass_is_blamed() -> None:
    subjects = [word for name in SAMPLE for word in ("--subject", name)]
    done = run("--seed", "5", "--count", "24", *subjects)
    assert done.returncode == 0, done.stdout
    counted, all_, caught, blamed = map(
        int, re.findall(r"(\d+) mutants of (\d+) count .* (\d+) are caught; (\d+) of", done.stdout)[0]
    )
    assert (all_, blamed) == (24, 0)
    assert counted == caught >= 15


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["7"])
def test_the_score_is_99_percent(seed: str, tmp_path: Path) -> None:
    done = run("--seed", seed, "--count", "200", "--json", str(tmp_path / "mutants.json"), "--quiet")
    assert done.returncode == 0, done.stdout
    outcomes = json.loads((tmp_path / "mutants.json").read_text())
    hit = {one["slot"].split("/")[1].partition(":")[2] for one in outcomes}
    assert hit >= {name for step in COMPILER for name in pass_names(step.spec)} - RARE


@pytest.mark.slow
def test_no_correct_compilation_is_blamed() -> None:
    done = run("--correct")
    assert done.returncode == 0, done.stdout


def test_correct_compilations_are_validated_within_a_time_and_resumed(tmp_path: Path) -> None:
    file = tmp_path / "correct.json"
    options = ("--correct", "--json", str(file), "--subject", "te-softmax")
    done = run(*options, "--subject", "mixture-O3", "--seconds", "2")
    assert done.returncode == 0, done.stdout
    assert {one["subject"]: one["status"] for one in json.loads(file.read_text())} == {
        "te-softmax": "right",
        "mixture-O3": "not validated in time",
    }
    assert "1 are right, 0 of 2 correct compilations are blamed, 1 were not validated in time" in done.stdout
    again = run(*options, "--resume")
    assert "1 of 1 models are validated already" in again.stdout
    assert "1 are right, 0 of 1" in again.stdout
