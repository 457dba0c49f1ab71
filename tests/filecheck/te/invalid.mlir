// RUN: mlc-opt %s --split-input-file --verify-diagnostics

te.func @rank(%x: tensor<4x5xf32>) -> tensor<4xf32> {
  %y = te.compute "y" (%i : 4) {
    // expected-error @below {{expected 2 indices, one per dimension, but got 1}}
    %0 = te.read %x[%i] : f32
    te.yield %0 : f32
  } : tensor<4xf32>
  te.return %y : tensor<4xf32>
}

// -----

te.func @shape(%x: tensor<4xf32>) -> tensor<5xf32> {
  // expected-error @below {{expected a result of shape 4 as the spatial axes say, but got tensor<5xf32>}}
  %y = te.compute "y" (%i : 4) {
    %0 = te.read %x[%i] : f32
    te.yield %0 : f32
  } : tensor<5xf32>
  te.return %y : tensor<5xf32>
}

// -----

te.func @combiner(%x: tensor<4xf32>) -> tensor<f32> {
  // expected-error @below {{expected a combiner of sum, prod, max, min, argmax, argmin, but got 'mean'}}
  %y = te.compute "y" () reduce (%k : 4) mean {
    %0 = te.read %x[%k] : f32
    te.yield %0 : f32
  } : tensor<f32>
  te.return %y : tensor<f32>
}

// -----

te.func @pair(%x: tensor<4xf32>) -> tensor<f32> {
  // expected-error @below {{expected two results for argmax and argmin and one for the others, of 'argmax'}}
  %y = te.compute "y" () reduce (%k : 4) argmax {
    %0 = te.read %x[%k] : f32
    te.yield %0 : f32
  } : tensor<f32>
  te.return %y : tensor<f32>
}

// -----

te.func @element(%x: tensor<4xf32>) -> tensor<4xi32> {
  // expected-error @below {{expected te.yield of type i32, but got f32}}
  %y = te.compute "y" (%i : 4) {
    %0 = te.read %x[%i] : f32
    te.yield %0 : f32
  } : tensor<4xi32>
  te.return %y : tensor<4xi32>
}

// -----

// expected-error @below {{expected te.return of types (tensor<5xf32>), but got (tensor<4xf32>)}}
te.func @returned(%x: tensor<4xf32>) -> tensor<5xf32> {
  te.return %x : tensor<4xf32>
}

// -----

te.func @product(%x: tensor<4xf32>) -> tensor<2x2xf32> {
  %y = te.compute "y" (%i : 2, %j : 2) {
    // expected-error @below {{expected an integer factor, but got a product of two indices}}
    %0 = te.read %x[%i * %j] : f32
    te.yield %0 : f32
  } : tensor<2x2xf32>
  te.return %y : tensor<2x2xf32>
}
