// RUN: mlc-opt %s -p 'te-clip-bands{target=x86-64-v4}' | filecheck %s
// RUN: mlc-opt %s -p 'te-clip-bands{target=x86-64-v4}' --validate-each | filecheck %s --check-prefix=VALID
// RUN: mlc-opt %s -p 'te-clip-bands{target=x86-64-v4},te-add-schedule{target=x86-64-v4},convert-te-to-loop,loop-apply-schedule,loop-tiles' | filecheck %s --check-prefix=LOOP

// Maxima and sums read the blocks of keys that a block of queries may see; the scores stay masked one by one.
// CHECK-LABEL: te.func @causal
// CHECK:         te.compute "max"
// CHECK:           te.read %add[%{{.*}}] mask (-(%k_1 floordiv 56) + {{.*}} floordiv 7{{.*}}) else %{{.*}} : f32
// CHECK:         te.compute "exp"
// CHECK-NOT:       mask
// CHECK:         te.compute "sum"
// CHECK:           te.read %exp[%{{.*}}] mask
// CHECK:         te.compute "mix"
// CHECK:           te.read %exp[%{{.*}}] mask
// CHECK:           te.read %v[%{{[a-z0-9_]+, %[a-z0-9_]+}}] : f32
// VALID:       te.func @causal(%q: tensor<160x8xf32>, %key: tensor<160x8xf32>, %v: tensor<160x16xf32>) -> tensor<160x16xf32> {
// The masks have become bounds of the loops over keys, of the scores' as well.
// LOOP-LABEL: loop.func @causal
// LOOP:         loop.for %i_o = 0 to
// LOOP:           loop.for %j_o = 0 to {{.*}}%i_o
// LOOP:             loop.for %k = 0 to 8
// LOOP:           loop.for %{{.*}} = 0 to {{.*}}%i_o
// LOOP-NOT:     mask
// LOOP:         loop.yield
te.func @causal(%q: tensor<160x8xf32>, %key: tensor<160x8xf32>, %v: tensor<160x16xf32>) -> tensor<160x16xf32> {
  %s = te.compute "scores" (%i : 160, %j : 160) reduce (%k : 8) sum {
    %0 = te.read %q[%i, %k] : f32
    %1 = te.read %key[%j, %k] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<160x160xf32>
  %add = te.compute "add" (%i : 160, %j : 160) {
    %0 = te.read %s[%i, %j] : f32
    %1 = te.index %j - %i
    %2 = arith.index_cast %1 : index to i32
    %3 = arith.constant 0.0 : f32
    %4 = arith.constant -1.0e+09 : f32
    %5 = arith.constant 0 : i32
    %6 = arith.cmpi sle, %2, %5 : i32
    %7 = arith.select %6, %3, %4 : f32
    %8 = arith.addf %0, %7 : f32
    te.yield %8 : f32
  } : tensor<160x160xf32>
  %max = te.compute "max" (%i : 160) reduce (%k : 160) max {
    %0 = te.read %add[%i, %k] : f32
    te.yield %0 : f32
  } : tensor<160xf32>
  %exp = te.compute "exp" (%i : 160, %j : 160) {
    %0 = te.read %add[%i, %j] : f32
    %1 = te.read %max[%i] : f32
    %2 = arith.subf %0, %1 : f32
    %3 = math.exp %2 : f32
    te.yield %3 : f32
  } : tensor<160x160xf32>
  %sum = te.compute "sum" (%i : 160) reduce (%k : 160) sum {
    %0 = te.read %exp[%i, %k] : f32
    te.yield %0 : f32
  } : tensor<160xf32>
  %mix = te.compute "mix" (%i : 160, %d : 16) reduce (%k : 160) sum {
    %0 = te.read %exp[%i, %k] : f32
    %1 = te.read %v[%k, %d] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<160x16xf32>
  %out = te.compute "out" (%i : 160, %d : 16) {
    %0 = te.read %mix[%i, %d] : f32
    %1 = te.read %sum[%i] : f32
    %2 = arith.divf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<160x16xf32>
  te.return %out : tensor<160x16xf32>
}

// With a second mask a query might see no key of its band.
// CHECK-LABEL: te.func @padded
// CHECK-NOT:     mask
te.func @padded(%q: tensor<160x8xf32>, %key: tensor<160x8xf32>, %v: tensor<160x16xf32>, %pad: tensor<160xf32>) -> tensor<160x16xf32> {
  %s = te.compute "scores" (%i : 160, %j : 160) reduce (%k : 8) sum {
    %0 = te.read %q[%i, %k] : f32
    %1 = te.read %key[%j, %k] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<160x160xf32>
  %add = te.compute "add" (%i : 160, %j : 160) {
    %0 = te.read %s[%i, %j] : f32
    %1 = te.index %j - %i
    %2 = arith.index_cast %1 : index to i32
    %3 = arith.constant 0.0 : f32
    %4 = arith.constant -1.0e+09 : f32
    %5 = arith.constant 0 : i32
    %6 = arith.cmpi sle, %2, %5 : i32
    %7 = arith.select %6, %3, %4 : f32
    %8 = arith.addf %0, %7 : f32
    %9 = te.read %pad[%j] : f32
    %10 = arith.addf %8, %9 : f32
    te.yield %10 : f32
  } : tensor<160x160xf32>
  %max = te.compute "max" (%i : 160) reduce (%k : 160) max {
    %0 = te.read %add[%i, %k] : f32
    te.yield %0 : f32
  } : tensor<160xf32>
  %exp = te.compute "exp" (%i : 160, %j : 160) {
    %0 = te.read %add[%i, %j] : f32
    %1 = te.read %max[%i] : f32
    %2 = arith.subf %0, %1 : f32
    %3 = math.exp %2 : f32
    te.yield %3 : f32
  } : tensor<160x160xf32>
  %sum = te.compute "sum" (%i : 160) reduce (%k : 160) sum {
    %0 = te.read %exp[%i, %k] : f32
    te.yield %0 : f32
  } : tensor<160xf32>
  %mix = te.compute "mix" (%i : 160, %d : 16) reduce (%k : 160) sum {
    %0 = te.read %exp[%i, %k] : f32
    %1 = te.read %v[%k, %d] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<160x16xf32>
  %out = te.compute "out" (%i : 160, %d : 16) {
    %0 = te.read %mix[%i, %d] : f32
    %1 = te.read %sum[%i] : f32
    %2 = arith.divf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<160x16xf32>
  te.return %out : tensor<160x16xf32>
}

// The first query sees no key: it takes the mean of all values.
// CHECK-LABEL: te.func @no_key
// CHECK-NOT:     mask
te.func @no_key(%q: tensor<160x8xf32>, %key: tensor<160x8xf32>, %v: tensor<160x16xf32>) -> tensor<160x16xf32> {
  %s = te.compute "scores" (%i : 160, %j : 160) reduce (%k : 8) sum {
    %0 = te.read %q[%i, %k] : f32
    %1 = te.read %key[%j, %k] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<160x160xf32>
  %add = te.compute "add" (%i : 160, %j : 160) {
    %0 = te.read %s[%i, %j] : f32
    %1 = te.index %j - %i
    %2 = arith.index_cast %1 : index to i32
    %3 = arith.constant 0.0 : f32
    %4 = arith.constant -1.0e+09 : f32
    %5 = arith.constant -1 : i32
    %6 = arith.cmpi sle, %2, %5 : i32
    %7 = arith.select %6, %3, %4 : f32
    %8 = arith.addf %0, %7 : f32
    te.yield %8 : f32
  } : tensor<160x160xf32>
  %max = te.compute "max" (%i : 160) reduce (%k : 160) max {
    %0 = te.read %add[%i, %k] : f32
    te.yield %0 : f32
  } : tensor<160xf32>
  %exp = te.compute "exp" (%i : 160, %j : 160) {
    %0 = te.read %add[%i, %j] : f32
    %1 = te.read %max[%i] : f32
    %2 = arith.subf %0, %1 : f32
    %3 = math.exp %2 : f32
    te.yield %3 : f32
  } : tensor<160x160xf32>
  %sum = te.compute "sum" (%i : 160) reduce (%k : 160) sum {
    %0 = te.read %exp[%i, %k] : f32
    te.yield %0 : f32
  } : tensor<160xf32>
  %mix = te.compute "mix" (%i : 160, %d : 16) reduce (%k : 160) sum {
    %0 = te.read %exp[%i, %k] : f32
    %1 = te.read %v[%k, %d] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<160x16xf32>
  %out = te.compute "out" (%i : 160, %d : 16) {
    %0 = te.read %mix[%i, %d] : f32
    %1 = te.read %sum[%i] : f32
    %2 = arith.divf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<160x16xf32>
  te.return %out : tensor<160x16xf32>
}

// What is added does not make the weights 0.
// CHECK-LABEL: te.func @small
// CHECK-NOT:     mask
te.func @small(%q: tensor<160x8xf32>, %key: tensor<160x8xf32>, %v: tensor<160x16xf32>) -> tensor<160x16xf32> {
  %s = te.compute "scores" (%i : 160, %j : 160) reduce (%k : 8) sum {
    %0 = te.read %q[%i, %k] : f32
    %1 = te.read %key[%j, %k] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<160x160xf32>
  %add = te.compute "add" (%i : 160, %j : 160) {
    %0 = te.read %s[%i, %j] : f32
    %1 = te.index %j - %i
    %2 = arith.index_cast %1 : index to i32
    %3 = arith.constant 0.0 : f32
    %4 = arith.constant -10.0 : f32
    %5 = arith.constant 0 : i32
    %6 = arith.cmpi sle, %2, %5 : i32
    %7 = arith.select %6, %3, %4 : f32
    %8 = arith.addf %0, %7 : f32
    te.yield %8 : f32
  } : tensor<160x160xf32>
  %max = te.compute "max" (%i : 160) reduce (%k : 160) max {
    %0 = te.read %add[%i, %k] : f32
    te.yield %0 : f32
  } : tensor<160xf32>
  %exp = te.compute "exp" (%i : 160, %j : 160) {
    %0 = te.read %add[%i, %j] : f32
    %1 = te.read %max[%i] : f32
    %2 = arith.subf %0, %1 : f32
    %3 = math.exp %2 : f32
    te.yield %3 : f32
  } : tensor<160x160xf32>
  %sum = te.compute "sum" (%i : 160) reduce (%k : 160) sum {
    %0 = te.read %exp[%i, %k] : f32
    te.yield %0 : f32
  } : tensor<160xf32>
  %mix = te.compute "mix" (%i : 160, %d : 16) reduce (%k : 160) sum {
    %0 = te.read %exp[%i, %k] : f32
    %1 = te.read %v[%k, %d] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<160x16xf32>
  %out = te.compute "out" (%i : 160, %d : 16) {
    %0 = te.read %mix[%i, %d] : f32
    %1 = te.read %sum[%i] : f32
    %2 = arith.divf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<160x16xf32>
  te.return %out : tensor<160x16xf32>
}

// Somebody else reads the weights.
// CHECK-LABEL: te.func @weights
// CHECK-NOT:     mask
te.func @weights(%q: tensor<160x8xf32>, %key: tensor<160x8xf32>, %v: tensor<160x16xf32>) -> (tensor<160x16xf32>, tensor<160x160xf32>) {
  %s = te.compute "scores" (%i : 160, %j : 160) reduce (%k : 8) sum {
    %0 = te.read %q[%i, %k] : f32
    %1 = te.read %key[%j, %k] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<160x160xf32>
  %add = te.compute "add" (%i : 160, %j : 160) {
    %0 = te.read %s[%i, %j] : f32
    %1 = te.index %j - %i
    %2 = arith.index_cast %1 : index to i32
    %3 = arith.constant 0.0 : f32
    %4 = arith.constant -1.0e+09 : f32
    %5 = arith.constant 0 : i32
    %6 = arith.cmpi sle, %2, %5 : i32
    %7 = arith.select %6, %3, %4 : f32
    %8 = arith.addf %0, %7 : f32
    te.yield %8 : f32
  } : tensor<160x160xf32>
  %max = te.compute "max" (%i : 160) reduce (%k : 160) max {
    %0 = te.read %add[%i, %k] : f32
    te.yield %0 : f32
  } : tensor<160xf32>
  %exp = te.compute "exp" (%i : 160, %j : 160) {
    %0 = te.read %add[%i, %j] : f32
    %1 = te.read %max[%i] : f32
    %2 = arith.subf %0, %1 : f32
    %3 = math.exp %2 : f32
    te.yield %3 : f32
  } : tensor<160x160xf32>
  %sum = te.compute "sum" (%i : 160) reduce (%k : 160) sum {
    %0 = te.read %exp[%i, %k] : f32
    te.yield %0 : f32
  } : tensor<160xf32>
  %mix = te.compute "mix" (%i : 160, %d : 16) reduce (%k : 160) sum {
    %0 = te.read %exp[%i, %k] : f32
    %1 = te.read %v[%k, %d] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<160x16xf32>
  %out = te.compute "out" (%i : 160, %d : 16) {
    %0 = te.read %mix[%i, %d] : f32
    %1 = te.read %sum[%i] : f32
    %2 = arith.divf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<160x16xf32>
  te.return %out, %exp : tensor<160x16xf32>, tensor<160x160xf32>
}
