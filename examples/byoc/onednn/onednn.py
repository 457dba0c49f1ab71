"""
oneDNN 3 as an external compiler of mlc: convolutions and dense layers, with the bias and the relu behind them.

    import onednn
    onednn.register()
    exe = mlc.compile("net.onnx", compilers=["onednn"])

oneDNN is `pip install onednn-devel-cpu-gomp onednn-cpu-gomp`, or libdnnl-dev of Debian 13; `ONEDNN_ROOT` names another
place, with include/dnnl.h and lib/libdnnl.so.
"""

import math
import os
import sys
from pathlib import Path

import mlc
from mlc.byoc import ExternalKernel, Pattern, PatternMatch, Region, is_constant, is_op, wildcard

HERE = Path(__file__).resolve().parent


def find() -> tuple[Path, Path] | None:
    """The folder of oneDNN's headers, and its library; None where it is not installed."""
    for root in filter(None, (os.environ.get("ONEDNN_ROOT"), sys.prefix, "/usr/local", "/usr")):
        for folder in ("lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"):
            library = Path(root) / folder / "libdnnl.so"
            if library.exists() and (Path(root) / "include" / "dnnl.h").exists():
                return Path(root) / "include", library
    return None


def with_bias_and_relu(name: str):
    """A product by constant weights, and where they are there the bias and the relu behind it."""
    product = is_op(name)(wildcard(), is_constant())
    bias = product.optional(lambda one: is_op("graph.bias_add")(one, is_constant()))
    return bias.optional(lambda one: is_op("graph.relu")(one))


def is_plain(match: PatternMatch) -> bool:
    """Plain f32 tensors, no groups, and a bias along the channels."""
    product, bias = match.ops[0], match.find("graph.bias_add")
    if any(str(v.type.element_type) != "f32" for op in match.ops for v in (*op.operands, *op.results)):
        return False
    is_conv = product.name == "graph.conv2d"
    if is_conv and (product.groups != 1 or (product.data_layout, product.kernel_layout) != ("NCHW", "OIHW")):
        return False
    if not is_conv and product.kernel_layout != "OI":
        return False
    rank = product.results[0].type.get_num_dims()
    return bias is None or bias.axis % rank == (1 if is_conv else rank - 1)


PATTERNS = [
    Pattern("conv2d_bias_relu", with_bias_and_relu("graph.conv2d"), is_plain),
    Pattern("dense_bias_relu", with_bias_and_relu("graph.dense"), is_plain),
]


def numbers(values) -> str:
    """A C array of int64_t."""
    return f"(const int64_t[]){{{', '.join(map(str, values))}}}"


def made_by(match: PatternMatch, k: int) -> str:
    """The begin of the call that makes layer k: the function, the layer, its sizes."""
    product = match.ops[0]
    x, w, y = (v.type.get_shape() for v in (*product.operands, *product.results))
    if product.name == "graph.dense":
        return f"make_dense(&layers[{k}], {numbers((math.prod(x[:-1]), *w))}"
    dilations = [d - 1 for d in product.dilation]
    steps = [*product.strides, *dilations, *product.padding]
    return f"make_conv(&layers[{k}], {numbers((*x, *w, *y))}, {numbers(steps)}"


def codegen(region: Region, include: Path, library: Path) -> ExternalKernel:
    """The C code of a region: its layers are made by init, and run in order."""
    constants, makes, runs, workspace = [], [], [], 0
    places = {value: f"args[{k}]" for k, value in enumerate(region.inputs)}
    results = {value: f"args[{len(region.inputs) + k}]" for k, value in enumerate(region.outputs)}
    memory = f"args[{len(region.inputs) + len(region.outputs)}]"
    for k, match in enumerate(region.matches):
        product, bias, relu = match.ops[0], match.find("graph.bias_add"), match.find("graph.relu")
        constants.append(region.constants[product.operands[1]])
        given = f"constants[{len(constants) - 1}]"
        if bias is not None:
            constants.append(region.constants[bias.operands[1]])
        biases = f"constants[{len(constants) - 1}]" if bias is not None else "NULL"
        make = f"{made_by(match, k)}, {given}, {biases}, {int(relu is not None)})"
        makes.append(f"if ((status = {make})) return status;")
        result = match.root.results[0]
        places[result] = results.get(result) or f"((char *){memory} + {workspace})"
        if result not in results:
            workspace += (4 * math.prod(result.type.get_shape()) + 63) // 64 * 64
        run = f"run_layer(&layers[{k}], {places[result]}, {places[product.operands[0]]})"
        runs.append(f"if ((status = {run})) return status;")
    newline = "\n  "
    source = f"""
#include "layers.h"
#include "mlc_runtime.h"

static struct layer layers[{len(runs)}];

int32_t {region.init}(void **constants, mlc_runtime *rt) {{
  int status;
  (void)rt;
  {newline.join(makes)}
  return 0;
}}

int32_t {region.name}(void **args, mlc_runtime *rt) {{
  int status;
  (void)rt;
  {newline.join(runs)}
  return 0;
}}
"""
    return ExternalKernel(
        c_source=source,
        constants=constants,
        init=True,
        workspace_bytes=workspace,
        libraries=[str(library)],
        flags=["-O2", f"-I{HERE}", f"-I{include}"],
    )


def register() -> None:
    """Register the compiler; RuntimeError where oneDNN is not installed."""
    found = find()
    if found is None:
        raise RuntimeError("expected oneDNN 3: pip install onednn-devel-cpu-gomp onednn-cpu-gomp, or set ONEDNN_ROOT")
    include, library = found
    mlc.register_compiler(
        "onednn", PATTERNS, lambda region: codegen(region, include, library), version=f"1 {library}", override=True
    )
