"""Passes that keep the graph in order: common and dead operations, inlining, unused functions, types, labels."""
