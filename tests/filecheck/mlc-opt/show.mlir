// RUN: mlc-opt --show-dialects | filecheck %s --check-prefix=DIALECTS
// RUN: mlc-opt --show-passes | filecheck %s --check-prefix=PASSES
// RUN: mlc-opt --show-passes=canonicalize | filecheck %s --check-prefix=ONE
// RUN: not mlc-opt --show-passes=canonicalise 2>&1 | filecheck %s --check-prefix=NO-PASS
// RUN: not mlc-opt --show-pipeline=nothing 2>&1 | filecheck %s --check-prefix=NO-PIPELINE

// DIALECTS: mlc:
// DIALECTS: graph
// DIALECTS: xDSL:
// DIALECTS: arith
// PASSES: mlc:
// PASSES: xDSL
// PASSES: canonicalize
// ONE: canonicalize
// NO-PASS: mlc-opt: error: unknown pass 'canonicalise'; did you mean 'canonicalize'?
// NO-PIPELINE: mlc-opt: error: unknown pipeline 'nothing'
