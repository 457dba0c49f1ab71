"""
loop -> llvm: tile values become native vectors, loops become blocks and branches.

In: loop functions whose blocks are tiles. Out: llvm.func with the kernel calling convention. The width of the
machine's vectors appears here for the first time.
"""
