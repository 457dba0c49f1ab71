"""
Going down one level: a folder for each conversion, `<a>_to_<b>/`, with the pass `convert-<a>-to-<b>` in convert.py.

In: a module of level a. Out: the same functions on level b; a conversion fails if an op of level a is left.
"""
