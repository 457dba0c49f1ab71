"""
The index space of a kernel: one model of its loops, the ranges of their indices, and the arithmetic over them.

    file          question it answers                                                     standard term
    domain        Which loops stand around an op, and which values does an index take?    iteration domain
    space         Which expressions of different ops are equal?                           index space
    expressions   Which index expressions has an op, and how are they replaced?           substitution
    predicates    Does a predicate hold in the whole domain, or where another one holds?  implication
    accesses      At which indices does a block load and store?                           access function
    regions       Which part of a buffer does a nest touch while some loops are fixed?    access region, bounding box
    dependence    Do two iterations touch one element?                                    dependence test

Expressions are quasi-affine with integer coefficients (`mlc.dialects.index`); dimension n of an expression is value n
of an `IndexSpace`, dimension -1 - k is axis k of a tile. Bounds are inclusive intervals of integers, computed by
interval arithmetic: they may be too wide, never too narrow. A size that is known only at run time has the range
`UNBOUNDED`, and an index without a known bound the range `UNKNOWN`; `mlc.dialects.index` defines both.
"""
