"""mlc.tools."""
