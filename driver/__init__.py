"""mlc.driver."""
