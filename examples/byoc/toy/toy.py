"""
The toy accelerator as an external compiler of mlc: what it takes over, and the code that drives it.

    import toy
    toy.register("libtoy.so")
    exe = mlc.compile("net.onnx", compilers=["toy"])
"""

import math
from pathlib import Path

import mlc
from mlc.byoc import ExternalKernel, Pattern, PatternMatch, Region, is_constant, is_op, shape_of, wildcard

HERE = Path(__file__).resolve().parent

CONV = is_op("graph.conv2d")(wildcard(), is_constant())
DENSE = is_op("graph.dense")(wildcard(), is_constant())


def with_bias_and_relu(product):
    """A product, and where they are there the bias and the relu behind it."""
    bias = product.optional(lambda one: is_op("graph.bias_add")(one, is_constant()))
    return bias.optional(lambda one: is_op("graph.relu")(one))


def takes_conv(match: PatternMatch) -> bool:
    """The device convolves plain f32 images by dense kernels."""
    conv = match.find("graph.conv2d")
    plain = (conv.data_layout, conv.kernel_layout) == ("NCHW", "OIHW") and not conv.out_dtype
    return plain and conv.groups == 1 and tuple(conv.dilation) == (1, 1) and is_f32(match) and has_channel_bias(match)


def takes_dense(match: PatternMatch) -> bool:
    """The device multiplies plain f32 matrices."""
    dense = match.find("graph.dense")
    return dense.kernel_layout == "OI" and not dense.out_dtype and is_f32(match) and has_channel_bias(match)


def is_f32(match: PatternMatch) -> bool:
    """Whether all values are f32."""
    return all(str(v.type.element_type) == "f32" for op in match.ops for v in (*op.operands, *op.results))


def has_channel_bias(match: PatternMatch) -> bool:
    """Whether the bias, if there is one, is along the product's channels."""
    bias = match.find("graph.bias_add")
    if bias is None:
        return True
    rank = bias.results[0].type.get_num_dims()
    channels = 1 if match.find("graph.conv2d") is not None else rank - 1
    return bias.axis % rank == channels


PATTERNS = [
    Pattern("conv2d_bias_relu", with_bias_and_relu(CONV), takes_conv),
    Pattern("dense_bias_relu", with_bias_and_relu(DENSE), takes_dense),
]


class Writer:
    """Writes the C code of a region: an upload a constant, and a command a match."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.constants = []
        self.uploads = []
        self.commands = []
        self.workspace = 0
        self.allocated = []
        self.places = {value: f"args[{k}]" for k, value in enumerate(region.inputs)}
        inside = len(region.inputs) + len(region.outputs) + len(region.sizes)
        self.memory = f"(char *)args[{inside}]"
        self.results = {value: f"args[{len(region.inputs) + k}]" for k, value in enumerate(region.outputs)}

    def constant(self, value) -> str:
        """The handle of a constant, which init uploads."""
        array = self.region.constants[value]
        handle = f"handles[{len(self.constants)}]"
        self.uploads.append(
            f"if (({handle} = toy_upload(constants[{len(self.constants)}], {array.size})) < 0) return 28;"
        )
        self.constants.append(array)
        return handle

    def result(self, value) -> str:
        """The place of a result: an output, a part of the workspace, or memory of its own if its size is open."""
        place = self.results.get(value)
        if place is None and not value.type.has_static_shape():
            place = f"own[{len(self.allocated)}]"
            self.allocated.append(f"if (!({place} = malloc({self.count(shape_of(value.type))} * 4))) status = 12;")
        if place is None:
            place = f"({self.memory} + {self.workspace})"
            self.workspace += (4 * math.prod(value.type.get_shape()) + 63) // 64 * 64
        self.places[value] = place
        return place

    def count(self, shape) -> str:
        """The elements of a shape, as C: sizes that are open are arguments."""
        return f"({' * '.join(map(self.region.size_text, shape)) or 1})"

    def command(self, match: PatternMatch) -> None:
        """The call for a match."""
        product, bias = match.ops[0], match.find("graph.bias_add")
        x, w = product.operands
        weights = self.constant(w)
        biases = self.constant(bias.operands[1]) if bias is not None else "-1"
        flags = "TOY_RELU" if match.find("graph.relu") is not None else "0"
        given = f"{self.result(match.root.results[0])}, {self.places[x]}, {weights}, {biases}"
        if product.name == "graph.dense":
            n, k = w.type.get_shape()
            text = f"toy_dense({given}, {self.count(shape_of(x.type))} / {k}, {n}, {k}, {flags})"
        else:
            sizes = [*shape_of(x.type), w.type.get_shape()[0], *w.type.get_shape()[2:]]
            sizes += [*shape_of(product.results[0].type)[2:], *product.strides, *product.padding[:2]]
            text = f"toy_conv2d({given}, &(struct toy_conv){{{', '.join(map(self.region.size_text, sizes))}}}, {flags})"
        self.commands.append(f"if (!status) status = {text};")

    def source(self) -> str:
        """The whole C source."""
        for match in self.region.matches:
            self.command(match)
        own = len(self.allocated)
        memory = [f"void *own[{own}] = {{0}};", *self.allocated] if own else []
        freed = [f"free(own[{k}]);" for k in range(own)]
        uploads, commands = "\n  ".join(self.uploads), "\n  ".join([*memory, *self.commands, *freed])
        return f"""
#include <stdlib.h>
#include "accelerator.h"
#include "mlc_runtime.h"

static int32_t handles[{len(self.constants)}];

int32_t {self.region.init}(void **constants, mlc_runtime *rt) {{
  (void)rt;
  {uploads}
  return 0;
}}

int32_t {self.region.name}(void **args, mlc_runtime *rt) {{
  int32_t status = 0;
  (void)rt;
  {commands}
  return status;
}}
"""


def register(library: str = "libtoy.so", version: str | None = "1") -> None:
    """Register the compiler; its code is linked with the simulator at `library`."""
    path = str(Path(library).resolve())

    def codegen(region: Region) -> ExternalKernel:
        writer = Writer(region)
        source = writer.source()
        return ExternalKernel(
            c_source=source,
            constants=writer.constants,
            init=True,
            workspace_bytes=writer.workspace,
            libraries=[path],
            flags=["-O2", f"-I{HERE}"],
        )

    mlc.register_compiler(
        "toy", PATTERNS, codegen, version=version and f"{version} {path}", open_sizes=True, override=True
    )
