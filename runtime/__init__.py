"""
A compiled model on disk and in this process.

In: an artefact (a directory that the driver wrote). Out: outputs, profiles, traces. Nothing here imports xdsl, llvmlite
or onnx: a saved model runs where only numpy is installed.
"""
