"""mlc.passes.te."""
