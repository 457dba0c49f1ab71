"""
The .pt2 files of `torch.export.save`, read as data.

`torch.export.load` unpickles parts of a file, evaluates the text of its sizes as Python, imports what its structures
name and loads its native code. Here mlc reads the archive, hands torch a checked program without anything
that runs, and maps the weights into memory:

    archive   the records of the zip file: bounds, names, no compression
    tensors   weights and constants, mapped; pickled ones are refused
    program   the graph: names, ops, sizes and structures are checked, everything else is dropped
    text      expressions of sizes, and the conditions on them under which the program was traced
"""
