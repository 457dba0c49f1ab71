"""
Conversions between levels: a folder `<a>_to_<b>/` for each, with the pass `convert-<a>-to-<b>` in its convert.py.

In: a module of level a. Out: the same functions on level b; a conversion fails if an op of level a is left.
"""
