"""The C header of an exported model: the functions, and the shapes and sizes as macros."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from mlc.driver.export.cpu_check import ENOTSUP
from mlc.driver.export.sizes import EINVAL
from mlc.runtime.sizes import Size
from mlc.runtime.sizes import text as text_of
from mlc.support.abi import C_DECLARATIONS, C_FUNCTION_DECLARATIONS, FUNCTION_MISSING

C_TYPES = {
    "float32": "float", "float64": "double", "bool": "uint8_t",
    **{f"{u}int{n}": f"{u}int{n}_t" for u in ("", "u") for n in (8, 16, 32, 64)},
}  # fmt: skip
_SIZES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "bool": 1}

_TEMPLATE = """\
/* {name}: a model compiled by mlc for {target}. Written by mlc; do not edit. */
#ifndef {guard}_H
#define {guard}_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#ifndef MLC_RUNTIME_DECLARED
#define MLC_RUNTIME_DECLARED
{runtime}#endif

{macros}

{functions}
#ifdef __cplusplus
}}
#endif
#endif
"""

_CHECK = """\
/* 0 if this CPU has all that the model's code needs; else {unfit}, which every run then returns, and a message of
   at most `bytes` with the final zero that names what is missing (message may be NULL). */
int32_t {prefix}_check_cpu(char *message, size_t bytes);

"""

_REGISTER = """\
/* The model calls these functions by name: {names}.
   Each is registered for the process before the first run; a run returns {missing} until all are. 0, or {einval} for
   another name. A tensor is DLPack's DLTensor, row-major on the CPU; inputs come before outputs. A function returns 0,
   or an error code, which the run then returns, with a text of at most 256 bytes in `error`, which is rt->error. */
{declarations}int32_t {prefix}_register(const char *name, mlc_function function);

"""

_RUN = """\
/* Run the model; 0, or an error code. inputs and outputs point to the tensors in order, row-major and each at a
   multiple of its element's size. The workspace is allocated for the call. One rt serves one call at a time. */
int32_t {prefix}_run(const void *const *inputs, void *const *outputs, mlc_runtime *rt);

/* The same in a workspace of {guard}_WORKSPACE_BYTES at a multiple of 64 bytes; nothing is allocated. An rt that was
   not made by mlc_runtime_create needs a scratch_stride of at least {guard}_SCRATCH_BYTES. */
int32_t {prefix}_run_in(const void *const *inputs, void *const *outputs, void *workspace, mlc_runtime *rt);
"""

_RUN_SIZED = """\
/* The values of the symbols for inputs of these shapes, shapes[k] the sizes of input k: 0, or {einval} where they do
   not fit the model or each other. */
int32_t {prefix}_symbols(const int64_t *const *shapes, int64_t *symbols);

/* The sizes of each output for such values: shapes[k] has room for {guard}_OUTPUT_k_RANK. */
void {prefix}_output_shapes(const int64_t *symbols, int64_t *const *shapes);

/* The bytes of workspace that a run with rt->threads threads needs. */
int64_t {prefix}_workspace_bytes(const int64_t *symbols, int32_t threads);

/* Run the model; 0, or an error code. inputs and outputs point to the tensors in order, row-major and each at a
   multiple of its element's size; symbols are of {prefix}_symbols, and are not checked again. The workspace is
   allocated for the call. One rt serves one call at a time. */
int32_t {prefix}_run(const void *const *inputs, void *const *outputs, const int64_t *symbols, mlc_runtime *rt);

/* The same in a workspace of {prefix}_workspace_bytes at a multiple of 64 bytes; nothing is allocated. An rt that was
   not made by mlc_runtime_create needs a scratch_stride of at least {guard}_SCRATCH_BYTES. */
int32_t {prefix}_run_in(const void *const *inputs, void *const *outputs, const int64_t *symbols, void *workspace,
                        mlc_runtime *rt);
"""


def item_bytes(dtype: str) -> int:
    """The bytes of one element."""
    return _SIZES.get(dtype) or int(dtype.removeprefix("u").removeprefix("int")) // 8


def c_header(model: Mapping[str, Any], prefix: str) -> str:
    """The header of a model whose functions begin with `prefix`."""
    guard = prefix.upper()
    symbols = model.get("symbols", ())
    macros = [
        *([] if symbols else [f"#define {guard}_WORKSPACE_BYTES {model['workspace_bytes']}"]),
        f"#define {guard}_SCRATCH_BYTES {model['scratch_bytes']}",
        f"#define {guard}_WEIGHTS_BYTES {model['weights_bytes']}",
        f"#define {guard}_UNFIT_CPU {ENOTSUP}",
    ]
    for pool in model.get("pools", ()):
        name = f"{guard}_{pool['kind'].upper()}_POOL_{pool['name'].upper()}"
        macros += [f"#define {name}_{key.upper()} {pool[key]}" for key in ("offset", "used", "bytes")]
    for kind in ("input", "output"):
        specs = model[f"{kind}s"]
        macros.append(f"\n#define {guard}_{kind.upper()}S {len(specs)}")
        for index, spec in enumerate(specs):
            macros += _macros(f"{guard}_{kind.upper()}_{index}", *spec)
    if symbols:
        macros.append(f"\n#define {guard}_SYMBOLS {len(symbols)}")
        for index, (symbol, low, high, step) in enumerate(symbols):
            facts = {"NAME": f'"{symbol}"', "LOW": low, "HIGH": high, "STEP": step}
            macros += [f"#define {guard}_SYMBOL_{index}_{name} {value}" for name, value in facts.items()]
    called = model.get("functions", ())
    register = _REGISTER if called else ""
    functions = (_CHECK + register + (_RUN_SIZED if symbols else _RUN)).format(
        guard=guard,
        prefix=prefix,
        einval=EINVAL,
        unfit=f"{guard}_UNFIT_CPU",
        names=", ".join(called),
        missing=FUNCTION_MISSING,
        declarations=C_FUNCTION_DECLARATIONS,
    )
    if libraries := model.get("libraries"):
        macros.append(f"/* A static library is linked with {', '.join(libraries)}. */")
    return _TEMPLATE.format(
        name=model["name"],
        target=model["target"]["cpu"],
        guard=guard,
        functions=functions,
        runtime=C_DECLARATIONS,
        macros="\n".join(macros),
    )


def _macros(name: str, tensor: str, shape: Sequence[Size], dtype: str) -> list[str]:
    """What a program needs to know of one tensor."""
    text = tensor.replace("\\", "\\\\").replace('"', '\\"')
    facts = [
        f'#define {name}_NAME "{text}"',
        f'#define {name}_DTYPE "{dtype}"',
        f"#define {name}_TYPE {C_TYPES.get(dtype, 'uint16_t')}",
        f"#define {name}_RANK {len(shape)}",
    ]
    static = [size for size in shape if isinstance(size, int)]
    if len(static) < len(shape):
        return [*facts, f'#define {name}_SIZES "{", ".join(str(text_of(size)) for size in shape)}"']
    count = prod(static)
    return [
        *facts,
        f"#define {name}_SHAPE {{{', '.join(map(str, shape)) or '1'}}}",
        f"#define {name}_ELEMENTS {count}",
        f"#define {name}_BYTES {count * item_bytes(dtype)}",
    ]
