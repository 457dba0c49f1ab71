"""
Command lines (`mlc`, `mlc-opt`), and the backends of torch.compile and of ONNX's tests.

In: arguments. Out: text, files, exit codes (0 done, 1 the input is wrong, 2 a bug in mlc).
"""
