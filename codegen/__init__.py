"""
Code generation: from the llvm and loop dialects to text and machine code.

In: modules of the llvm dialect (`llvm_ir`) or loop functions (`c`). Out: LLVM IR text, C99, object files, assembly,
shared libraries, code in this process (`native`, `jit`). `prelude` holds the vector math functions, `pool/` the thread
pool and `probes` the machine's probes as LLVM IR text. Nothing here reads a graph or a schedule.
"""
