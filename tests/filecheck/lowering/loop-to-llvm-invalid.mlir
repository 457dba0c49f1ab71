// RUN: mlc-opt %s --split-input-file --verify-diagnostics --pass-pipeline=convert-loop-to-llvm

loop.func @device_axis(%x: memref<8xf32>, %y: memref<8xf32>) attributes {outputs = 1 : i64} {
  // expected-error @below {{is bound to the GPU axis 'blockIdx.x', which a CPU does not have; use sched.parallel, not}}
  loop.for %i = 0 to 8 bind "blockIdx.x" {
    %0 = loop.load %x[%i] : f32
    loop.store %0, %y[%i] : f32
  }
}

// -----

loop.func @other_dialect(%x: memref<8xf32>, %y: memref<8xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 8 {
    // expected-error @below {{cannot be lowered: convert-loop-to-llvm expects ops of loop, arith and math}}
    %0 = memref.alloc() : memref<8xf32>
  }
}
