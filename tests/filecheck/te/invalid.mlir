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

// -----

te.func @undefined() -> tensor<4xf32> {
  %y = te.compute "y" (%i : 4) {
    // expected-error @below {{expected an operand that is defined above, but got %x}}
    %0 = te.read %x[%i] : f32
    te.yield %0 : f32
  } : tensor<4xf32>
  te.return %y : tensor<4xf32>
}

// -----

te.func @tile_axis(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = te.compute "y" (%i : 4) {
    // expected-error @below {{expected a tile with axis d0, but it has 0 axes}}
    %0 = te.read %x[d0] : f32
    te.yield %0 : f32
  } : tensor<4xf32>
  te.return %y : tensor<4xf32>
}

// -----

te.func @word(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = te.compute "y" (%i : 4) {
    // expected-error @below {{expected an index expression, but got 'i'}}
    %0 = te.read %x[i] : f32
    te.yield %0 : f32
  } : tensor<4xf32>
  te.return %y : tensor<4xf32>
}

// -----

te.func @divisor(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = te.compute "y" (%i : 4) {
    // expected-error @below {{expected a positive divisor, but got 0}}
    %0 = te.read %x[%i floordiv 0] : f32
    te.yield %0 : f32
  } : tensor<4xf32>
  te.return %y : tensor<4xf32>
}

// -----

te.func @read_type(%x: tensor<4xf32>) -> tensor<4xf64> {
  %y = te.compute "y" (%i : 4) {
    // expected-error @below {{expected a result of type f32, but got f64}}
    %0 = te.read %x[%i] : f64
    te.yield %0 : f64
  } : tensor<4xf64>
  te.return %y : tensor<4xf64>
}

// -----

te.func @index_number(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = te.compute "y" (%i : 4) {
    // expected-error @below {{expected index operand 1, but only 1 are given}}
    %0 = "te.read"(%x, %i) <{map = #te.map<"%1">}> : (tensor<4xf32>, index) -> f32
    te.yield %0 : f32
  } : tensor<4xf32>
  te.return %y : tensor<4xf32>
}

// -----

te.func @index_type(%x: tensor<4xf32>, %n: i64) -> tensor<4xf32> {
  %y = te.compute "y" (%i : 4) {
    // expected-error @below {{expected index operands of type index, but got i64}}
    %0 = "te.read"(%x, %n) <{map = #te.map<"%0">}> : (tensor<4xf32>, i64) -> f32
    te.yield %0 : f32
  } : tensor<4xf32>
  te.return %y : tensor<4xf32>
}

// -----

te.func @else_type(%x: tensor<4xf32>, %z: f64) -> tensor<4xf32> {
  %y = te.compute "y" (%i : 4) {
    // expected-error @below {{expected an else value of type f32, but got f64}}
    %0 = "te.read"(%x, %i, %z) <{map = #te.map<"%0">, mask = #te.map<"%0 - 1">}> : (tensor<4xf32>, index, f64) -> f32
    te.yield %0 : f32
  } : tensor<4xf32>
  te.return %y : tensor<4xf32>
}

// -----

te.func @two_expressions(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = te.compute "y" (%i : 4) {
    // expected-error @below {{expected one index expression, but got 2}}
    %n = "te.index"(%i) <{map = #te.map<"%0, %0">}> : (index) -> index
    %0 = te.read %x[%n] : f32
    te.yield %0 : f32
  } : tensor<4xf32>
  te.return %y : tensor<4xf32>
}

// -----

te.func @yielded(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected te.yield of 1 values, but got 2}}
  %y = te.compute "y" (%i : 4) {
    %0 = te.read %x[%i] : f32
    te.yield %0, %0 : f32, f32
  } : tensor<4xf32>
  te.return %y : tensor<4xf32>
}

// -----

te.func @nothing_to_combine(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected a combiner exactly where there are reduction axes: sum, prod, max, min, argmax, argmin}}
  %y = te.compute "y" (%i : 4) reduce () sum {
    %0 = te.read %x[%i] : f32
    te.yield %0 : f32
  } : tensor<4xf32>
  te.return %y : tensor<4xf32>
}

// -----

te.func @no_yield(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected the body of te.compute to end in te.yield}}
  %y = te.compute "y" (%i : 4) {
    %0 = te.read %x[%i] : f32
    te.return %x : tensor<4xf32>
  } : tensor<4xf32>
  te.return %y : tensor<4xf32>
}

// -----

te.func @axes(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected one body argument per axis, but got 2 for 1 axes}}
  %y = "te.compute"() <{stage = "y", extents = #te.map<"4">, spatial = 1 : i64}> ({
  ^bb0(%i: index, %j: index):
    %0 = te.read %x[%i] : f32
    te.yield %0 : f32
  }) : () -> tensor<4xf32>
  te.return %y : tensor<4xf32>
}

// -----

// expected-error @below {{expected the body of te.func to end in te.return}}
te.func @no_return(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = te.compute "y" (%i : 4) {
    %0 = te.read %x[%i] : f32
    te.yield %0 : f32
  } : tensor<4xf32>
  te.yield %y : tensor<4xf32>
}

// -----

// expected-error @below {{expected the body's arguments to have the operand types of the function}}
"te.func"() <{sym_name = "arguments", function_type = (tensor<4xf32>) -> tensor<5xf32>}> ({
^bb0(%x: tensor<5xf32>):
  te.return %x : tensor<5xf32>
}) : () -> ()

// -----

te.func @out_of_bounds(%x: tensor<4xf32>) -> tensor<5xf32> {
  %y = te.compute "y" (%i : 5) {
    // expected-error@+1 {{expected an index in 0..3 on axis 0 of tensor<4xf32>, but it spans 0..4; give it a mask}}
    %0 = te.read %x[%i] : f32
    te.yield %0 : f32
  } : tensor<5xf32>
  te.return %y : tensor<5xf32>
}

// -----

te.func @neither(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected the body's arguments to be the buffers of the inputs and of the results}}
  %y = te.extern "y" (%x) {
  ^bb0(%a: memref<4xf32>):
    loop.yield
  } : (tensor<4xf32>) -> tensor<4xf32>
  te.return %y : tensor<4xf32>
}

// -----

te.func @argument(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected the number of a buffer in 0..1 as argument, but got 2}}
  %y = te.extern "y" (%x) c "f" [2 : index] : (tensor<4xf32>) -> tensor<4xf32>
  te.return %y : tensor<4xf32>
}

// -----

te.func @open(%x: tensor<?xf32>, %n: index) -> tensor<?xf32> attributes {sizes = [#te.map<"%0">, #te.map<"%0">]} {
  // expected-error @below {{expected 2 sizes, one for each ? of the types, but got 1}}
  %y = te.extern "y" (%x) sizes (%n) registered "f" : (tensor<?xf32>) -> tensor<?xf32>
  te.return %y : tensor<?xf32>
}

// -----

te.func @size(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected the number of one of 0 sizes, but got 0}}
  %y = te.extern "y" (%x) c "f" [#loop.size<0, i32>] : (tensor<4xf32>) -> tensor<4xf32>
  te.return %y : tensor<4xf32>
}

// -----

te.func @name(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected the callee's name to be an identifier, but got 'my f'}}
  %y = te.extern "y" (%x) registered "my f" : (tensor<4xf32>) -> tensor<4xf32>
  te.return %y : tensor<4xf32>
}
