"""
Arithmetic on scalars and native vectors: element types, math functions, conversions, narrow products, table lookups.

In: an operation of `arith`, `math` or `loop` and its operands as machine values. Out: llvm ops that compute it.
"""
