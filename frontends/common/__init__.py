"""
What the frontends share: the model that each of them gives, and the means to build and to edit its graph.

Goes in: nothing of ONNX or PyTorch. Comes out: a graph-level module with a function @main, and its weights.
"""
