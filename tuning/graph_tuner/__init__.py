"""The choice of layouts over a whole graph: costs of kernels and transforms, and the solver."""
