"""What mlc promises about itself: the same objects every time, and sizes at run time that nothing can hold."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import small_model

import mlc

PROGRAM = """
import json, sys, mlc
exe = mlc.compile(sys.argv[1], threads=2, cache=False)
files = exe.artifact.model["files"]
print(json.dumps([files["objects.bin"]["sha256"], files["weights.bin"]["sha256"], exe.artifact.model["nodes"]]))
"""


def test_objects_are_the_same_bytes_in_every_process(tmp_path):
    path = small_model.write(tmp_path)
    found = []
    for seed in ("0", "1"):  # sets of names are in another order
        environment = os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, check=True, env=environment
        )
        found.append(json.loads(done.stdout))
    assert found[0] == found[1]


SYMBOLIC = """func.func @main(%x: tensor<?x70xf32, #graph.dims<[N]>>) -> tensor<?x70xf32, #graph.dims<[N]>> {
  %1 = graph.exp %x : tensor<?x70xf32, #graph.dims<[N]>>
  return %1 : tensor<?x70xf32, #graph.dims<[N]>>
}
"""


@pytest.mark.parametrize("rows", [1 << 40, 1 << 50])
def test_sizes_that_no_memory_holds_are_refused_before_a_kernel_runs(tmp_path, rows):
    (tmp_path / "m.mlir").write_text(SYMBOLIC)
    exe = mlc.compile(tmp_path / "m.mlir", threads=1)
    huge = np.broadcast_to(np.float32(0), (rows, 70))
    with pytest.raises((ValueError, MemoryError), match=r"expected|allocate"):
        exe({"input0": huge})


def test_every_test_that_the_page_names_exists():
    root = Path(__file__).parent
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", (root.parents[1] / "docs" / "trust.md").read_text())
    assert len(named) > 30
    for file, name in named:
        assert re.search(rf"^def {name}\b", (root / file).read_text(), re.MULTILINE), f"{file}::{name}"
