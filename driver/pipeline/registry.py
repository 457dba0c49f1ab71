"""
Names of passes and dialects -> their classes: from mlc's tables, xDSL's, a user's file, installed plugins.

Nothing is imported before its name is used. Plugins are distributions with entry points in the groups
`mlc.passes`, `mlc.dialects` and `mlc.ops` (support/registered/plugins.py); they are searched last, and only for a
name that nobody else has.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.ir import Attribute, Dialect, Operation, TypeAttribute
from xdsl.passes import ModulePass

from mlc.dialects import DIALECTS
from mlc.dialects.own_ops import find_own_op
from mlc.support.errors import UserError, did_you_mean
from mlc.support.registered.plugins import entry_points

PASSES: dict[str, str] = {
    # graph
    "graph-infer-types": "mlc.passes.graph.cleanup.infer_types:InferTypesPass",
    "graph-canonicalize": "mlc.passes.graph.simplify.canonicalize:CanonicalizePass",
    "graph-eliminate-common-subexpr": "mlc.passes.graph.cleanup.eliminate_common_subexpr:EliminateCommonSubexprPass",
    "graph-eliminate-dead-code": "mlc.passes.graph.cleanup.eliminate_dead_code:EliminateDeadCodePass",
    "graph-fold-constant": "mlc.passes.graph.simplify.fold_constant:FoldConstantPass",
    "graph-fold-empty": "mlc.passes.graph.simplify.fold_empty:FoldEmptyPass",
    "graph-simplify-inference": "mlc.passes.graph.simplify.simplify_inference:SimplifyInferencePass",
    "graph-fuse-ops": "mlc.passes.graph.fusion.fuse_ops:FuseOpsPass",
    "graph-defuse-ops": "mlc.passes.graph.fusion.defuse_ops:DefuseOpsPass",
    "graph-annotate": "mlc.passes.graph.external.annotate:AnnotatePass",
    "graph-merge-regions": "mlc.passes.graph.external.merge_regions:MergeRegionsPass",
    "graph-plan-devices": "mlc.passes.graph.devices.plan_devices:PlanDevicesPass",
    "graph-annotate-memory-scope": "mlc.passes.graph.devices.annotate_memory_scope:AnnotateMemoryScopePass",
    "graph-lower-device-copies": "mlc.passes.graph.devices.lower_device_copies:LowerDeviceCopiesPass",
    "graph-partition": "mlc.passes.graph.external.partition:PartitionGraphPass",
    "graph-select-algorithm": "mlc.passes.graph.select_algorithm:SelectAlgorithmPass",
    "graph-combine-parallel-conv2d": "mlc.passes.graph.fusion.combine_parallel.conv2d:CombineParallelConv2dPass",
    "graph-combine-parallel-dense": "mlc.passes.graph.fusion.combine_parallel.dense:CombineParallelDensePass",
    "graph-combine-parallel-batch-matmul": (
        "mlc.passes.graph.fusion.combine_parallel.batch_matmul:CombineParallelBatchMatmulPass"
    ),
    "graph-fold-scale-axis": "mlc.passes.graph.simplify.fold_scale_axis:FoldScaleAxisPass",
    "graph-merge-branches": "mlc.passes.graph.simplify.merge_branches:MergeBranchesPass",
    "graph-simplify-expr": "mlc.passes.graph.simplify.simplify_expr:SimplifyExprPass",
    "graph-quantize": "mlc.passes.graph.precision.quantize:QuantizePass",
    "graph-simplify-qdq": "mlc.passes.graph.simplify.simplify_qdq:SimplifyQdqPass",
    "graph-flatten-atrous-conv": "mlc.passes.graph.simplify.flatten_atrous_conv:FlattenAtrousConvPass",
    "graph-canonicalize-ops": "mlc.passes.graph.simplify.canonicalize_ops:CanonicalizeOpsPass",
    "graph-canonicalize-cast": "mlc.passes.graph.simplify.canonicalize_cast:CanonicalizeCastPass",
    "graph-split-args": "mlc.passes.graph.fusion.split_args:SplitArgsPass",
    "graph-inline": "mlc.passes.graph.cleanup.inline:InlinePass",
    "graph-remove-unused-functions": "mlc.passes.graph.cleanup.remove_unused_functions:RemoveUnusedFunctionsPass",
    "graph-collapse-dims": "mlc.passes.graph.layout.collapse_dims:CollapseDimsPass",
    "graph-block-biases": "mlc.passes.graph.layout.block_biases:BlockBiasesPass",
    "graph-label-ops": "mlc.passes.graph.cleanup.label_ops:LabelOpsPass",
    "graph-dynamic-to-static": "mlc.passes.graph.simplify.dynamic_to_static:DynamicToStaticPass",
    "graph-legalize": "mlc.passes.graph.precision.legalize:LegalizePass",
    "graph-fast-math": "mlc.passes.graph.precision.fast_math:FastMathPass",
    "graph-outline-kernels": "mlc.passes.graph.fusion.outline_kernels:OutlineKernelsPass",
    "graph-convert-layout": "mlc.passes.graph.layout.convert_layout:ConvertLayoutPass",
    "graph-to-mixed-precision": "mlc.passes.graph.precision.to_mixed_precision:ToMixedPrecisionPass",
    "graph-narrow-weights": "mlc.passes.graph.precision.narrow_weights:NarrowWeightsPass",
    "graph-annotate-rows": "mlc.passes.graph.layout.annotate_rows:AnnotateRowsPass",
    "graph-annotate-narrow-bytes": "mlc.passes.graph.precision.narrow_bytes:AnnotateNarrowBytesPass",
    "graph-alter-op-layout": "mlc.passes.graph.layout.alter_op_layout:AlterOpLayoutPass",
    "graph-order-calls": "mlc.lowering.memory.order_calls:OrderCallsPass",
    # te
    "te-factor-reductions": "mlc.passes.te.factor_reductions:FactorReductionsPass",
    "te-inline": "mlc.passes.te.inline:InlineStagesPass",
    "te-clip-bands": "mlc.passes.te.clip_bands:ClipBandsPass",
    "te-pad-queries": "mlc.passes.te.pad_queries:PadQueriesPass",
    "te-read-schedules": "mlc.passes.te.read_schedules:ReadSchedulesPass",
    "te-read-records": "mlc.schedules.read_records:ReadRecordsPass",
    "te-add-schedule": "mlc.schedules.strategy:AddSchedulePass",
    # loop
    "loop-apply-schedule": "mlc.passes.loop.apply_schedule:ApplySchedulePass",
    "loop-scalarize": "mlc.passes.loop.scalarize:ScalarizePass",
    "loop-partition": "mlc.passes.loop.partitioning.partition:PartitionPass",
    "loop-reuse-buffers": "mlc.passes.loop.reuse_buffers:ReuseBuffersPass",
    "loop-inline-unit-loops": "mlc.passes.loop.inline_unit_loops:InlineUnitLoopsPass",
    "loop-form-tiles": "mlc.passes.loop.tiles.form_tiles:FormTilesPass",
    "loop-compact-buffers": "mlc.passes.loop.compact_buffers:CompactBuffersPass",
    "loop-promote-tiles": "mlc.passes.loop.tiles.promote_tiles:PromoteTilesPass",
    "loop-start-sums": "mlc.passes.loop.tiles.start_sums:StartSumsPass",
    "loop-unroll": "mlc.passes.loop.unroll:UnrollPass",
    "loop-plan-memory": "mlc.lowering.memory.plan_kernel:PlanMemoryPass",
    # conversions
    "convert-graph-to-te": "mlc.lowering.graph_to_te.convert:ConvertGraphToTe",
    "convert-graph-to-main": "mlc.lowering.graph_to_main.convert:ConvertGraphToMainPass",
    "convert-main-to-llvm": "mlc.lowering.main_to_llvm.convert:ConvertMainToLLVMPass",
    "convert-te-to-loop": "mlc.lowering.te_to_loop.convert:ConvertTeToLoop",
    "convert-loop-to-llvm": "mlc.lowering.loop_to_llvm.convert:ConvertLoopToLLVMPass",
}

# Passes and dialects that the program registered, by --load or `PassContext(insert=...)`.
USER_PASSES: dict[str, type[ModulePass]] = {}
USER_DIALECTS: dict[str, Dialect] = {}
_owners: dict[str, str] = {}


def import_target(what: str, target: str) -> Any:
    """The object at "module:attribute"; a clear error that names `what` if it is not there."""
    module, _, attribute = target.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except Exception as error:
        raise UserError(f"{what} is registered as '{target}', which cannot be imported: {error}") from error


@cache
def xdsl_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """The passes that come with xDSL, behind functions that import them."""
    from xdsl.transforms import get_all_passes

    return get_all_passes()


def dialect_names() -> list[str]:
    """Every dialect name, mlc's own first."""
    return list(dict.fromkeys((*DIALECTS, *USER_DIALECTS, *entry_points("mlc.dialects"), *get_all_dialects())))


