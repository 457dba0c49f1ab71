"""The weight store: mapped files, fills, hashes, and files that lie."""

import json

import numpy as np
import pytest
import safetensors.numpy

from mlc.support.weights import WeightStore


def sample() -> WeightStore:
    store = WeightStore()
    store.add("a", np.arange(6, dtype=np.float32).reshape(2, 3))
    store.add("b", np.array([True, False, True]))
    store.add("empty", np.zeros((0, 4), np.int8))
    store.add_fill("f", 0.02, (64, 3), np.float32)
    return store


def test_a_store_is_saved_and_mapped(tmp_path):
    path = tmp_path / "w.safetensors"
    sample().save(path)
    loaded = WeightStore.load(path)
    for name in sample():
        np.testing.assert_array_equal(loaded.array(name), sample().array(name))
        assert loaded.hash(name) == sample().hash(name)
    assert not loaded.array("a").flags.writeable  # a view of the mapped file
    np.testing.assert_array_equal(safetensors.numpy.load_file(path)["a"], sample().array("a"))


def test_files_of_other_writers_load(tmp_path):
    path = tmp_path / "w.safetensors"
    safetensors.numpy.save_file({"x": np.ones((3, 2), np.float16), "y": np.arange(3)}, path)
    loaded = WeightStore.load(path)
    assert (loaded.array("x").dtype, loaded.array("y").tolist()) == (np.float16, [0, 1, 2])


def test_fills_stay_fills(tmp_path):
    store = sample()
    assert store.fill("f") == np.float32(0.02)
    assert store.fill("a") is None
    assert store.array("f").strides == (0, 0)
    store.add("g", np.broadcast_to(np.float32(3), (1000, 1000)))
    store.save(tmp_path / "w.safetensors")
    assert (tmp_path / "w.safetensors").stat().st_size < 2000
    assert WeightStore.load(tmp_path / "w.safetensors").fill("g") == 3


def test_hashes_follow_content():
    store = sample()
    before = store.hash("a")
    store.add("a2", store.array("a").copy())
    assert store.hash("a2") == before
    store.add("a2", store.array("a").reshape(3, 2))
    assert store.hash("a2") != before
    store.add("a2", np.asfortranarray(store.array("a")))
    assert store.hash("a2") == before


def test_keys_of_content_are_equal_where_the_content_is():
    store = WeightStore()
    x = np.arange(400, dtype=np.float32).reshape(20, 20)
    other = x.copy()
    other[1, 1] += 1  # not one of the elements that are looked at first
    for name, array in {"x": x, "same": np.asfortranarray(x), "turned": x.T, "other": other, "row": x[0]}.items():
        store.add(name, array)
    store.add_fill("one", 1, (20, 20), np.float32)
    store.add_fill("one too", 1, (20, 20), np.float32)
    store.add_fill("two", 2, (20, 20), np.float32)
    keys = store.content_keys()
    assert keys["x"] == keys["same"]
    assert keys["one"] == keys["one too"]
    assert len(set(keys.values())) == 6


def test_names():
    store = sample()
    assert store.fresh("new") == "new"
    assert store.fresh("a") == "a.1"
    store.remove("a")
    assert "a" not in store
    with pytest.raises(ValueError, match="expected a weight 'a' in the store"):
        store.array("a")


def header(record: object, data: bytes = b"\0" * 8) -> bytes:
    text = json.dumps({"w": record}).encode()
    return len(text).to_bytes(8, "little") + text + data


GOOD = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected a header of at most|the header is not JSON"),
        (b"\xff" * 8 + b"{}", "expected a header of at most"),
        (b"\x02\0\0\0\0\0\0\0[}", "the header is not JSON"),
        (header(3), "expected a header that maps names to records"),
        (header({**GOOD, "dtype": "F31"}), "expected a dtype among"),
        (header({**GOOD, "shape": [-1, 2]}), "expected a shape of at most 32 sizes >= 0"),
        (header({**GOOD, "data_offsets": [0]}), "expected two data_offsets for 'w'"),
        (header({**GOOD, "data_offsets": [0, 16], "shape": [4]}), "expected 16 bytes for 'w' inside the file"),
        (header({**GOOD, "data_offsets": [-8, 0]}), "expected 8 bytes for 'w' inside the file"),
        (header({**GOOD, "shape": [1 << 62, 1 << 62, 0, 5, 1 << 62]}), "expected 0 bytes for 'w'"),
    ],
)
def test_malformed_files(tmp_path, content, message):
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        WeightStore.load(path)


def test_missing_files(tmp_path):
    with pytest.raises(ValueError, match="No such file"):
        WeightStore.load(tmp_path / "none")
