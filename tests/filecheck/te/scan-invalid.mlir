// RUN: mlc-opt %s --split-input-file --verify-diagnostics

te.func @back(%x: tensor<1x4xf32>) -> tensor<8x4xf32> {
  // expected-error @below {{expected 'u' to read a state 1 to 1 steps back, or at a step that a condition on indices proves to be earlier, but got index %t}}
  %s = te.scan "s" (%h = %x) steps 8 : tensor<8x4xf32> {
    %u = te.compute "u" (%t : 8, %i : 4) {
      %0 = te.read %h[%t, %i] : f32
      te.yield %0 : f32
    } : tensor<8x4xf32>
    te.yield %u : tensor<8x4xf32>
  }
  te.return %s : tensor<8x4xf32>
}

// -----

te.func @own_step(%x: tensor<1x4xf32>) -> tensor<8x4xf32> {
  // expected-error @below {{expected 'u' to read 'p' at its own step}}
  %s = te.scan "s" (%h = %x) steps 8 : tensor<8x4xf32> {
    %p = te.compute "p" (%t : 8, %i : 4) {
      %0 = te.read %h[%t - 1, %i] : f32
      te.yield %0 : f32
    } : tensor<8x4xf32>
    %u = te.compute "u" (%t : 8, %i : 4) {
      %0 = te.read %p[%t - 1, %i] : f32
      te.yield %0 : f32
    } : tensor<8x4xf32>
    te.yield %u : tensor<8x4xf32>
  }
  te.return %s : tensor<8x4xf32>
}

// -----

te.func @steps(%x: tensor<1x4xf32>) -> tensor<8x4xf32> {
  // expected-error @below {{expected states of 7 steps, but got tensor<8x4xf32>}}
  %s = te.scan "s" (%h = %x) steps 7 : tensor<8x4xf32> {
    %u = te.compute "u" (%t : 8, %i : 4) {
      %0 = te.read %h[%t - 1, %i] : f32
      te.yield %0 : f32
    } : tensor<8x4xf32>
    te.yield %u : tensor<8x4xf32>
  }
  te.return %s : tensor<8x4xf32>
}

// -----

te.func @init(%x: tensor<1x5xf32>) -> tensor<8x4xf32> {
  // expected-error @below {{expected an init of the shape of tensor<8x4xf32> but for its first axis, but got tensor<1x5xf32>}}
  %s = te.scan "s" (%h = %x) steps 8 : tensor<8x4xf32> {
    %u = te.compute "u" (%t : 8, %i : 4) {
      %0 = te.read %h[%t - 1, %i] : f32
      te.yield %0 : f32
    } : tensor<8x4xf32>
    te.yield %u : tensor<8x4xf32>
  }
  te.return %s : tensor<8x4xf32>
}

// -----

te.func @yielded(%x: tensor<1x4xf32>) -> tensor<8x4xf32> {
  // expected-error @below {{expected te.scan to yield a stage of its own for each state}}
  %s = te.scan "s" (%h = %x) steps 8 : tensor<8x4xf32> {
    te.yield %h : tensor<8x4xf32>
  }
  te.return %s : tensor<8x4xf32>
}

// -----

te.func @reducer(%x: tensor<8xf32>) -> tensor<f32> {
  // expected-error @below {{expected the reducer to end in te.yield of types (f32)}}
  %y = te.compute "y" () reduce (%k : 8) combine "r" (%a : f32, %b : f32) from (0.0 : f32) {
    %c = arith.cmpf olt, %a, %b : f32
    te.yield %c : i1
  } {
    %0 = te.read %x[%k] : f32
    te.yield %0 : f32
  } : tensor<f32>
  te.return %y : tensor<f32>
}

// -----

te.func @identity(%x: tensor<8xf32>) -> tensor<f32> {
  // expected-error @below {{expected neutral elements of types (f32), but got (i32)}}
  %y = te.compute "y" () reduce (%k : 8) combine "r" (%a : f32, %b : f32) from (0 : i32) {
    %c = arith.addf %a, %b : f32
    te.yield %c : f32
  } {
    %0 = te.read %x[%k] : f32
    te.yield %0 : f32
  } : tensor<f32>
  te.return %y : tensor<f32>
}

// -----

te.func @table() -> tensor<2xf32> {
  // expected-error @below {{expected dense numbers, `dense<[1.0, 2.0]> : tensor<2xf32>`, but got 3 : i64}}
  %t = te.table 3
  te.return %t : tensor<2xf32>
}
