// RUN: mlc-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{expected at most 1 outputs, one per buffer, but got 2}}
loop.func @f(%A: memref<4xf32>, %n: index) attributes {outputs = 2 : i64} {
}

// -----

// expected-error @+1 {{expected attributes {outputs = n}, the number of buffers that are written}}
loop.func @f(%A: memref<4xf32>) {
}

// -----

// expected-error @+1 {{expected the body's arguments to have the types of the function}}
"loop.func"() <{sym_name = "f", function_type = (memref<4xf32>) -> (), outputs = 1 : i64}> ({
^bb0(%A : memref<5xf32>):
  "loop.yield"() : () -> ()
}) : () -> ()

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  // expected-error @+1 {{expected a kind of serial, parallel, vectorized, unrolled, but got 'quick'}}
  "loop.for"() <{bounds = #te.map<"0, 4">, kind = "quick"}> ({
  ^bb0(%i : index):
    "loop.yield"() : () -> ()
  }) : () -> ()
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  // expected-error @+1 {{expected the body of loop.for to end in loop.yield}}
  "loop.for"() <{bounds = #te.map<"0, 4">, kind = "serial"}> ({
  ^bb0(%i : index):
    "te.yield"() : () -> ()
  }) : () -> ()
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %c = arith.constant 1 : i32
  // expected-error @+1 {{expected yielded values of types (i32), but got (i64)}}
  %r = loop.for %i = 0 to 4 iter_args(%a = %c) -> i32 {
    %d = arith.constant 1 : i64
    loop.yield %d : i64
  }
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %c = arith.constant 1 : i32
  // expected-error @+1 {{expected yielded values of types (i32), but got ()}}
  %r = loop.for %i = 0 to 4 iter_args(%a = %c) -> i32 {
  }
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %c = arith.constant 1 : i32
  // expected-error @+1 {{expected initial values of types (i64), but got (i32)}}
  %r = loop.for %i = 0 to 4 iter_args(%a = %c) -> i64 {
    loop.yield %a : i64
  }
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %c = arith.constant 1 : i32
  // expected-error @+1 {{expected a parallel loop to carry no values; its iterations are independent}}
  %r = loop.for %i = 0 to 4 parallel iter_args(%a = %c) -> i32 {
    loop.yield %a : i32
  }
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %c = arith.constant 1 : i32
  // expected-error @+1 {{expected 2 types, one per carried value, but got 1}}
  %r = loop.for %i = 0 to 4 iter_args(%a = %c, %b = %c) -> i32 {
    loop.yield %a : i32
  }
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  loop.for %i = 0 to 4 {
    // expected-error @+1 {{expected 2 bindings, one per axis, but got 1}}
    "loop.block"(%i) <{block_name = "b", extents = #te.map<"4, 4">, spatial = 2 : i64, bindings = #te.map<"%0">}> ({
    }, {
    ^bb0(%a : index, %b : index):
      "loop.yield"() : () -> ()
    }) : (index) -> ()
  }
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  loop.for %i = 0 to 4 {
    // expected-error @+1 {{expected at most 1 spatial axes, but got 3}}
    "loop.block"(%i) <{block_name = "b", extents = #te.map<"4">, spatial = 3 : i64, bindings = #te.map<"%0">}> ({
    }, {
    ^bb0(%a : index):
      "loop.yield"() : () -> ()
    }) : (index) -> ()
  }
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  loop.for %i = 0 to 4 {
    // expected-error @+1 {{expected one index argument per axis (1) in the block's regions}}
    "loop.block"(%i) <{block_name = "b", extents = #te.map<"4">, spatial = 1 : i64, bindings = #te.map<"%0">}> ({
    }, {
    ^bb0(%a : index, %b : index):
      "loop.yield"() : () -> ()
    }) : (index) -> ()
  }
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  loop.for %i = 0 to 4 {
    // expected-error @+1 {{expected an init region only in a block with reduction axes}}
    loop.block "b" (%v : 4 = %i) init {
    ^bb0(%v : index):
    } {
    }
  }
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  loop.for %i = 0 to 4 {
    // expected-error @+1 {{expected index operand 1, but only 1 are given}}
    "loop.block"(%i) <{block_name = "b", extents = #te.map<"4">, spatial = 1 : i64, bindings = #te.map<"%1">}> ({
    }, {
    ^bb0(%a : index):
      "loop.yield"() : () -> ()
    }) : (index) -> ()
  }
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  // expected-error @+1 {{expected a scope of local, shared, global, but got 'heap'}}
  %a = loop.alloc "heap" : memref<4xf32>
}

