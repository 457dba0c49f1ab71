"""The C header of an exported model: the functions, and the shapes and sizes as macros."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from mlc.runtime.abi import C_DECLARATIONS

_C_TYPES = {
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

/* Run the model; 0, or an error code. inputs and outputs point to the tensors in order, row-major and each at a
   multiple of its element's size. The workspace is allocated for the call. One rt serves one call at a time. */
int32_t {prefix}_run(const void *const *inputs, void *const *outputs, mlc_runtime *rt);

/* The same in a workspace of {guard}_WORKSPACE_BYTES at a multiple of 64 bytes; nothing is allocated. An rt that was
   not made by mlc_runtime_create needs a scratch_stride of at least {guard}_SCRATCH_BYTES. */
int32_t {prefix}_run_in(const void *const *inputs, void *const *outputs, void *workspace, mlc_runtime *rt);

#ifdef __cplusplus
}}
#endif
#endif
"""


def item_bytes(dtype: str) -> int:
    """The bytes of one element."""
    return _SIZES.get(dtype) or int(dtype.removeprefix("u").removeprefix("int")) // 8


def c_header(model: Mapping[str, Any], prefix: str) -> str:
    """The header of a model whose functions begin with `prefix`."""
    guard = prefix.upper()
    macros = [
        f"#define {guard}_WORKSPACE_BYTES {model['workspace_bytes']}",
        f"#define {guard}_SCRATCH_BYTES {model['scratch_bytes']}",
        f"#define {guard}_WEIGHTS_BYTES {model['weights_bytes']}",
    ]
    for kind in ("input", "output"):
        specs = model[f"{kind}s"]
        macros.append(f"\n#define {guard}_{kind.upper()}S {len(specs)}")
        for index, spec in enumerate(specs):
            macros += _macros(f"{guard}_{kind.upper()}_{index}", *spec)
    return _TEMPLATE.format(
        name=model["name"],
        target=model["target"]["cpu"],
        guard=guard,
        prefix=prefix,
        runtime=C_DECLARATIONS,
        macros="\n".join(macros),
    )


def _macros(name: str, tensor: str, shape: Sequence[int], dtype: str) -> list[str]:
    """What a program needs to know of one tensor."""
    count = prod(shape)
    text = tensor.replace("\\", "\\\\").replace('"', '\\"')
    return [
        f'#define {name}_NAME "{text}"',
        f'#define {name}_DTYPE "{dtype}"',
        f"#define {name}_TYPE {_C_TYPES.get(dtype, 'uint16_t')}",
        f"#define {name}_RANK {len(shape)}",
        f"#define {name}_SHAPE {{{', '.join(map(str, shape)) or '1'}}}",
        f"#define {name}_ELEMENTS {count}",
        f"#define {name}_BYTES {count * item_bytes(dtype)}",
    ]
