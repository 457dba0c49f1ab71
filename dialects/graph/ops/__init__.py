"""
The operations of the graph dialect, by family. Each class has the op's attributes, type inference, fusion kind, numpy
semantics and samples. `mlc.dialects.graph` exports them all.
"""
