"""mlc.lowering.te_to_loop."""