// -----

loop.func @f(%A: memref<4x4xf32>) attributes {outputs = 1 : i64} {
  // expected-error @+1 {{expected 2 indices, one per dimension, but got 1}}
  %a = loop.load %A[0] : f32
}

// -----

loop.func @f(%A: memref<4x4xf32>) attributes {outputs = 1 : i64} {
  // expected-error @+1 {{expected a tile with axis d2, but it has 2 axes}}
  %a = loop.load %A[d0, d2] tile (d0 : 2, d1 : 2) : vector<2x1xf32>
}

// -----

loop.func @f(%A: memref<4x4xf32>) attributes {outputs = 1 : i64} {
  // expected-error @+1 {{expected a value of type vector<2x1xf32> for this access, but got vector<2x2xf32>}}
  %a = loop.load %A[d0, 0] tile (d0 : 2, d1 : 2) : vector<2x2xf32>
}

// -----

loop.func @f(%A: memref<4xf32>) attributes {outputs = 1 : i64} {
  %z = arith.constant 0 : i32
  // expected-error @+1 {{expected a value of type f32 for this access, but got i32}}
  loop.store %z, %A[0] : i32
}

// -----

loop.func @f(%A: memref<4xf32>) attributes {outputs = 1 : i64} {
  %z = arith.constant 0 : i32
  // expected-error @+1 {{expected an else value of type f32, but got i32}}
  %a = "loop.load"(%A, %z) <{map = #te.map<"0">, mask = #te.map<"1">}> : (memref<4xf32>, i32) -> f32
}

// -----

loop.func @f(%A: memref<4xf32>) attributes {outputs = 1 : i64} {
  %z = arith.constant 0 : i32
  // expected-error @+1 {{expected index operands of type index, but got i32}}
  %a = "loop.load"(%A, %z) <{map = #te.map<"%0">}> : (memref<4xf32>, i32) -> f32
}

// -----

loop.func @f(%A: memref<4xf32>) attributes {outputs = 1 : i64} {
  // expected-error @+1 {{expected tile axis d0, but got 'd1'}}
  %a = loop.load %A[d0] tile (d1 : 2) : vector<2xf32>
}

// -----

loop.func @f(%A: memref<4xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 2 {
    // expected-error @+1 {{expected an integer factor, but got a product of two indices}}
    %a = loop.load %A[%i * %i] : f32
  }
}

// -----

loop.func @f(%A: memref<4xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 2 {
    // expected-error @+1 {{expected a positive divisor, but got 0}}
    %a = loop.load %A[%i mod 0] : f32
  }
}

// -----

loop.func @f(%A: memref<4xf32>) attributes {outputs = 1 : i64} {
  // expected-error @+1 {{expected an index expression, but got 'x'}}
  %a = loop.load %A[x] : f32
}

// -----

loop.func @f(%A: memref<4xf32>) attributes {outputs = 1 : i64} {
  // expected-error @+1 {{expected index expressions, but got '%0 * %1'}}
  %a = "loop.load"(%A) <{map = #te.map<"%0 * %1">}> : (memref<4xf32>) -> f32
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  // expected-error @+1 {{expected a result of type vector<4xindex>, but got index}}
  %i = loop.index d0 tile (d0 : 4) : index
}

// -----

loop.func @f(%A: memref<4xf32>) attributes {outputs = 1 : i64} {
  %z = arith.constant 0 : index
  // expected-error @+1 {{expected a vector of index to gather by, but got index}}
  %g = loop.gather %A[0] by %z at 0 tile (d0 : 4) : vector<4xf32>
}

// -----

loop.func @f(%A: memref<4xf32>) attributes {outputs = 1 : i64} {
  %z = loop.index d0 tile (d0 : 4) : vector<4xindex>
  // expected-error @+1 {{expected a dimension below 1, but got 1}}
  %g = loop.gather %A[0] by %z at 1 tile (d0 : 4) : vector<4xf32>
}

// -----

loop.func @f(%A: memref<4xf32>) attributes {outputs = 1 : i64} {
  %z = loop.index d0 tile (d0 : 4) : vector<4xindex>
  // expected-error @+1 {{expected indices that broadcast with the tile (2,), but got vector<4xindex>}}
  %g = loop.gather %A[d0] by %z at 0 tile (d0 : 2) : vector<2xf32>
}

// -----

loop.func @f(%A: memref<4xf32>) attributes {outputs = 1 : i64} {
  %z = loop.index d0 tile (d0 : 4) : vector<4xindex>
  // expected-error @+1 {{expected a result of type vector<4xf32>, but got vector<2xf32>}}
  %g = loop.gather %A[0] by %z at 0 tile (d0 : 4) : vector<2xf32>
}

// -----

loop.func @f(%A: memref<4xf32>) attributes {outputs = 1 : i64} {
  %z = loop.index d0 tile (d0 : 4) : vector<4xindex>
  // expected-error @+1 {{expected the tile of the gather}}
  %g = loop.gather %A[0] by %z at 0 : vector<4xf32>
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = arith.constant dense<1.0> : vector<4xf32>
  %b = arith.constant dense<1.0> : vector<2xf32>
  // expected-error @+1 {{expected a factor that broadcasts to vector<4xf32>, but got vector<2xf32>}}
  %n = loop.fma %a, %b, %a : vector<4xf32>, vector<2xf32>, vector<4xf32>
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = arith.constant 1.0 : f32
  %b = arith.constant 1.0 : f64
  // expected-error @+1 {{expected an addend of type f32, but got f64}}
  %n = "loop.fma"(%a, %a, %b) : (f32, f32, f64) -> f32
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = arith.constant 1.0 : f32
  // expected-error @+1 {{expected three operands and their three types}}
  %n = loop.fma %a, %a, %a : f32
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = arith.constant dense<1.0> : vector<2xf32>
  // expected-error @+1 {{expected a value that broadcasts to vector<4xf32>, but got vector<2xf32>}}
  %b = loop.broadcast %a : vector<2xf32> to vector<4xf32>
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = arith.constant dense<1.0> : vector<2xf32>
  // expected-error @+1 {{expected a combiner of sum, prod, max, min, but got 'mean'}}
  %b = loop.reduce mean %a axes [0] : vector<2xf32> to vector<1xf32>
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = arith.constant dense<1.0> : vector<2xf32>
  // expected-error @+1 {{expected axes below 1, the rank of the tile, but got [1]}}
  %b = loop.reduce sum %a axes [1] : vector<2xf32> to vector<2xf32>
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = arith.constant dense<1.0> : vector<2x3xf32>
  // expected-error @+1 {{expected a result of type vector<2x1xf32>, but got vector<2xf32>}}
  %b = loop.reduce sum %a axes [1] : vector<2x3xf32> to vector<2xf32>
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = arith.constant 1.0 : f32
  // expected-error @+1 {{expected a predicate of oeq, one, olt, ole, ogt, oge, une, eq, ne, slt, sle, sgt, sge, ult, ule, ugt, uge, but got 'lt'}}
  %b = loop.compare lt %a, %a : f32
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = arith.constant 1.0 : f32
  %c = arith.constant 1.0 : f64
  // expected-error @+1 {{expected operands of one type, but got f32 and f64}}
  %b = "loop.compare"(%a, %c) <{predicate = "olt"}> : (f32, f64) -> i1
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = arith.constant 1.0 : f32
  // expected-error @+1 {{expected a result of type i1, but got f32}}
  %b = "loop.compare"(%a, %a) <{predicate = "olt"}> : (f32, f32) -> f32
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = arith.constant 1.0 : f32
  // expected-error @+1 {{expected two operands, but got 1}}
  %b = loop.compare olt %a : f32
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = arith.constant dense<1.0> : vector<1x4xf32>
  %b = arith.constant dense<1.0> : vector<1x4xf64>
  // expected-error @+1 {{expected operands of one type, but got vector<1x4xf32> and vector<1x4xf64>}}
  %c = "loop.concat"(%a, %b) <{axis = 0 : i64}> : (vector<1x4xf32>, vector<1x4xf64>) -> vector<2x4xf32>
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = arith.constant dense<1.0> : vector<1x4xf32>
  // expected-error @+1 {{expected an axis below 2, the rank of the tiles, but got 2}}
  %c = loop.concat %a, %a axis 2 : vector<1x4xf32> to vector<2x4xf32>
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = arith.constant dense<1.0> : vector<1x4xf32>
  // expected-error @+1 {{expected tiles of size 1 along axis 1, but got vector<1x4xf32>}}
  %c = loop.concat %a, %a axis 1 : vector<1x4xf32> to vector<1x8xf32>
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = arith.constant dense<1.0> : vector<1x4xf32>
  // expected-error @+1 {{expected a result of type vector<2x4xf32>, but got vector<3x4xf32>}}
  %c = loop.concat %a, %a axis 0 : vector<1x4xf32> to vector<3x4xf32>
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = arith.constant dense<1.0> : vector<3x4xf32>
  // expected-error @+1 {{expected an axis in front of the last of 2, but got 1}}
  %c = loop.slice %a axis 1 at 0 : vector<3x4xf32> to vector<3x1xf32>
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = arith.constant dense<1.0> : vector<3x4xf32>
  // expected-error @+1 {{expected a place below 3, the size of axis 0, but got 3}}
  %c = loop.slice %a axis 0 at 3 : vector<3x4xf32> to vector<1x4xf32>
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = arith.constant dense<1.0> : vector<3x4xf32>
  // expected-error @+1 {{expected a result of type vector<1x4xf32>, but got vector<2x4xf32>}}
  %c = loop.slice %a axis 0 at 1 : vector<3x4xf32> to vector<2x4xf32>
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = arith.constant 1.0 : f32
  %c = arith.constant 1.0 : f64
  %m = arith.constant true
  // expected-error @+1 {{expected operands of one type, but got f32 and f64}}
  %b = "loop.select"(%m, %a, %c) : (i1, f32, f64) -> f32
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = arith.constant 1.0 : f32
  // expected-error @+1 {{expected a condition of type i1, but got f32}}
  %b = loop.select %a, %a, %a : f32, f32
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = arith.constant 1.0 : f32
  // expected-error @+1 {{expected three operands and the types of the condition and of the values}}
  %b = loop.select %a, %a : f32, f32
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = arith.constant 1.0 : f32
  // expected-error @+1 {{expected a cast of sitofp, uitofp, fptosi, fptoui, extf, truncf, extsi, extui, trunci, index_cast, bitcast, but got 'round'}}
  %b = loop.cast round %a : f32 to i32
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = arith.constant 1.0 : f32
  // expected-error @+1 {{expected one shape, but got f32 and vector<4xi32>}}
  %b = loop.cast fptosi %a : f32 to vector<4xi32>
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = "test.op"() : () -> vector<4x1x2xbf16>
  %b = "test.op"() : () -> vector<1x16x2xbf16>
  %c = "test.op"() : () -> vector<4x16xf32>
  // expected-error @+1 {{expected unsigned factors to be integers, but got bf16}}
  %n = loop.contract %a unsigned, %b, %c : vector<4x1x2xbf16>, vector<1x16x2xbf16>, vector<4x16xf32>
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = "test.op"() : () -> vector<4x1x2xi16>
  %b = "test.op"() : () -> vector<1x16x2xi16>
  %c = "test.op"() : () -> vector<4x16xi32>
  // expected-error @+1 {{expected narrow factors to be of i8, but got i16}}
  %n = loop.contract %a, %b narrow, %c : vector<4x1x2xi16>, vector<1x16x2xi16>, vector<4x16xi32>
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = "test.op"() : () -> vector<4x1x4xi8>
  %b = "test.op"() : () -> vector<1x16x4xi8>
  %c = "test.op"() : () -> vector<4x16xi32>
  // expected-error @+1 {{expected a factor to be unsigned or narrow, but got one that is both}}
  %n = loop.contract %a unsigned narrow, %b, %c : vector<4x1x4xi8>, vector<1x16x4xi8>, vector<4x16xi32>
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = "test.op"() : () -> vector<4x1x2xbf16>
  %b = "test.op"() : () -> vector<1x16x2xf16>
  %c = "test.op"() : () -> vector<4x16xf32>
  // expected-error @+1 {{expected factors of one element type, but got vector<4x1x2xbf16> and vector<1x16x2xf16>}}
  %n = loop.contract %a, %b, %c : vector<4x1x2xbf16>, vector<1x16x2xf16>, vector<4x16xf32>
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = "test.op"() : () -> vector<4x1x2xf32>
  %b = "test.op"() : () -> vector<1x16x2xf32>
  %c = "test.op"() : () -> vector<4x16xf32>
  // expected-error @+1 {{expected factors of bf16 or f16 for sums of f32, or of i8 or i16 for sums of i32, but got f32 for f32}}
  %n = loop.contract %a, %b, %c : vector<4x1x2xf32>, vector<1x16x2xf32>, vector<4x16xf32>
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = "test.op"() : () -> vector<4x1x2xbf16>
  %b = "test.op"() : () -> vector<1x16x2xbf16>
  %c = "test.op"() : () -> vector<4x16xf64>
  // expected-error @+1 {{expected factors of bf16 or f16 for sums of f32, or of i8 or i16 for sums of i32, but got bf16 for f64}}
  %n = loop.contract %a, %b, %c : vector<4x1x2xbf16>, vector<1x16x2xbf16>, vector<4x16xf64>
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = "test.op"() : () -> vector<4x1x4xbf16>
  %b = "test.op"() : () -> vector<1x16x2xbf16>
  %c = "test.op"() : () -> vector<4x16xf32>
  // expected-error @+1 {{expected a factor that broadcasts to 4x16x2, but got vector<4x1x4xbf16>}}
  %n = loop.contract %a, %b, %c : vector<4x1x4xbf16>, vector<1x16x2xbf16>, vector<4x16xf32>
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = "test.op"() : () -> vector<4x1x2xbf16>
  %b = "test.op"() : () -> vector<2x16x2xbf16>
  %c = "test.op"() : () -> vector<4x16xf32>
  // expected-error @+1 {{expected a factor that broadcasts to 4x16x2, but got vector<2x16x2xbf16>}}
  %n = loop.contract %a, %b, %c : vector<4x1x2xbf16>, vector<2x16x2xbf16>, vector<4x16xf32>
}

// -----

loop.func @f() attributes {outputs = 0 : i64} {
  %a = arith.constant 1.0 : f32
  // expected-error @+1 {{expected three operands and their three types}}
  %b = loop.contract %a, %a : f32, f32
}

// -----

loop.func @load_at_a_constant(%A: memref<64xf32>) attributes {outputs = 1 : i64} {
  // expected-error @+1 {{expected an index in 0..63 on axis 0 of memref<64xf32>, but it is 64}}
  %a = loop.load %A[64] : f32
}

// -----

loop.func @store_before_the_start(%A: memref<64xf32>, %x: index) attributes {outputs = 1 : i64} {
  %f = arith.constant 1.0 : f32
  loop.for %i = 0 to %x {
    // expected-error @+1 {{expected an index in 0..63 on axis 0 of memref<64xf32>, but it is -1}}
    loop.store %f, %A[-1] : f32
  }
}

// -----

loop.func @load_behind_the_end(%A: memref<64x8xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 64 parallel {
    loop.for %j = 1 to 8 {
      // expected-error @+1 {{expected an index in 0..7 on axis 1 of memref<64x8xf32>, but it spans 2..8}}
      %a = loop.load %A[%i, %j + 1] : f32
    }
  }
}

// -----

loop.func @store_a_tile(%A: memref<?x30xf32>) attributes {outputs = 1 : i64} {
  %v = arith.constant dense<0.0> : vector<16xf32>
  loop.for %j = 0 to 2 {
    // expected-error @+1 {{expected an index in 0..29 on axis 1 of memref<?x30xf32>, but it spans 0..31}}
    loop.store %v, %A[0, %j * 16 + d0] tile (d0 : 16) : vector<16xf32>
  }
}

// -----

loop.func @axis_of_a_block(%A: memref<?xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 4 {
    loop.block "b" (%v : 4 = %i) {
      // expected-error @+1 {{expected an index of at least 0 on axis 0 of memref<?xf32>, but it spans -1..2}}
      %a = loop.load %A[%v - 1] : f32
    }
  }
}

// -----

loop.func @call(%x: memref<4xf32>) attributes {outputs = 1 : i64} {
  // expected-error @below {{expected at most 1 outputs, but got 2}}
  loop.call registered "f" (%x) outputs 2 : memref<4xf32>
}

// -----

loop.func @intrinsic(%x: memref<8xf32>) attributes {outputs = 1 : i64} {
  %0 = loop.load %x[d0] tile (d0 : 8) : vector<8xf32>
  // expected-error@+1 {{expected an operand whose elements fill vector<12xf32>, but got vector<8xf32>}}
  %1 = loop.intrinsic "llvm.fabs.v12f32" requires [] %0 : vector<8xf32> as vector<12xf32> {
  ^bb0(%a : vector<8xf32>):
    loop.yield %a : vector<8xf32>
  }
  loop.store %1, %x[d0] tile (d0 : 8) : vector<8xf32>
}
