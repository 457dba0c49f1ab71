"""Passes that decide which operations one kernel computes, and outline the kernels."""
