"""Kernels of external compilers: the codegen is asked for a region's code, and the code is compared with the region."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.codegen.external import compile_c, data_object, wrapper_text
from mlc.dialects.attributes import EXTERNAL_COMPILER, OFFLOAD_MATCH, OFFLOAD_PATTERN
from mlc.dialects.graph import ConstantOp, ParamOp
from mlc.driver.kernels.kernel import KernelCode
from mlc.driver.options import Options
from mlc.driver.pipeline.manager import parse_pipeline
from mlc.driver.toolchain import is_host, load_code, pool_object
from mlc.interp.sizes import solved
from mlc.lowering.graph_to_te.kernel_sizes import kernel_symbols
from mlc.passes.graph.external.annotate.compilers import ExternalKernel, Region, compiler_of
from mlc.passes.graph.external.annotate.patterns import PatternMatch
from mlc.runtime.arrays import address_of, aligned
from mlc.runtime.code import POOL
from mlc.support.abi import KERNEL
from mlc.support.alignment import ALIGNMENT
from mlc.support.errors import UserError
from mlc.support.weights import WeightStore
from mlc.targets.target import Target
from mlc.validation.measure import compare_native
from mlc.validation.validate_each import ResultChanged, ValidateInstrument


@dataclass
class ExternalCode:
    """The code of one kernel: the kernel itself, and the objects that it calls, by name."""

    name: str
    kernel: KernelCode
    objects: dict[str, bytes]


def region_of(function: FuncOp, weights: WeightStore, target: Target) -> Region:
    """What a codegen is given of a function that graph-partition made."""
    name = function.sym_name.data
    constants: dict[SSAValue, Any] = {}
    matches: dict[Attribute, list[Operation]] = {}
    for op in function.body.block.ops:
        if isinstance(op, ParamOp):
            constants[op.result] = np.require(weights.array(op.entry), requirements=["C", "ALIGNED"])
        elif isinstance(op, ConstantOp):
            constants[op.result] = op.array()
        elif isinstance(match := op.attributes.get(OFFLOAD_MATCH), IntegerAttr):
            matches.setdefault(match, []).append(op)
    found = [PatternMatch(_text(ops[0], OFFLOAD_PATTERN), tuple(ops)) for ops in matches.values()]
    return Region(f"{name}_body", f"{name}_init", function, found, constants, target.name, kernel_symbols(function))


def _text(op: Operation, name: str) -> str:
    attribute = op.attributes[name]
    assert isinstance(attribute, StringAttr)
    return attribute.data


def kernel_of(function: FuncOp, weights: WeightStore, target: Target) -> ExternalKernel:
    """What the function's compiler makes of it; UserError where that is no kernel."""
    compiler, what = _text(function, EXTERNAL_COMPILER), what_of(function)
    try:
        made = compiler_of(compiler).codegen(region_of(function, weights, target))
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"the codegen of {what} raised {type(error).__name__}: {error}", function) from error
    _check(made, what, target)
    return made


def what_of(function: FuncOp) -> str:
    """An external kernel in messages."""
    return f"'{function.sym_name.data}' by compiler '{_text(function, EXTERNAL_COMPILER)}'"


def compile_external(function: FuncOp, weights: WeightStore, target: Target) -> ExternalCode:
    """The code that the function's compiler makes; UserError where that gives none, or none that compiles."""
    from mlc.codegen.native import emit_object

    name, what = function.sym_name.data, what_of(function)
    made = kernel_of(function, weights, target)
    body = made.object or compile_c(made.c_source, made.flags, what)
    check_symbols(body, symbols_of(name, made), what)
    data, offsets = _packed(made.constants)
    kernel = KernelCode(
        emit_object(wrapper_text(name, made.init, offsets, target), target),
        workspace_bytes=made.workspace_bytes,
        libraries=list(made.libraries),
        schedule=f"external: {_text(function, EXTERNAL_COMPILER)}",
    )
    objects = {f"{name}_body": body}
    if offsets:
        objects[f"{name}_data"] = data_object(data, name, target)
    return ExternalCode(name, kernel, objects)


