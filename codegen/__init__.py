"""mlc.codegen."""
