"""
Where modules of mlc 0.1 stand now: importing one by its old name works for one more release, with a warning.

The table is read by an import hook that `import mlc` installs; a moved package takes its modules along.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

MOVED: dict[str, str] = {
    "codegen.c_run": "validation.c_run",
    "codegen.emitter": "codegen.llvm_printer",
    "codegen.errors": "support.errors",
    "codegen.targets": "targets.target",
    "dialects.graph.accumulate": "dialects.graph.ops.accumulate",
    "dialects.graph.bits": "dialects.graph.ops.bits",
    "dialects.graph.control": "dialects.graph.ops.control",
    "dialects.graph.conv": "dialects.graph.ops.conv",
    "dialects.graph.conv_transpose": "dialects.graph.ops.conv_transpose",
    "dialects.graph.counted": "dialects.graph.ops.counted",
    "dialects.graph.elementwise": "dialects.graph.ops.elementwise",
    "dialects.graph.indexing": "dialects.graph.ops.indexing",
    "dialects.graph.matmul": "dialects.graph.ops.matmul",
    "dialects.graph.movement": "dialects.graph.ops.movement",
    "dialects.graph.quantize": "dialects.graph.ops.quantize",
    "dialects.graph.reduce": "dialects.graph.ops.reduce",
    "dialects.graph.resize": "dialects.graph.ops.resize",
    "dialects.graph.structure": "dialects.graph.ops.structure",
    "dialects.graph.trigonometry": "dialects.graph.ops.trigonometry",
    "dialects.graph.winograd": "dialects.graph.ops.winograd",
    "driver.calibrate": "driver.quantize.calibrate",
    "driver.describe_program": "driver.describe.program",
    "driver.describe_symbolic": "driver.describe.symbolic",
    "driver.edit": "frontends.common.edit",
    "driver.errors": "support.errors",
    "driver.files": "support.files",
    "driver.kernels": "driver.workers",
    "driver.memory_plan": "lowering.memory.planners",
    "driver.model": "driver.load",
    "driver.plan_check": "validation.plan_check",
    "driver.plan_places": "validation.plan_places",
    "driver.simulate": "driver.quantize.simulate",
    "driver.timing": "support.timing",
    "driver.weights": "support.weights",
    "frontends.onnx.backend": "tools.onnx_backend",
    "frontends.onnx.computed": "frontends.onnx.ops.computed",
    "frontends.onnx.constants": "frontends.common.constants",
    "frontends.onnx.control": "frontends.onnx.ops.control",
    "frontends.onnx.counted": "frontends.common.counted",
    "frontends.onnx.einsum": "frontends.common.ops.einsum",
    "frontends.onnx.empty": "frontends.common.empty",
    "frontends.onnx.indexing": "frontends.onnx.ops.indexing",
    "frontends.onnx.legacy": "frontends.onnx.ops.legacy",
    "frontends.onnx.math": "frontends.onnx.ops.math",
    "frontends.onnx.microsoft": "frontends.onnx.ops.microsoft",
    "frontends.onnx.microsoft_attention": "frontends.onnx.ops.microsoft_attention",
    "frontends.onnx.microsoft_quantized": "frontends.onnx.ops.microsoft_quantized",
    "frontends.onnx.nn": "frontends.onnx.ops.nn",
    "frontends.onnx.open_taps": "frontends.common.ops.resize_open_axis",
    "frontends.onnx.ops.einsum": "frontends.common.ops.einsum",
    "frontends.onnx.ops.open_taps": "frontends.common.ops.resize_open_axis",
    "frontends.onnx.ops.taps": "frontends.common.ops.resize_axis",
    "frontends.onnx.pooling": "frontends.onnx.ops.pooling",
    "frontends.onnx.quantized": "frontends.onnx.ops.quantized",
    "frontends.onnx.recurrent": "frontends.onnx.ops.recurrent",
    "frontends.onnx.regions": "frontends.common.regions",
    "frontends.onnx.resize": "frontends.onnx.ops.resize",
    "frontends.onnx.sampling": "frontends.onnx.ops.sampling",
    "frontends.onnx.selection": "frontends.onnx.ops.selection",
    "frontends.onnx.sequences": "frontends.onnx.ops.sequences",
    "frontends.onnx.shape": "frontends.onnx.ops.shape",
    "frontends.onnx.signal": "frontends.onnx.ops.signal",
    "frontends.onnx.size_data": "frontends.common.size_data",
    "frontends.onnx.sizes": "frontends.common.sizes",
    "frontends.onnx.spans": "frontends.common.spans",
    "frontends.onnx.special": "frontends.onnx.ops.special",
    "frontends.onnx.taps": "frontends.common.ops.resize_axis",
    "frontends.onnx.tools": "frontends.common.movement",
    "frontends.torch.backend": "tools.torch_backend",
    "frontends.torch.bags": "frontends.torch.ops.bags",
    "frontends.torch.elementwise": "frontends.torch.ops.elementwise",
    "frontends.torch.indexing": "frontends.torch.ops.indexing",
    "frontends.torch.layers": "frontends.torch.ops.layers",
    "frontends.torch.make": "frontends.torch.ops.make",
    "frontends.torch.program": "frontends.torch.importer",
    "frontends.torch.recurrent": "frontends.torch.ops.recurrent",
    "frontends.torch.reduce": "frontends.torch.ops.reduce",
    "frontends.torch.shape": "frontends.torch.ops.shape",
    "frontends.torch.step": "frontends.torch.call",
    "frontends.torch.windows": "frontends.torch.ops.windows",
    "interp.execute": "validation.execute",
    "interp.validate": "validation.validate_each",
    "lowering.graph_to_te.builder": "dialects.te_builder.builder",
    "lowering.graph_to_te.indices": "dialects.te_builder.indices",
    "lowering.graph_to_te.scalars": "dialects.te_builder.scalars",
    "passes.context": "driver.pipeline.context",
    "passes.errors": "support.errors",
    "passes.graph.branch_costs": "targets.cost.branches",
    "passes.graph.canonicalize_concat": "passes.graph.canonicalize.concat",
    "passes.graph.canonicalize_moves": "passes.graph.canonicalize.moves",
    "passes.graph.canonicalize_shuffle": "passes.graph.canonicalize.shuffle",
    "passes.graph.canonicalize_sink": "passes.graph.canonicalize.sink",
    "passes.graph.combine_parallel_batch_matmul": "passes.graph.combine_parallel.batch_matmul",
    "passes.graph.combine_parallel_conv2d": "passes.graph.combine_parallel.conv2d",
    "passes.graph.combine_parallel_dense": "passes.graph.combine_parallel.dense",
    "passes.graph.constants": "passes.graph.shared.constants",
    "passes.graph.fuse_attention": "passes.graph.fuse_ops.attention",
    "passes.graph.fuse_dataflow": "passes.graph.fuse_ops.dataflow",
    "passes.graph.fuse_mlc": "passes.graph.fuse_ops.mlc_rules",
    "passes.graph.fuse_tvm": "passes.graph.fuse_ops.tvm_rules",
    "passes.graph.kernel_symbols": "passes.graph.outline_kernels.symbols",
    "passes.graph.layout_blocks": "passes.graph.alter_op_layout.blocks",
    "passes.graph.layout_rules": "passes.graph.alter_op_layout.rules",
    "passes.graph.layout_subpixel": "passes.graph.alter_op_layout.subpixel",
    "passes.graph.layout_versions": "passes.graph.alter_op_layout.versions",
    "passes.graph.order_rules": "passes.graph.convert_layout.rules",
    "passes.graph.orders": "passes.graph.convert_layout.orders",
    "passes.graph.parallel_branches": "passes.graph.combine_parallel.branches",
    "passes.graph.quantized": "passes.graph.simplify_qdq.values",
    "passes.graph.quantized_contractions": "passes.graph.simplify_qdq.contractions",
    "passes.graph.quantized_functions": "passes.graph.simplify_qdq.functions",
    "passes.graph.regions_of_control": "passes.graph.fold_constant.control_regions",
    "passes.graph.rewriting": "passes.rewriting",
    "passes.graph.scales": "passes.graph.fold_scale_axis.scales",
    "passes.graph.simplify_activations": "passes.graph.simplify_inference.activations",
    "passes.graph.simplify_affine": "passes.graph.simplify_inference.affine",
    "passes.graph.simplify_lookup": "passes.graph.simplify_inference.lookup",
    "passes.graph.simplify_norms": "passes.graph.simplify_inference.norms",
    "passes.graph.views": "passes.graph.shared.views",
    "passes.graph.weights": "dialects.graph.store",
    "passes.instruments": "driver.pipeline.instruments",
    "passes.limits": "support.limits",
    "passes.manager": "driver.pipeline.manager",
    "passes.pipeline_text": "driver.pipeline.text",
    "passes.pipelines": "driver.pipeline.pipelines",
    "passes.registry": "driver.pipeline.registry",
    "runtime.abi": "support.abi",
    "runtime.c_header": "driver.export.c_header",
    "runtime.export": "driver.export.library",
    "runtime.export_sizes": "driver.export.sizes",
    "runtime.machine": "driver.host",
    "runtime.pool": "codegen.pool.loaded",
    "runtime.pool_ir": "codegen.pool.module",
    "runtime.pool_text": "codegen.pool.dispatch",
    "runtime.pool_workers": "codegen.pool.workers",
    "runtime.threads": "support.threads",
    "runtime.weights_object": "codegen.weights_object",
    "passes.loop.nest": "passes.loop.index_space.space",
    "passes.loop.regions": "passes.loop.index_space.regions",
    "schedules.tiling": "targets.cost.tiles",
    "schedules.winograd_cost": "targets.cost.winograd",
    "tools.opt.diagnostics": "support.diagnostics",
    "tools.opt.source": "dialects.source",
    "tools.report": "runtime.report",
}
"""Old name below `mlc` -> new name below `mlc`."""


def new_name(name: str) -> str | None:
    """The new name of a module, or of one in a package that has moved; None if it stands where it stood."""
    head, tail = name.removeprefix("mlc."), ""
    while head:
        if head in MOVED:
            return f"mlc.{MOVED[head]}{tail}"
        head, _, last = head.rpartition(".")
        tail = f".{last}{tail}"
    return None


class _Alias(Loader):
    """Loads a module under its old name: the same module object, so that no class exists twice."""

    def __init__(self, target: str) -> None:
        self.target = target

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module under its new name."""
        module = import_module(self.target)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec back; it has run already."""
        module.__spec__ = self.spec


class MovedFinder(MetaPathFinder):
    """Finds the modules of the table; asked after Python's own finders, so that only absent names come here."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The spec of a moved module, after a DeprecationWarning that says its new name."""
        if not fullname.startswith("mlc.") or (found := new_name(fullname)) is None:
            return None
        warnings.warn(f"{fullname} is now {found}; the old name goes in the next release", DeprecationWarning, 2)
        return spec_from_loader(fullname, _Alias(found))


def install() -> None:
    """Put the finder behind those that sys.meta_path has."""
    if not any(isinstance(finder, MovedFinder) for finder in sys.meta_path):
        sys.meta_path.append(MovedFinder())
