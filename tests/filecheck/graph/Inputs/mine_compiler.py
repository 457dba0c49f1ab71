"""An external compiler for tests, which takes over dense layers with relu, and exponentials and sums."""

from mlc.byoc import Pattern, is_constant, is_op, register_compiler, wildcard


def refuses(region):
    raise NotImplementedError(region.name)


DENSE = is_op("graph.dense")(wildcard(), is_constant())
PATTERNS = [
    Pattern("dense_relu", is_op("graph.relu")(DENSE)),
    Pattern("dense", DENSE),
    Pattern("pointwise", is_op("graph.exp", "graph.add")()),
]
register_compiler("mine", PATTERNS, refuses, version="1")
register_compiler("alone", PATTERNS, refuses, version="1", merge=False)
register_compiler("sized", PATTERNS, refuses, version="1", open_sizes=True)
