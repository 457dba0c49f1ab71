"""The registry of strategies: order, families, conditions; a program's, a file's and an installed one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlc.dialects import sched, te
from mlc.dialects.syntax.source import parse_module
from mlc.driver.cache import Cache
from mlc.driver.options import Options
from mlc.schedules.builder import ScheduleBuilder
from mlc.schedules.registry import FAMILIES, find_strategy, register_strategy, strategies, strategy
from mlc.schedules.selection import records
from mlc.schedules.strategy import choose_schedule
from mlc.support.errors import UserError
from mlc.support.registered.registrations import have_keys
from mlc.targets.target import Target

ROOT = Path(__file__).parents[3]
NEGATE = """
te.func @negate(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = te.compute "y" (%i : 8) {
    %0 = te.read %x[%i] : f32
    %1 = arith.negf %0 : f32
    te.yield %1 : f32
  } : tensor<8xf32>
  te.return %y : tensor<8xf32>
}
"""
PLUGIN = """
from mlc.schedules.builder import ScheduleBuilder
from mlc.schedules.registry import strategy

@strategy(family="injective", priority=200)
def by_hand(kernel, target, threads):
    s = ScheduleBuilder(kernel.name)
    for stage in kernel.stages:
        s.unroll(s.loops(s.block(stage.name), len(stage.extents))[-1])
    return s.finish()
