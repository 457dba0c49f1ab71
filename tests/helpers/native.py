"""Run a kernel of a test natively: te or loop text through the kernel pipeline, the JIT and the thread pool."""

import ctypes

import numpy as np
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.parser import Parser

from mlc.codegen.llvm.ir import print_module
from mlc.codegen.native import Library, emit_object
from mlc.codegen.pool.loaded import Pool
from mlc.dialects import loop
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.targets.target import Target

DTYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "i64": np.int64,
    "i32": np.int32,
    "i8": np.int8,
    "i1": np.bool_,
    "f16": np.float16,
}


def parse(text: str) -> ModuleOp:
    """A module from its text."""
    return Parser(make_context(), text).parse_module()


def through(module: ModuleOp, *specs: str) -> ModuleOp:
    """The module after these passes, verified after each."""
    run_passes(module, make_context(), list(specs), verify=True)
    return module


def buffers(func: loop.FuncOp, seed: int = 0) -> list[np.ndarray]:
    """Random inputs, and NaN or a pattern in what is written."""
    rng = np.random.default_rng(seed)
    arrays = []
    n_in = len(func.args) - func.outputs.value.data
    for k, a in enumerate(func.args):
        t = a.type
        assert isinstance(t, MemRefType)
        dtype = np.dtype(DTYPES[str(t.element_type)])
        shape = tuple(t.get_shape())
        if k >= n_in:
            array = np.full(shape, np.nan if dtype.kind == "f" else 1, dtype)
        elif dtype.kind == "f":
            array = rng.standard_normal(shape).astype(dtype)
        else:
            array = rng.integers(0, 2 if dtype.kind == "b" else 4, shape).astype(dtype)
        arrays.append(np.ascontiguousarray(array))
    return arrays


def run_native(module: ModuleOp, name: str, arrays: list[np.ndarray], threads: int = 1, target: str = "native") -> None:
    """Lower the loop.funcs of the module and call one of them on the arrays (inputs, then outputs)."""
    t = Target.parse(target)
    through(module, f"convert-loop-to-llvm{{vector-bits={t.vector_bits}}}")
    functions = {f.sym_name.data: f for f in module.body.block.ops if "mlc.scratch_bytes" in f.attributes}
    attributes = functions[name].attributes
    scratch, workspace = (attributes[f"mlc.{w}_bytes"].value.data for w in ("scratch", "workspace"))
    library = Library.load([emit_object(print_module(module, target=t), t)])
    kernel = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(library.address(name))
    shared = np.zeros(workspace + 64, np.uint8)
    base = (shared.ctypes.data + 63) // 64 * 64
    args = (ctypes.c_void_p * (len(arrays) + 1))(*[a.ctypes.data for a in arrays], base)
    rt = Pool.get(threads).rt(scratch)
    assert kernel(ctypes.addressof(args), rt.address) == 0
    del library, shared
