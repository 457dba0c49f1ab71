// Values of knobs on a kernel are obeyed by te-add-schedule; a value outside of the candidates is refused.
// RUN: mlc-opt %s -p "te-add-schedule{target=x86-64-v4}" --split-input-file --verify-diagnostics | filecheck %s

// CHECK:      sched.schedule @product
// CHECK:        sched.knob "tile_rows" [{{.*}}] default {{[0-9]+}} value 2
// CHECK:        sched.split {{.*}} [?, 2]
te.func @product(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {mlc.knobs = {strategy = "contraction", tile_rows = 2 : i64}} {
  %c = te.compute "c" (%i : 64, %j : 64) reduce (%k : 64) sum {
    %0 = te.read %a[%i, %k] : f32
    %1 = te.read %b[%k, %j] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<64x64xf32>
  te.return %c : tensor<64x64xf32>
}

// -----

// expected-error @below {{expected knob 'tile_rows' among [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 13, 16, 22, 32], but got 37}}
te.func @outside(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {mlc.knobs = {strategy = "contraction", tile_rows = 37 : i64}} {
  %c = te.compute "c" (%i : 64, %j : 64) reduce (%k : 64) sum {
    %0 = te.read %a[%i, %k] : f32
    %1 = te.read %b[%k, %j] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<64x64xf32>
  te.return %c : tensor<64x64xf32>
}

// -----

// expected-error @below {{strategy 'contraction' has no knob 'rows' for this kernel}}
te.func @unknown(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {mlc.knobs = {strategy = "contraction", rows = 2 : i64}} {
  %c = te.compute "c" (%i : 64, %j : 64) reduce (%k : 64) sum {
    %0 = te.read %a[%i, %k] : f32
    %1 = te.read %b[%k, %j] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<64x64xf32>
  te.return %c : tensor<64x64xf32>
}
