"""
Rewriting inside one level. The registry is data: a pass's name -> where its class is; imported when used.

A pass stands in `passes/<level>/<verb_object>.py` under the name `<level>-<verb>-<object>`; a conversion
in `lowering/<a>_to_<b>/` under the name `convert-<a>-to-<b>`.
"""

PASSES: dict[str, str] = {
    # graph
    # te
    # loop
    "loop-partition": "mlc.passes.loop.partition:PartitionPass",
    "loop-form-tiles": "mlc.passes.loop.form_tiles:FormTilesPass",
    "loop-compact-buffers": "mlc.passes.loop.compact_buffers:CompactBuffersPass",
    "loop-promote-tiles": "mlc.passes.loop.promote_tiles:PromoteTilesPass",
    # conversions
    "convert-loop-to-llvm": "mlc.lowering.loop_to_llvm.convert:ConvertLoopToLLVMPass",
}
