"""The command `mlc tune` on made-up tasks: output, progress, files, exit codes, diagnostics."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console
from tuning_farm import FakeFarm
from tuning_records import failed, ran, some_task

from mlc.tools import cli
from mlc.tools.tuning_progress import INTERVAL_S, Lines, LiveTable
from mlc.tuning.records.database import Database
from mlc.tuning.results import ErrorCode
from mlc.tuning.session.watch import Standing

TASKS = [some_task("conv2d_add_relu_42313efc", "te.func @a"), replace(some_task("dense_77aa", "te.func @b"), weight=1)]
BEST = {"strategy": "matmul", "tile": (16, 16), "unroll": 0}


def seconds(task, values):
    return 8e-6 if values == BEST else 10e-6 if values == task.space.default else 12e-6


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """What the command asks for; the tasks and the farm are made up."""
    from mlc.tuning import tune

    found = {}

    def subject(model, target, threads, options, cache=True, strategies=None):
        found.update(model=model, target=target, threads=threads, options=options, cache=cache, strategies=strategies)
        return tune._Subject(TASKS, None, {})

    monkeypatch.setattr(tune, "_subject", subject)
    monkeypatch.setattr(tune, "_farm", lambda *_: _Context(FakeFarm(seconds)))
    monkeypatch.chdir(tmp_path)
    return found


class _Context:
    def __init__(self, farm):
        self.farm = farm

    def __enter__(self):
        return self.farm

    def __exit__(self, *error):
        self.farm.close()


def mlc(*words):
    return cli.run(["tune", *map(str, words)])


def test_the_command_prints_the_table_and_nothing_else(asked, capsys):
    assert mlc("m.onnx", "--records", "r.db", "--trials", 150, "--tuner", "grid", "--threads", 2) == 0
    output = capsys.readouterr()
    assert output.err == ""
    lines = output.out.splitlines()
    assert lines[0].split()[0] == "kernel"
    assert all(len(line) <= 80 for line in lines)
    assert re.search(r"^3 x conv2d_add_relu_42313efc +75 +10 us +8 us .* 1\.25 \[1\.25, 1\.25\]$", output.out, re.M)
    assert asked == {
        "model": "m.onnx",
        "target": "native",
        "threads": 2,
        "options": {},
        "cache": True,
        "strategies": None,
    }


def test_options_that_change_kernels_are_handed_on(asked):
    words = ("-O", 1, "--precision", "bf16", "--shape", "x=1x3", "--error-growth", 0, "--memory-planner", "tokens")
    assert mlc("m.onnx", "--records", "r.db", "--trials", 2, "--no-cache", *words) == 0
    assert asked["options"] == {
        "opt_level": 1,
        "precision": "bf16",
        "shapes": {"x": (1, 3)},
        "error_growth": 0.0,
        "memory_planner": "tokens",
    }
    assert asked["cache"] is False


def test_strategies_are_a_list_of_names(asked, capsys):
    assert mlc("m.onnx", "--records", "r.db", "--trials", 2, "--strategies", "sketch, matmul") == 0
    assert asked["strategies"] == ("sketch", "matmul")
    capsys.readouterr()
    assert mlc("m.onnx", "--records", "r.db", "--strategies", "sketch,,") == 1
    assert "expected names with commas between them, but got 'sketch,,'" in capsys.readouterr().err
    assert mlc("m.onnx", "--records", "r.db", "--strategies", "sketches") == 1
    assert "did you mean 'sketch'?" in capsys.readouterr().err


def test_a_plot_is_written(asked, capsys):
    assert mlc("m.onnx", "--records", "r.db", "--trials", 9, "--plot", "p.svg") == 0
    assert capsys.readouterr().out.endswith("wrote p.svg\n")
    assert open("p.svg").read().startswith("<svg")


def test_resume_goes_on(asked, capsys):
    assert mlc("m.onnx", "--records", "r.db", "--trials", 20, "--tuner", "random") == 0
    assert mlc("m.onnx", "--records", "r.db", "--trials", 30, "--tuner", "random", "--resume") == 0
    assert "10 trials of 2 tasks" in capsys.readouterr().out
    with Database("r.db") as database:
        assert sum(len(database.results(task)) for task in TASKS) == 30


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "the following arguments are required: --records"),
        (["--records", "r.db", "--trials", "-3"], "expected a number of candidates, at least 1, but got '-3'"),
        (["--records", "r.db", "--seconds", "soon"], "expected seconds above 0, but got 'soon'"),
        (["--records", "r.db", "--tuner", "best"], "invalid choice: 'best'"),
        (["--records", "r.db", "--until", "120%"], "expected until to be a part of the latency such as '5%' or 0.05"),
        (["--records", "r.db", "--plot", "p.png"], "expected a FILE that ends in .svg, but got 'p.png'"),
        (["--records", "r.db", "--explain", "k"], "r.db: expected a database of records, which `mlc tune` writes"),
        (["--records", "no/folder/r.db"], "no/folder"),
        (["--records", "r.db", "--key", "rpi4"], "expected --cluster ADDRESS with --key, --secret and --insecure"),
    ],
)
def test_wrong_command_lines_have_one_diagnostic(asked, capsys, words, message):
    assert mlc("m.onnx", *words) == 1
    error = capsys.readouterr().err
    assert error.startswith("mlc: error: ")
    assert message in error
    assert error.count("\n") == 1


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def told(state, clock, count, step):
    state.tasks(TASKS, 0)
    for number in range(1, count + 1):
        clock.now += step
        latency = float("inf") if number == 1 else 40e-6 - number * 1e-8
        result = failed(ErrorCode.WRONG_ANSWER) if number == 3 else ran(10e-6 - number * 1e-8)
        state.trial((number - 1) % 2, TASKS[0].space[number % 75], result, Standing(number, latency, 40e-6))


def test_off_a_terminal_a_line_comes_at_most_every_ten_seconds():
    stream, clock = io.StringIO(), Clock()
    told(Lines(stream, clock), clock, 300, 0.11)
    lines = stream.getvalue().splitlines()
    assert len(lines) == int(300 * 0.11 / INTERVAL_S) == 3
    wanted = r"tune: 10 s, 91 trials \(9\.1 a second\), model 40 us -> 39\.1 us \(estimate\), conv2d\S* 0\.5 GFLOP/s"
    assert re.fullmatch(wanted, lines[0]), lines[0]


def test_short_sessions_print_no_line():
    stream, clock = io.StringIO(), Clock()
    told(Lines(stream, clock), clock, 20, 0.1)
    assert stream.getvalue() == ""


class Live:
    def __init__(self):
        self.pictures = []

    def update(self, picture, refresh):
        assert refresh
        self.pictures.append(picture)


def test_on_a_terminal_the_tasks_are_a_table_80_columns_wide():
    live, clock = Live(), Clock()
    told(LiveTable(live, clock), clock, 50, 0.1)
    assert 10 < len(live.pictures) <= 26, "at most four pictures a second"
    console = Console(width=80, file=io.StringIO(), force_terminal=True, color_system=None)
    console.print(live.pictures[-1])
    lines = console.file.getvalue().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert any(re.search(r"3 x conv2d_add_relu_42313efc +\d+ +9\.\d+ us +0\.4", line) for line in lines), lines


def test_the_table_on_a_terminal_keeps_what_tells_kernels_apart(asked, capsys, monkeypatch):
    from mlc.tuning import tune

    long = [replace(TASKS[0], name=f"conv2d_winograd_bias_add_relu_clip_{n}2313efc") for n in (4, 5)]
    monkeypatch.setattr(tune, "_subject", lambda *_: tune._Subject(long, None, {}))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.run(["tune", "m.onnx", "--records", "r.db", "--trials", "2"]) == 0
    lines = re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= 80
    assert [sum(f"_{n}2313efc" in line for line in lines) for n in (4, 5)] == [1, 1]
