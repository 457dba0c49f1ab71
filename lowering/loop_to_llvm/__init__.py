"""mlc.lowering.loop_to_llvm."""
