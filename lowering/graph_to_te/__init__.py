"""mlc.lowering.graph_to_te."""
