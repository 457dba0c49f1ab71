"""
The operators of com.microsoft: fusions that onnxruntime's tools write, attention, and quantized operators.

In: nodes of that domain. Out: graph ops, through the `CONVERTERS` of each module, as in the room above.
"""
