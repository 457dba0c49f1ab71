"""
loop -> llvm: tile values become native vectors, loops become blocks and branches.

In: loop functions whose blocks are tiles. Out: llvm.func with the kernel calling convention. This is the first level
that depends on the machine's vector width.
"""