"""


def kernel() -> te.FuncOp:
    (func,) = parse_module(NEGATE, "negate.mlir").body.block.ops
    assert isinstance(func, te.FuncOp)
    func.detach()
    return func


def chosen(target: str = "x86-64-v3") -> str:
    return str(choose_schedule(kernel(), Target.parse(target), 1).attributes["strategy"]).strip('"')


def empty(info, target, threads) -> sched.ScheduleOp:
    return ScheduleBuilder(info.name).finish()


def test_mlc_s_own_are_asked_in_this_order() -> None:
    own = ["attention", "winograd", "recurrence", "matmul", "clipped", "dilated", "vector_matrix", "planes"]
    own += ["contraction", "rows", "reduction", "injective", "sketch"]
    assert [one.name for one in strategies()] == own
    assert [one.priority for one in strategies()] == [70, 60, 50, 50, 46, 45, 44, 43, 40, 30, 20, 10, 1]
    assert {one.family for one in strategies()} == set(FAMILIES)
    assert find_strategy("matmul").family == "contraction"
    with pytest.raises(UserError, match=r"expected a strategy among attention, .*, but got 'matmull'; did you mean"):
        find_strategy("matmull")


def test_the_order_does_not_depend_on_who_imports_first() -> None:
    code = "import mlc.schedules.strategies.matmul; from mlc.schedules.registry import strategies; "
    code += "print(*(one.name for one in strategies()))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert found.index("recurrence") < found.index("matmul")


@pytest.mark.parametrize(
    ("options", "target", "expected"),
    [
        ({"family": "injective"}, "x86-64-v3", "empty"),
        ({"family": "injective", "priority": 5}, "x86-64-v3", "injective"),
        ({"family": "injective", "priority": 10}, "x86-64-v3", "injective"),
        ({"family": "reduction"}, "x86-64-v3", "injective"),
        ({"family": "injective", "when": lambda t: t.architecture == "aarch64"}, "x86-64-v3", "injective"),
        ({"family": "injective", "when": lambda t: t.architecture == "aarch64"}, "neoverse-n1", "empty"),
    ],
)
def test_priority_family_and_target_decide(options: dict, target: str, expected: str) -> None:
    strategy(**options)(empty)
    assert chosen(target) == expected


def test_a_strategy_may_refuse_a_kernel() -> None:
    asked = []

    @strategy(family="injective")
    def picky(info, target, threads):
        asked.append((info.name, target.name, threads))

    assert chosen() == "injective"
    assert asked == [("negate", "x86-64-v3", 1)]


def test_wrong_registrations() -> None:
    with pytest.raises(UserError, match=r"expected family to be one of scan, contraction, .*, but got 'conv'"):
        strategy(family="conv")

    def matmul(info, target, threads):
        return None

    with pytest.raises(UserError, match="expected a new strategy name, but got 'matmul', which mlc"):
        strategy(family="contraction")(matmul)

    @strategy(family="injective")
    def wrong(info, target, threads):
        return "a schedule"

    with pytest.raises(UserError, match=r"strategy 'wrong': expected a sched\.schedule or None, but got 'a schedule'"):
        chosen()


def test_a_strategy_brings_its_key_or_turns_the_cache_off() -> None:
    before = Options().key()
    assert Cache.default() is not None
    strategy(family="injective", key="1")(empty)
    first = Options().key()
    assert have_keys()
    assert Cache.default() is not None
    strategy(family="injective", key="2")(empty)
    assert len({before, first, Options().key()}) == 3
    strategy(family="injective")(empty)
    assert not have_keys()
    assert Cache.default() is None


def mlc_opt(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mlc.tools.mlc_opt", "-p", "te-add-schedule{target=x86-64-v3}", *arguments],
        input=NEGATE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(path), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        cwd=ROOT,
    )


def install(site: Path, value: str, version: str = "1") -> None:
    info = site / f"handmade-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: handmade\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[mlc.strategies]\nby-hand = {value}\n")
    (site / "handmade.py").write_text(PLUGIN)


def test_a_file_s_strategy_is_used(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN)
    done = mlc_opt(tmp_path, f"--load={tmp_path / 'mine.py'}")
    assert (done.returncode, done.stderr) == (0, "")
    assert "sched.unroll" in done.stdout
    assert 'strategy = "by_hand"' in done.stdout


def test_an_installed_strategy_is_used(tmp_path: Path) -> None:
    install(tmp_path, "handmade:by_hand")
    done = mlc_opt(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert 'strategy = "by_hand"' in done.stdout


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("handmade:strategy", "strategy 'by-hand': expected handmade:strategy to be a function with @strategy"),
        ("handmade:nothing", "strategy 'by-hand' cannot be imported: module 'handmade' has no attribute 'nothing'"),
    ],
)
def test_a_wrong_entry_point(tmp_path: Path, value: str, message: str) -> None:
    install(tmp_path, value)
    done = mlc_opt(tmp_path)
    assert done.returncode == 1
    assert message in done.stderr


def test_an_installed_strategy_s_version_is_its_key(tmp_path: Path) -> None:
    code = (
        "from mlc.driver.cache import Cache, fingerprint, key_of\nfrom mlc.schedules.registry import find_strategy\n"
        "import handmade\nassert find_strategy('by_hand').priority == 200 and Cache.default() is not None\n"
        "assert 'handmade' in fingerprint()\nprint(key_of(['x']))"
    )
    keys = []
    for version in ("1", "2"):
        site = tmp_path / version
        install(site, "handmade:by_hand", version)
        path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
        assert done.stderr == ""
        keys.append(done.stdout)
    assert keys[0] != keys[1]


def unrolled(info, target, threads) -> sched.ScheduleOp:
    s = ScheduleBuilder(info.name)
    s.unroll(*s.loops(s.block("y"), 1))
    return s.finish()


def test_the_fastest_on_record_wins_whatever_its_priority() -> None:
    strategy(family="injective", priority=200)(empty)
    register_strategy(unrolled, family="injective", priority=5, accepts=lambda info: info.name == "negate")
    known = {"unrolled": 1e-6, "injective": 2e-6}
    assert chosen() == "empty"
    with records(lambda info, target, threads, name: known.get(name)):
        assert chosen() == "unrolled"
        assert Cache.default() is None  # nobody says when these records change
        known["injective"] = 5e-7
        assert chosen() == "injective"
        known.clear()
        assert chosen() == "empty"  # nothing is on record: the highest priority
    assert chosen() == "empty"
    before = Options().key()
    with records(lambda info, target, threads, name: None, key="1"):
        assert Options().key() != before


def test_a_condition_on_the_kernel() -> None:
    register_strategy(unrolled, family="injective", accepts=lambda info: info.name == "relu")
    assert chosen() == "injective"
    register_strategy(unrolled, family="injective", accepts=lambda info: info.stages[0].extents == (8,))
    assert chosen() == "unrolled"
    with pytest.raises(UserError, match=r"expected a function \(kernel, target, threads\) -> schedule, but got 'fast'"):
        register_strategy("fast", family="injective")  # pyright: ignore[reportArgumentType]
