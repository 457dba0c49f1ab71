"""Passes that hand parts of the graph to external compilers: annotate, merge regions, partition."""
