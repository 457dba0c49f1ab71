"""The tiers name tests that exist, and none twice."""

import tomllib
from pathlib import Path

TESTS = Path(__file__).parents[2]
TIERS = tomllib.loads((TESTS / "tiers.toml").read_text())


def test_every_name_leads_to_a_test():
    for name in (one for tier in TIERS.values() for one in tier):
        file, _, test = name.partition("::")
        assert (TESTS / file).exists(), name
        assert not test or f"def {test.partition('[')[0]}(" in (TESTS / file).read_text(), name


def test_no_name_is_in_two_tiers():
    assert not set(TIERS["quick"]) & set(TIERS["ci"])
