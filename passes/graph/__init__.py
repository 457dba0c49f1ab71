"""mlc.passes.graph."""
