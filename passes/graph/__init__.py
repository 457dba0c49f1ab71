"""
The passes of the graph level: rewriting of tensor ops, layouts, quantisation, fusion, outlining.

A pass `graph-verb-object` is `verb_object.py`, or the folder `verb_object/` with its rule tables beside it.
`shared/` holds questions that several passes ask. In and out: a module of graph functions.
"""
