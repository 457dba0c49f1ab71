"""
Rewriting inside one level. The registry is data: a pass's name -> where its class is; imported when used.

A pass stands in `passes/<level>/<verb_object>.py` under the name `<level>-<verb>-<object>`; a conversion
in `lowering/<a>_to_<b>/` under the name `convert-<a>-to-<b>`.
"""

PASSES: dict[str, str] = {
    # graph
    "graph-infer-types": "mlc.passes.graph.infer_types:InferTypesPass",
    "graph-canonicalize": "mlc.passes.graph.canonicalize:CanonicalizePass",
    "graph-eliminate-common-subexpr": "mlc.passes.graph.eliminate_common_subexpr:EliminateCommonSubexprPass",
    "graph-eliminate-dead-code": "mlc.passes.graph.eliminate_dead_code:EliminateDeadCodePass",
    "graph-fold-constant": "mlc.passes.graph.fold_constant:FoldConstantPass",
    "graph-fold-empty": "mlc.passes.graph.fold_empty:FoldEmptyPass",
    "graph-simplify-inference": "mlc.passes.graph.simplify_inference:SimplifyInferencePass",
    "graph-fuse-ops": "mlc.passes.graph.fuse_ops:FuseOpsPass",
    "graph-defuse-ops": "mlc.passes.graph.defuse_ops:DefuseOpsPass",
    "graph-select-algorithm": "mlc.passes.graph.select_algorithm:SelectAlgorithmPass",
    "graph-combine-parallel-conv2d": "mlc.passes.graph.combine_parallel_conv2d:CombineParallelConv2dPass",
    "graph-combine-parallel-dense": "mlc.passes.graph.combine_parallel_dense:CombineParallelDensePass",
    "graph-combine-parallel-batch-matmul": (
        "mlc.passes.graph.combine_parallel_batch_matmul:CombineParallelBatchMatmulPass"
    ),
    "graph-fold-scale-axis": "mlc.passes.graph.fold_scale_axis:FoldScaleAxisPass",
    "graph-simplify-expr": "mlc.passes.graph.simplify_expr:SimplifyExprPass",
    "graph-quantize": "mlc.passes.graph.quantize:QuantizePass",
    "graph-simplify-qdq": "mlc.passes.graph.simplify_qdq:SimplifyQdqPass",
    "graph-flatten-atrous-conv": "mlc.passes.graph.flatten_atrous_conv:FlattenAtrousConvPass",
    "graph-canonicalize-ops": "mlc.passes.graph.canonicalize_ops:CanonicalizeOpsPass",
    "graph-canonicalize-cast": "mlc.passes.graph.canonicalize_cast:CanonicalizeCastPass",
    "graph-split-args": "mlc.passes.graph.split_args:SplitArgsPass",
    "graph-inline": "mlc.passes.graph.inline:InlinePass",
    "graph-remove-unused-functions": "mlc.passes.graph.remove_unused_functions:RemoveUnusedFunctionsPass",
    "graph-collapse-dims": "mlc.passes.graph.collapse_dims:CollapseDimsPass",
    "graph-label-ops": "mlc.passes.graph.label_ops:LabelOpsPass",
    "graph-dynamic-to-static": "mlc.passes.graph.dynamic_to_static:DynamicToStaticPass",
    "graph-legalize": "mlc.passes.graph.legalize:LegalizePass",
    "graph-fast-math": "mlc.passes.graph.fast_math:FastMathPass",
    "graph-outline-kernels": "mlc.passes.graph.outline_kernels:OutlineKernelsPass",
    "graph-convert-layout": "mlc.passes.graph.convert_layout:ConvertLayoutPass",
    "graph-to-mixed-precision": "mlc.passes.graph.to_mixed_precision:ToMixedPrecisionPass",
    "graph-alter-op-layout": "mlc.passes.graph.alter_op_layout:AlterOpLayoutPass",
    # te
    "te-factor-reductions": "mlc.passes.te.factor_reductions:FactorReductionsPass",
    "te-inline": "mlc.passes.te.inline:InlinePass",
    "te-read-schedules": "mlc.passes.te.read_schedules:ReadSchedulesPass",
    "te-add-schedule": "mlc.schedules.strategy:AddSchedulePass",
    # loop
    "loop-apply-schedule": "mlc.passes.loop.apply_schedule:ApplySchedulePass",
    "loop-partition": "mlc.passes.loop.partition:PartitionPass",
    "loop-inline-unit-loops": "mlc.passes.loop.inline_unit_loops:InlineUnitLoopsPass",
    "loop-form-tiles": "mlc.passes.loop.form_tiles:FormTilesPass",
    "loop-compact-buffers": "mlc.passes.loop.compact_buffers:CompactBuffersPass",
    "loop-promote-tiles": "mlc.passes.loop.promote_tiles:PromoteTilesPass",
    # conversions
    "convert-graph-to-te": "mlc.lowering.graph_to_te.convert:ConvertGraphToTe",
    "convert-graph-to-main": "mlc.lowering.graph_to_main.convert:ConvertGraphToMainPass",
    "convert-main-to-llvm": "mlc.lowering.main_to_llvm.convert:ConvertMainToLLVMPass",
    "convert-te-to-loop": "mlc.lowering.te_to_loop.convert:ConvertTeToLoop",
    "convert-loop-to-llvm": "mlc.lowering.loop_to_llvm.convert:ConvertLoopToLLVMPass",
}
