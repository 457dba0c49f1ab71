// RUN: mlc-opt %s --pass-pipeline=convert-te-to-loop --split-input-file --verify-diagnostics

te.func @other(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = te.compute "y" (%i : 8) {
    %0 = te.read %x[%i] : f32
    // expected-error @below {{expected te.read, te.index, and ops of arith and math in a stage, but got}}
    %1 = builtin.unrealized_conversion_cast %0 : f32 to f32
    te.yield %1 : f32
  } : tensor<8xf32>
  te.return %y : tensor<8xf32>
}

// -----

te.func @unordered(%x: tensor<8xf32>) -> tensor<8xi1> {
  %y = te.compute "y" (%i : 8) {
    %0 = te.read %x[%i] : f32
    // expected-error @below {{expected a predicate of oeq, one, olt}}
    %1 = arith.cmpf ueq, %0, %0 : f32
    te.yield %1 : i1
  } : tensor<8xi1>
  te.return %y : tensor<8xi1>
}
