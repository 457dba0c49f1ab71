"""Every test process has a cache of its own, so that no test sees another run's kernels."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest


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
    from mlc.driver.pipeline.registry import USER_DIALECTS, USER_OPS, USER_PASSES
    from mlc.frontends.onnx.table import CUSTOM

    registries: list[dict[Any, Any]] = [CUSTOM, USER_PASSES, USER_DIALECTS, USER_OPS]
    before = [(registry, dict(registry)) for registry in registries]
    yield
    for registry, entries in before:
        registry.clear()
        registry.update(entries)
