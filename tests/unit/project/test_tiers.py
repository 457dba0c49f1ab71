"""The tiers name tests that exist, and none twice."""

import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

TESTS = Path(__file__).parents[2]
TIERS = tomllib.loads((TESTS / "tiers.toml").read_text())


def test_every_name_leads_to_a_test():
    for name in (one for tier in TIERS.values() for one in tier):
        file, _, test = name.partition("::")
        assert (TESTS / file).exists(), name
        assert not test or f"def {test.partition('[')[0]}(" in (TESTS / file).read_text(), name


def test_no_name_is_in_two_tiers():
    assert not set(TIERS["quick"]) & set(TIERS["ci"])


class Item:
    """A collected test, as far as the tiers look at it."""

    def __init__(self, name: str) -> None:
        self.nodeid, self.marks = f"tests/{name}", set[str]()

    def get_closest_marker(self, name: str) -> bool | None:
        return True if name in self.marks else None

    def add_marker(self, name: str) -> None:
        self.marks.add(name)


def test_the_parts_of_the_long_tests_are_all_of_them(request: pytest.FixtureRequest) -> None:
    conftest = request.config.pluginmanager.get_plugin(str(TESTS / "conftest.py"))
    assert conftest is not None
    long = [f"unit/project/test_fuzz.py::test_it[{k}]" for k in range(40)]
    short = ["unit/support/test_files.py::test_it", "unit/tools/test_cli.py::test_it"]
    found = list[str]()
    for part in range(3):
        deselected = list[Item]()
        hook = SimpleNamespace(pytest_deselected=lambda items, kept=deselected: kept.extend(items))
        items = [Item(name) for name in (*long, *short)]
        conftest.pytest_collection_modifyitems(SimpleNamespace(getoption=lambda _, k=part: (k, 3), hook=hook), items)
        names = [one.nodeid.removeprefix("tests/") for one in items]
        assert len(items) + len(deselected) == 42
        assert names[-2:] == short
        found += names[:-2]
    assert sorted(found) == sorted(long)
    with pytest.raises(ValueError, match="3/3"):
        conftest._part("3/3")