def pass_names() -> list[str]:
    """Every pass name, mlc's own first."""
    return list(dict.fromkeys((*PASSES, *USER_PASSES, *entry_points("mlc.passes"), *xdsl_passes())))


def is_pass(name: str) -> bool:
    """Whether some registry has a pass of this name."""
    return name in PASSES or name in USER_PASSES or name in xdsl_passes() or name in entry_points("mlc.passes")


def pass_class(name: str, also: Iterable[str] = ()) -> type[ModulePass]:
    """The class of the pass called `name`; `also` are further names that an error may suggest."""
    if name in USER_PASSES:
        return USER_PASSES[name]
    if name in PASSES:
        found = import_target(f"pass '{name}'", PASSES[name])
    elif name in xdsl_passes():
        found = _load(f"pass '{name}'", xdsl_passes()[name])
    elif name in entry_points("mlc.passes"):
        found = _load(f"pass '{name}'", entry_points("mlc.passes")[name].load)
    else:
        raise UserError(f"unknown pass '{name}'{did_you_mean(name, [*pass_names(), *also])}")
    if not (isinstance(found, type) and issubclass(found, ModulePass)):
        raise UserError(f"pass '{name}': expected a ModulePass class, but got {found!r}")
    return found


def _load(what: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except Exception as error:
        raise UserError(f"{what} cannot be imported: {error}") from error


def register_pass(cls: type[ModulePass]) -> None:
    """Make a user's pass known by its name; a file that is loaded again replaces its passes."""
    mine = USER_PASSES.get(cls.name)
    if is_pass(cls.name) and (mine is None or mine.__module__ != cls.__module__):
        raise UserError(f"expected a new pass name, but got '{cls.name}', which is already registered")
    USER_PASSES[cls.name] = cls


def is_users_own(module_pass: ModulePass) -> bool:
    """Whether a pass is none of mlc's, but the user's or a plugin's."""
    return module_pass.name in USER_PASSES or type(module_pass).__module__.partition(".")[0] not in ("mlc", "xdsl")


def register_dialect(dialect: Dialect, owner: str = "") -> None:
    """Make a user's dialect known to contexts made from now on; its owner, a module, may replace it."""
    name = dialect.name
    taken = name in DIALECTS or name in get_all_dialects()
    if taken or (name in USER_DIALECTS and _owners.get(name) != owner):
        raise UserError(f"expected a new dialect name, but got '{name}', which is already registered")
    USER_DIALECTS[name] = dialect
    _owners[name] = owner


@dataclass
class MlcContext(Context):
    """A Context that knows the program's own ops, and asks the plugins for a dialect which nobody else has."""

    def _add_plugin(self, name: str) -> bool:
        dialect_name, dot, _ = name.partition(".")
        if not dot or dialect_name in self._registered_dialects:
            return False
        if (point := entry_points("mlc.dialects").get(dialect_name)) is None:
            return False
        self.register_dialect(dialect_name, lambda: _load(f"dialect '{dialect_name}'", point.load))
        return True

    def _get_known_op(self, name: str) -> type[Operation] | None:
        found = super()._get_known_op(name) or find_own_op(name)
        if found is None and self._add_plugin(name):
            return super()._get_known_op(name)
        return found

    def get_optional_type(self, name: str) -> type[TypeAttribute] | None:
        self._add_plugin(name)
        return super().get_optional_type(name)

    def get_optional_attr(self, name: str) -> type[Attribute] | None:
        self._add_plugin(name)
        return super().get_optional_attr(name)


def _lazy(name: str, target: str) -> Callable[[], Dialect]:
    return lambda: import_target(f"dialect '{name}'", target)


def make_context(*, allow_unregistered: bool = False, upstream: Collection[str] | None = None) -> Context:
    """
    A Context that knows every dialect by name and has loaded none but the program's own.

    `upstream` names those of xDSL's dialects that it knows; None says all.
    """
    ctx = MlcContext(allow_unregistered)
    for name, factory in get_all_dialects().items():
        if name not in DIALECTS and (upstream is None or name in upstream):
            ctx.register_dialect(name, factory)
    for name, target in DIALECTS.items():
        ctx.register_dialect(name, _lazy(name, target))
    for dialect in USER_DIALECTS.values():
        ctx.load_dialect(dialect)
    return ctx
