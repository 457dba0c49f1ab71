"""
Where modules of mlc 0.1 stand now: importing one by its old name works for one more release, with a warning.

The table is read by an import hook that `import mlc` installs; a moved package takes its modules along.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:
    Loader = MetaPathFinder = object  # Python asks for the methods alone, and importing the classes takes 5 ms

MOVED: dict[str, str] = {
    "codegen.c_access": "codegen.c.access",
    "codegen.c_call": "codegen.c.call",
    "codegen.c_lanes": "codegen.c.lanes",
    "codegen.c_prelude": "codegen.c.prelude",
    "codegen.c_printer": "codegen.c.printer",
    "codegen.c_program": "codegen.c.program",
    "codegen.c_run": "validation.c_run",
    "codegen.c_types": "codegen.c.types",
    "codegen.c_values": "codegen.c.values",
    "codegen.debug_lines": "codegen.llvm.debug_lines",
    "codegen.emitter": "codegen.llvm.printer",
    "codegen.errors": "support.errors",
    "codegen.llvm_ir": "codegen.llvm.ir",
    "codegen.llvm_ops": "codegen.llvm.ops",
    "codegen.llvm_printer": "codegen.llvm.printer",
    "codegen.llvm_types": "codegen.llvm.types",
    "codegen.prelude": "codegen.llvm.prelude",
    "codegen.targets": "targets.target",
    "dialects.dense": "dialects.syntax.dense",
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
    "dialects.lexer": "dialects.syntax.lexer",
    "dialects.parse_messages": "dialects.syntax.parse_messages",
    "dialects.printer": "dialects.syntax.printer",
    "dialects.probe": "dialects.syntax.recipes.probe",
    "dialects.repeated_ops": "dialects.syntax.recipes.repeated_ops",
    "dialects.source": "dialects.syntax.source",
    "dialects.source_nodes": "dialects.syntax.source_nodes",
    "dialects.token_parser": "dialects.syntax.token_parser",
    "driver.arguments": "driver.operator.arguments",
    "driver.bind_sizes": "driver.models.bind_sizes",
    "driver.binds": "driver.operator.binds",
    "driver.bisection": "driver.compare.bisection",
    "driver.build": "driver.operator.build",
    "driver.calibrate": "driver.quantize.calibrate",
    "driver.compilation": "driver.models.compilation",
    "driver.compile": "driver.models.compile",
    "driver.describe_program": "driver.describe.program",
    "driver.describe_symbolic": "driver.describe.symbolic",
    "driver.diff": "driver.compare.diff",
    "driver.edit": "frontends.common.edit",
    "driver.errors": "support.errors",
    "driver.external": "driver.kernels.external",
    "driver.files": "support.files",
    "driver.flops": "driver.kernels.flops",
    "driver.interpret": "driver.compare.interpret",
    "driver.kernel": "driver.kernels.kernel",
    "driver.load": "driver.models.load",
    "driver.memory_plan": "lowering.memory.planners",
    "driver.model": "driver.models.load",
    "driver.operator_source": "driver.operator.source",
    "driver.plan_check": "validation.plans.plan_check",
    "driver.plan_places": "validation.plans.plan_places",
    "driver.schedules": "driver.models.schedules",
    "driver.sides": "driver.compare.sides",
    "driver.simulate": "driver.quantize.simulate",
    "driver.specialize": "driver.models.specialize",
    "driver.timing": "support.display.timing",
    "driver.validated": "driver.compare.validated",
    "driver.weights": "support.weights",
    "driver.workers": "driver.kernels.workers",
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
    "frontends.onnx.microsoft": "frontends.onnx.ops.microsoft.fusions",
    "frontends.onnx.microsoft_attention": "frontends.onnx.ops.microsoft.attention",
    "frontends.onnx.microsoft_quantized": "frontends.onnx.ops.microsoft.quantized",
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
    "passes.graph.alter_op_layout": "passes.graph.layout.alter_op_layout",
    "passes.graph.annotate": "passes.graph.external.annotate",
    "passes.graph.branch_costs": "targets.cost.branches",
    "passes.graph.canonicalize": "passes.graph.simplify.canonicalize",
    "passes.graph.canonicalize_cast": "passes.graph.simplify.canonicalize_cast",
    "passes.graph.canonicalize_concat": "passes.graph.simplify.canonicalize.concat",
    "passes.graph.canonicalize_moves": "passes.graph.simplify.canonicalize.moves",
    "passes.graph.canonicalize_ops": "passes.graph.simplify.canonicalize_ops",
    "passes.graph.canonicalize_shuffle": "passes.graph.simplify.canonicalize.shuffle",
    "passes.graph.canonicalize_sink": "passes.graph.simplify.canonicalize.sink",
    "passes.graph.collapse_dims": "passes.graph.layout.collapse_dims",
    "passes.graph.combine_parallel": "passes.graph.fusion.combine_parallel",
    "passes.graph.combine_parallel_batch_matmul": "passes.graph.fusion.combine_parallel.batch_matmul",
    "passes.graph.combine_parallel_conv2d": "passes.graph.fusion.combine_parallel.conv2d",
    "passes.graph.combine_parallel_dense": "passes.graph.fusion.combine_parallel.dense",
    "passes.graph.constants": "passes.graph.shared.constants",
    "passes.graph.convert_layout": "passes.graph.layout.convert_layout",
    "passes.graph.defuse_ops": "passes.graph.fusion.defuse_ops",
    "passes.graph.dynamic_to_static": "passes.graph.simplify.dynamic_to_static",
    "passes.graph.eliminate_common_subexpr": "passes.graph.cleanup.eliminate_common_subexpr",
    "passes.graph.eliminate_dead_code": "passes.graph.cleanup.eliminate_dead_code",
    "passes.graph.fast_math": "passes.graph.precision.fast_math",
    "passes.graph.flatten_atrous_conv": "passes.graph.simplify.flatten_atrous_conv",
    "passes.graph.fold_constant": "passes.graph.simplify.fold_constant",
    "passes.graph.fold_empty": "passes.graph.simplify.fold_empty",
    "passes.graph.fold_scale_axis": "passes.graph.simplify.fold_scale_axis",
    "passes.graph.fuse_attention": "passes.graph.fusion.fuse_ops.attention",
    "passes.graph.fuse_dataflow": "passes.graph.fusion.fuse_ops.dataflow",
    "passes.graph.fuse_mlc": "passes.graph.fusion.fuse_ops.mlc_rules",
    "passes.graph.fuse_ops": "passes.graph.fusion.fuse_ops",
    "passes.graph.fuse_tvm": "passes.graph.fusion.fuse_ops.tvm_rules",
    "passes.graph.infer_types": "passes.graph.cleanup.infer_types",
    "passes.graph.inline": "passes.graph.cleanup.inline",
    "passes.graph.kernel_symbols": "passes.graph.fusion.outline_kernels.symbols",
    "passes.graph.label_ops": "passes.graph.cleanup.label_ops",
    "passes.graph.layout_blocks": "passes.graph.shared.blocks",
    "passes.graph.layout_rules": "passes.graph.layout.alter_op_layout.rules",
    "passes.graph.layout_subpixel": "passes.graph.layout.alter_op_layout.subpixel",
    "passes.graph.layout_versions": "passes.graph.layout.alter_op_layout.versions",
    "passes.graph.legalize": "passes.graph.precision.legalize",
    "passes.graph.merge_regions": "passes.graph.external.merge_regions",
    "passes.graph.order_rules": "passes.graph.layout.convert_layout.rules",
    "passes.graph.orders": "passes.graph.layout.convert_layout.orders",
    "passes.graph.outline_kernels": "passes.graph.fusion.outline_kernels",
    "passes.graph.parallel_branches": "passes.graph.fusion.combine_parallel.branches",
    "passes.graph.partition": "passes.graph.external.partition",
    "passes.graph.quantize": "passes.graph.precision.quantize",
    "passes.graph.quantized": "passes.graph.simplify.simplify_qdq.values",
    "passes.graph.quantized_contractions": "passes.graph.simplify.simplify_qdq.contractions",
    "passes.graph.quantized_functions": "passes.graph.simplify.simplify_qdq.functions",
    "passes.graph.regions_of_control": "passes.graph.simplify.fold_constant.control_regions",
    "passes.graph.remove_unused_functions": "passes.graph.cleanup.remove_unused_functions",
    "passes.graph.rewriting": "passes.rewriting",
    "passes.graph.scales": "passes.graph.simplify.fold_scale_axis.scales",
    "passes.graph.simplify_activations": "passes.graph.simplify.simplify_inference.activations",
    "passes.graph.simplify_affine": "passes.graph.simplify.simplify_inference.affine",
    "passes.graph.simplify_expr": "passes.graph.simplify.simplify_expr",
    "passes.graph.simplify_inference": "passes.graph.simplify.simplify_inference",
    "passes.graph.simplify_lookup": "passes.graph.simplify.simplify_inference.lookup",
    "passes.graph.simplify_norms": "passes.graph.simplify.simplify_inference.norms",
    "passes.graph.simplify_qdq": "passes.graph.simplify.simplify_qdq",
    "passes.graph.split_args": "passes.graph.fusion.split_args",
    "passes.graph.to_mixed_precision": "passes.graph.precision.to_mixed_precision",
    "passes.graph.views": "passes.graph.shared.views",
    "passes.graph.weights": "dialects.graph.store",
    "passes.instruments": "driver.pipeline.instruments",
    "passes.limits": "support.limits",
    "passes.loop.cuts": "passes.loop.partitioning.cuts",
    "passes.loop.form_contract": "passes.loop.tiles.form_contract",
    "passes.loop.form_tiles": "passes.loop.tiles.form_tiles",
    "passes.loop.nest": "passes.loop.index_space.space",
    "passes.loop.partition": "passes.loop.partitioning.partition",
    "passes.loop.promote_tiles": "passes.loop.tiles.promote_tiles",
    "passes.loop.ragged": "passes.loop.partitioning.ragged",
    "passes.loop.regions": "passes.loop.index_space.regions",
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
    "schedules.attention": "schedules.strategies.attention",
    "schedules.contraction": "schedules.strategies.contraction",
    "schedules.injective": "schedules.strategies.injective",
    "schedules.matmul": "schedules.strategies.matmul",
    "schedules.recurrence": "schedules.strategies.recurrence",
    "schedules.reduction": "schedules.strategies.reduction",
    "schedules.roles": "schedules.strategies.roles",
    "schedules.rows": "schedules.strategies.rows",
    "schedules.tiling": "targets.cost.tiles",
    "schedules.winograd": "schedules.strategies.winograd",
    "schedules.winograd_cost": "targets.cost.winograd",
    "support.functions": "support.registered.functions",
    "support.highlight": "support.display.highlight",
    "support.ir_text": "support.display.ir_text",
    "support.memory_pools": "support.registered.memory_pools",
    "support.plugins": "support.registered.plugins",
    "support.progress": "support.display.progress",
    "support.registrations": "support.registered.registrations",
    "support.timing": "support.display.timing",
    "tools.cli_bench": "tools.commands.bench",
    "tools.cli_bisect": "tools.commands.bisect",
    "tools.cli_check": "tools.commands.check",
    "tools.cli_compile": "tools.commands.compile",
    "tools.cli_diff": "tools.commands.diff",
    "tools.cli_inspect": "tools.commands.inspect",
    "tools.cli_memory": "tools.commands.memory",
    "tools.cli_new": "tools.commands.new",
    "tools.cli_package": "tools.commands.package",
    "tools.cli_reduce": "tools.commands.reduce",
    "tools.cli_run": "tools.commands.run",
    "tools.cli_run_ir": "tools.commands.run_ir",
    "tools.opt.diagnostics": "support.diagnostics",
    "tools.opt.source": "dialects.syntax.source",
    "tools.report": "runtime.report",
    "validation.kernel_plan_check": "validation.plans.kernel_plan_check",
    "validation.plan_check": "validation.plans.plan_check",
    "validation.plan_places": "validation.plans.plan_places",
    "validation.structure_diff": "validation.compare.structure_diff",
    "validation.trace": "validation.compare.trace",
    "validation.value_diff": "validation.compare.value_diff",
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
        return ModuleSpec(fullname, _Alias(found))


def install() -> None:
    """Put the finder behind those that sys.meta_path has."""
    if not any(isinstance(finder, MovedFinder) for finder in sys.meta_path):
        sys.meta_path.append(MovedFinder())
