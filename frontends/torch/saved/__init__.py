"""
The .pt2 files of `torch.export.save`, read as data.

`torch.export.load` unpickles parts of a file, evaluates the text of its sizes as Python, imports what its structures
name and loads its native code. Here the archive is read by mlc, its program is checked and handed to torch without
whatever runs, and its weights are mapped into memory:

    archive   the records of the zip file: bounds, names, no compression
    tensors   weights and constants, mapped; pickled ones are refused
    program   the graph: names, ops, sizes and structures are checked, all else is left out
    text      expressions of sizes, and the conditions on them under which the program was traced
"""
