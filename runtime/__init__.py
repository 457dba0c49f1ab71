"""mlc.runtime."""
