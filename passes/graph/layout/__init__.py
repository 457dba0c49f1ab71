"""Passes that choose the order of a tensor's axes in memory, and those that merge axes."""
