"""
ONNX operators: one converter function each, by family, entered into the table of converters.

In: a node and its values. Out: graph ops. The engine that calls them stands one folder up.
"""
