"""
Kernels whose operands lie beside memory that must not be touched: what reads or writes out of place faults.

Each operand of each call is copied to pages of its own, with a page before them and one behind that cannot be read;
it begins at the first byte or ends at the last one that can. Bytes between the operand and its page's edge hold a
pattern, which must be there afterwards; outputs, workspace and scratch hold NaNs at first.
"""

import ctypes
import mmap

import ml_dtypes
import numpy as np

from mlc.dialects.graph.types import ELEMENT_TYPES
from mlc.support.abi import KERNEL, RuntimeStruct

PAGE = mmap.PAGESIZE
PATTERN, POISON = 0x5A, 0xFF
_libc = ctypes.CDLL(None, use_errno=True)
_NAMES = {str(element): name for name, element in ELEMENT_TYPES.items()}


def bytes_of(value) -> int:
    """The bytes of a value of a compiled model's graph."""
    name = _NAMES[value["dtype"]]
    size = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name).itemsize
    return int(np.prod(value["shape"], dtype=np.int64)) * size


class Region:
    """So many bytes between two pages that cannot be read: at the end of what can, or at its beginning."""

    def __init__(self, size: int, at_end: bool, alignment: int = 1):
        self.pages = max(1, -(-size // PAGE)) * PAGE
        self.map = mmap.mmap(-1, self.pages + 2 * PAGE)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.bytes = np.frombuffer(self.map, np.uint8)[PAGE : PAGE + self.pages]
        self.bytes[:] = PATTERN
        start = (self.pages - size) // alignment * alignment if at_end else 0
        self.data = self.bytes[start : start + size]
        self.address = self.base + PAGE + start
        self._around = (self.bytes[:start], self.bytes[start + size :])
        for page in (self.base, self.base + PAGE + self.pages):
            if _libc.mprotect(ctypes.c_void_p(page), PAGE, 0):
                raise OSError(ctypes.get_errno(), "mprotect")

    def intact(self) -> bool:
        """Whether the bytes around the data are as they were."""
        return all((part == PATTERN).all() for part in self._around)


class Guarded:
    """Runs a compiled model call by call, each with operands, workspace and scratch between guards."""

    def __init__(self, exe, at_end: bool):
        self.exe, self.at_end = exe, at_end
        self.model = exe.artifact.model
        self.values = self.model["values"]
        self.memory = {
            "weights": exe._weights,
            "workspace": np.full(self.model["workspace_bytes"], POISON, np.uint8),
        }
        self.regions: dict = {}
        self.workspace = self.region("kernel workspace", self.model["kernel_workspace_bytes"], 64)
        self.rt = self.runtime()

    def region(self, key, size: int, alignment: int) -> Region:
        """The region of a value; it is made once."""
        if key not in self.regions:
            self.regions[key] = Region(size, self.at_end, alignment)
        return self.regions[key]

    def runtime(self) -> RuntimeStruct:
        """The rt of the executable, with scratch between guards."""
        rt = RuntimeStruct.from_buffer_copy(RuntimeStruct.from_address(self.exe._states.free[0].rt))
        size, stride = self.model["scratch_bytes"], max(PAGE, -(-self.model["scratch_bytes"] // PAGE) * PAGE)
        self.scratch = self.region("scratch", stride * rt.threads, 64)
        self.scratch.data[:] = POISON
        spare = (stride - size) // 64 * 64 if self.at_end else 0
        rt.scratch, rt.scratch_stride = self.scratch.address + spare, stride
        return rt

    def place(self, index: int):
        """The bytes of a value in the model's memory."""
        value = self.values[index]
        kind = value["storage"]
        whole = self.memory[kind] if kind in self.memory else self.io[kind][value["index"]]
        return whole[value["offset"] : value["offset"] + bytes_of(value)]

    def step(self, number: int) -> None:
        """Run one call; AssertionError if it writes what is not an output of it."""
        node = self.model["nodes"][number]
        regions = []
        for index in (*node["inputs"], *node["outputs"]):
            inner = self.values[index]["storage"] in self.memory
            regions.append(self.region((number, len(regions)), bytes_of(self.values[index]), 64 if inner else 1))
        ins = len(node["inputs"])
        for index, region in zip(node["inputs"], regions, strict=False):
            region.data[:] = self.place(index)
        for region in regions[ins:]:
            region.data[:] = POISON
        self.workspace.data[:] = POISON
        pointers = [*(r.address for r in regions), self.workspace.address]
        kernel = KERNEL(self.exe._code.address(node["kernel"]))
        args = (ctypes.c_void_p * len(pointers))(*pointers)
        assert kernel(ctypes.addressof(args), ctypes.addressof(self.rt)) == 0
        for region in (*regions, self.workspace, self.scratch):
            assert region.intact(), f"{node['kernel']} writes beside an operand"
        for index, region in zip(node["inputs"], regions, strict=False):
            assert np.array_equal(region.data, self.place(index)), f"{node['kernel']} writes an input"
        for index, region in zip(node["outputs"], regions[ins:], strict=True):
            self.place(index)[:] = region.data

    def run(self, inputs) -> list:
        """The outputs."""
        exe = self.exe
        arrays, results = exe._check_inputs(inputs), exe._check_outputs(None)
        self.io = {
            "input": [a.reshape(-1).view(np.uint8) for a in arrays],
            "output": [a.reshape(-1).view(np.uint8) for a in results],
        }
        for number in range(len(self.model["nodes"])):
            self.step(number)
        for source, target, size in self.model["copies"]:
            self.place(target)[:size] = self.place(source)[:size]
        return list(exe._named(results).values())


def whole_run(exe, inputs, at_end: bool) -> list:
    """The outputs of one call of the model, its inputs and outputs between guards."""
    arrays = exe._check_inputs(inputs)
    given, out, regions = {}, {}, []
    for specs, places, sources in ((exe.inputs, given, arrays), (exe.outputs, out, exe._check_outputs(None))):
        for spec, array in zip(specs, sources, strict=False):
            region = Region(array.nbytes, at_end)
            region.data[:] = array.reshape(-1).view(np.uint8) if places is given else POISON
            places[spec.name] = region.data.view(array.dtype).reshape(array.shape)
            regions.append(region)
    results = list(exe(given, out).values())
    assert all(region.intact() for region in regions), "a kernel writes beside an input or output"
    return results


def guarded_runs(exe, inputs):
    """(how, the outputs) for each way in which a compiled model is run between guards."""
    for at_end in (True, False):
        where = "behind" if at_end else "before"
        yield f"guards {where} inputs and outputs", whole_run(exe, inputs, at_end)
        if not exe.artifact.model["control_flow"]:
            yield f"guards {where} each operand", Guarded(exe, at_end).run(inputs)
