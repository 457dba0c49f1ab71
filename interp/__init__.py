"""mlc.interp."""
