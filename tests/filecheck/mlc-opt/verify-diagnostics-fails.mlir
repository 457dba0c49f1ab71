// RUN: not mlc-opt %S/Inputs/unexpected.mlir --verify-diagnostics 2>&1 | filecheck %s --check-prefix=UNEXPECTED
// RUN: not mlc-opt %S/Inputs/missing.mlir --verify-diagnostics 2>&1 | filecheck %s --check-prefix=MISSING
// RUN: not mlc-opt %S/Inputs/other.mlir --verify-diagnostics 2>&1 | filecheck %s --check-prefix=OTHER

// UNEXPECTED: unexpected.mlir:2:3: error: unexpected error: 'func.return' op
// MISSING: missing.mlir:1:4: error: expected error "never said" was not produced
// OTHER: other.mlir:2:3: error: unexpected error: 'func.return' op
// OTHER: other.mlir:2:27: error: expected error "another text" was not produced
