"""
The driver: from a model to a program.

In: a path, a Model, an ONNX model, a torch.export program, or one te function. Out: an Executable or an Operator.
`compile` and `build` are the entries; `compilation` is the order of the stages; `kernel` lowers one kernel, `workers`
many at once; `pipeline/` holds the list of the compiler and the registry of passes; `cache` keeps models and
kernels. This is the only room that knows all levels at once.
"""
