"""mlc.passes.loop."""
