"""A cache for every test process, so that no test sees another run's kernels; which test is in which tier."""

import os
import shutil
import signal
import tempfile
import tomllib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Examples may take as long as they do: no test is a measurement of time. Each run tries the same examples, so that a
# failure is the fault of the change at hand; `make test-fresh` looks for new ones.
settings.register_profile("same", deadline=None, derandomize=True, database=None)
settings.register_profile("fresh", deadline=None)
settings.load_profile("same")

TESTS = Path(__file__).parent
TIERS: dict[str, list[str]] = tomllib.loads((TESTS / "tiers.toml").read_text())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m quick`, `-m ci` or `-m tools`, leave files of other tiers alone: importing them all takes long."""
    tier = config.getoption("markexpr")
    if tier == "tools" and collection_path.suffix == ".py" and collection_path.is_relative_to(TESTS):
        return None if "mark.tools" in collection_path.read_text() else True
    if tier not in TIERS or collection_path.is_dir() or not collection_path.is_relative_to(TESTS):
        return None
    name = str(collection_path.relative_to(TESTS))
    return None if any(name.startswith(one.partition("::")[0]) for one in TIERS[tier]) else True


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--ci-part K/N`: of the tests of the tier `ci`, the part K of N, 0 <= K < N, by their names; all other tests."""
    parser.addoption("--ci-part", type=_part, default=(0, 1), metavar="K/N", help="of the long tests, part K of N")


def _part(text: str) -> tuple[int, int]:
    """The numbers of "K/N"; ValueError, which is a usage error, for anything else."""
    part, parts = map(int, text.split("/"))
    if not 0 <= part < parts:
        raise ValueError(text)
    return part, parts


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests with their tier: `ci` wins over `quick`; tests that are marked `slow` are in none."""
    _mark(items)
    part, parts = config.getoption("--ci-part")
    others = [item for item in items if item.get_closest_marker("ci") and _hash(item.nodeid) % parts != part]
    if others:
        left_out = set(others)
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in left_out]


def _hash(name: str) -> int:
    """A number of a name that is the same in every process."""
    return zlib.crc32(name.encode())


def _mark(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("slow") is not None:
            continue
        name = item.nodeid.removeprefix("tests/")
        for tier in ("ci", "quick"):
            if any(name == one or name.startswith((f"{one}/", f"{one}::", f"{one}[")) for one in TIERS[tier]):
                item.add_marker(tier)
                break


@pytest.fixture(scope="session", autouse=True)
def _signals_end_processes() -> None:
    """A shell's background job ignores Ctrl-C, and its children inherit that; those that a test interrupts must not."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def _own_cache() -> Iterator[None]:
    directory = tempfile.mkdtemp(prefix="mlc-test-cache.")
    before = os.environ.get("MLC_CACHE_DIR")
    os.environ["MLC_CACHE_DIR"] = directory
    yield
    if before is None:
        del os.environ["MLC_CACHE_DIR"]
    else:
        os.environ["MLC_CACHE_DIR"] = before
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(autouse=True)
def _own_registries() -> Iterator[None]:
    """What a test registers - passes, dialects, ops - is not there for the next one, whose cache would be off."""
    from mlc.dialects.own_ops import USER_OPS
    from mlc.driver.pipeline.registry import USER_DIALECTS, USER_PASSES
    from mlc.frontends.onnx.table import CUSTOM
    from mlc.schedules.registry import USER_STRATEGIES
    from mlc.support.registered.plugins import PROJECTS
    from mlc.support.registered.registrations import REGISTERED

    registries: list[dict[Any, Any]] = [CUSTOM, USER_PASSES, USER_DIALECTS, USER_OPS]
    registries += [USER_STRATEGIES, REGISTERED, PROJECTS]
    before = [(registry, dict(registry)) for registry in registries]
    yield
    for registry, entries in before:
        registry.clear()
        registry.update(entries)
