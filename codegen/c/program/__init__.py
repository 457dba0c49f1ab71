"""
A whole program as C99 that a person may read and any C compiler compiles: its kernels, @main, its weights.

What may enter: text of C for delivery. The C form by which passes are validated is in codegen/c/emit.py, whose
statements the kernels here share.
"""
