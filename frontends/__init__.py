"""mlc.frontends."""
