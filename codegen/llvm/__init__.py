"""The llvm dialect as LLVM IR text, with debug lines and the math prelude."""
