"""
The operations of the graph dialect, by family: attributes, type inference, fusion kind, numpy meaning and samples of
each stand together. `mlc.dialects.graph` exports them all.
"""
