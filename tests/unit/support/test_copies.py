"""mlc.support.copies and the mapped files of mlc.support.files."""

from __future__ import annotations

import numpy as np
import pytest

from mlc.support import copies
from mlc.support.errors import UserError
from mlc.support.files import map_file


@pytest.mark.parametrize("cpus", [1, 2, 7])
@pytest.mark.parametrize("axes", [(2, 1, 0), (0, 2, 1), (1, 0, 2), (0, 1, 2)])
def test_a_large_copy_has_the_values_of_its_source(monkeypatch, cpus, axes):
    monkeypatch.setattr(copies, "_SHARED_BYTES", 16)
    monkeypatch.setattr(copies, "available_cpus", lambda: cpus)
    x = np.arange(5 * 3 * 4, dtype=np.float32).reshape(5, 3, 4).transpose(axes)
    copied = copies.contiguous(x)
    assert copied.flags.c_contiguous
    np.testing.assert_array_equal(copied, x)


def test_a_contiguous_array_is_not_copied():
    x = np.zeros((1100, 1024), np.float32)
    assert copies.contiguous(x) is x
    assert copies.contiguous(np.float32(3)).shape == np.ascontiguousarray(np.float32(3)).shape


def test_a_mapped_file_is_read_and_checked_as_an_opened_one(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"some bytes")
    assert bytes(map_file(path)) == b"some bytes"
    with pytest.raises(UserError, match="4"):
        map_file(path, 4)
    path.write_bytes(b"")
    assert not len(map_file(path))
    with pytest.raises(UserError, match="directory"):
        map_file(tmp_path)