def symbols_of(name: str, made: ExternalKernel) -> list[str]:
    """The functions that an external kernel defines."""
    return [f"{name}_body", *([f"{name}_init"] if made.init else [])]


def check_symbols(body: bytes, symbols: Sequence[str], what: str) -> None:
    """UserError where an object lacks one of the functions."""
    from mlc.codegen.native import defined_symbols

    defined = defined_symbols(body)
    for symbol in symbols:
        if symbol not in defined:
            raise UserError(f"expected the code of {what} to define '{symbol}', but it defines {', '.join(defined)}")


def _check(made: object, what: str, target: Target) -> None:
    if not isinstance(made, ExternalKernel):
        raise UserError(f"expected the codegen of {what} to return an ExternalKernel, but got {made!r:.60}")
    if bool(made.object) == bool(made.c_source):
        raise UserError(f"expected either an object or C source of {what}")
    if made.constants and not made.init:
        raise UserError(f"expected init=True of {what}, which has constants: init receives them")
    if made.c_source and not is_host(target):
        raise UserError(f"expected an object of {what} for {target.name}: C source is compiled for this machine only")


def _packed(arrays: Sequence[Any]) -> tuple[bytes, list[int]]:
    """Arrays one after another, each at a multiple of `ALIGNMENT`, and where each begins."""
    data, offsets = bytearray(), list[int]()
    for array in arrays:
        data += bytes(-len(data) % ALIGNMENT)
        offsets.append(len(data))
        data += np.ascontiguousarray(array).tobytes()
    return bytes(data), offsets


def check_external(code: ExternalCode, function: FuncOp, recorded: Mapping[str, Any], options: Options) -> None:
    """
    Compare the code with the function in the reference interpreter, as `--validate-each` does with our own kernels.

    Raises ResultChanged, which blames graph-partition's compiler, where a result differs.
    """
    from mlc.dialects.graph.store import attach_store, store_of

    target = Target.parse(options.target)
    if not is_host(target):
        return
    whole = function.parent_op()
    assert isinstance(whole, ModuleOp)
    module = ModuleOp([function.clone()])
    if (store := store_of(whole)) is not None:
        attach_store(module, store)
    instrument = ValidateInstrument(inputs=dict(recorded))
    (module_pass,) = parse_pipeline("graph-partition")
    instrument.before(module_pass, module)
    for name, baseline in instrument.known.items():
        arrays = baseline.measured.arrays
        given = solved(function, arrays)
        sizes = [int(size.evaluate(given)) for size in kernel_symbols(function)]
        results = _run(code, arrays, sizes, baseline.measured.own, target, options.threads)
        found = compare_native(baseline.measured, results, baseline.epsilon)
        if found is not None:
            compiler = _text(function, EXTERNAL_COMPILER)
            raise ResultChanged(module_pass, baseline.last, f"@{name} by compiler '{compiler}': {found}", found)
        code.kernel.compared += 1


def _run(
    code: ExternalCode, inputs: Sequence[Any], sizes: Sequence[int], like: Sequence[Any], target: Target, threads: int
) -> list[Any]:
    """Call the kernel on arrays and sizes."""
    objects = {code.name: code.kernel.object, POOL: pool_object(target, None), **code.objects}
    loaded = load_code(objects, code.kernel.libraries)
    rt, _keeper = loaded.runtime(threads, code.kernel.scratch_bytes)
    results = [np.full(array.shape, 0, array.dtype) for array in like]
    kept = [*(np.ascontiguousarray(array) for array in inputs), *results]
    room = aligned(code.kernel.workspace_bytes)
    values = [*map(address_of, kept), *sizes, address_of(room)]
    args = (ctypes.c_void_p * len(values))(*values)
    if status := KERNEL(loaded.address(code.name))(ctypes.addressof(args), rt):
        raise UserError(f"expected kernel '{code.name}' to return 0, but got {status}")
    return results


__all__ = ["ExternalCode", "check_external", "check_symbols", "compile_external", "kernel_of", "symbols_of", "what_of"]
