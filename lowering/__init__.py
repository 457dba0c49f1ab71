"""mlc.lowering."""
