// RUN: mlc-opt %s -p convert-te-to-loop | filecheck %s
// RUN: mlc-opt %s -p convert-te-to-loop,convert-loop-to-llvm | filecheck %s --check-prefix=LLVM
// RUN: mlc-opt %s --print-op-generic | mlc-opt -p convert-te-to-loop | filecheck %s

// A body stands in the kernel, on the kernel's buffers.
// CHECK-LABEL: loop.func @body(%x: memref<4xf32>, %e: memref<4xf32>)
// CHECK-NEXT:    loop.for %i = 0 to 4 {
// CHECK-NEXT:      %a = loop.load %x[-%i + 3] : f32
// CHECK-NEXT:      loop.store %a, %e[%i] : f32
te.func @body(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = te.extern "reverse" (%x) {
  ^bb0(%in: memref<4xf32>, %out: memref<4xf32>):
    loop.for %i = 0 to 4 {
      %a = loop.load %in[3 - %i] : f32
      loop.store %a, %out[%i] : f32
    }
    loop.yield
  } : (tensor<4xf32>) -> tensor<4xf32>
  te.return %e : tensor<4xf32>
}

// A registered function is called through the one that stands for its name; its status is returned.
// CHECK-LABEL: loop.func @registered
// CHECK-NEXT:    loop.call registered "my.f" (%x, %a, %b) outputs 2 : memref<4xf32>, memref<2xf32>, memref<i64>
// LLVM:        llvm.func @mlc_call_my_df(!llvm.ptr, !llvm.ptr, i32, i32) -> i32 attributes {mlc.calls = "my.f"}
// LLVM:        llvm.func @registered
// LLVM:          [[STATUS:%\d+]] = llvm.call @mlc_call_my_df
// LLVM:          llvm.return [[STATUS]] : i32
te.func @registered(%x: tensor<4xf32>) -> (tensor<2xf32>, tensor<i64>) {
  %a, %b = te.extern "f" (%x) registered "my.f" : (tensor<4xf32>) -> (tensor<2xf32>, tensor<i64>)
  te.return %a, %b : tensor<2xf32>, tensor<i64>
}

// A C function gets scalars by value, and the buffers that its arguments number.
// CHECK-LABEL: loop.func @c
// CHECK-NEXT:    loop.call c "scale" [1 : index, 2.000000e+00 : f32, 0 : index, 4 : i64] libraries ["m"] status (%x, %y) outputs 1
// LLVM:        llvm.func @scale(!llvm.ptr, f32, !llvm.ptr, i64) -> i32 attributes {mlc.libraries = ["m"]}
te.func @c(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = te.extern "y" (%x) c "scale" [1 : index, 2.0 : f32, 0 : index, 4 : i64] libraries ["m"] status : (tensor<4xf32>) -> tensor<4xf32>
  te.return %y : tensor<4xf32>
}

// Sizes are over the kernel's symbols: one for each `?` of the types, then those that a C function gets.
// CHECK-LABEL: loop.func @open
// CHECK-NEXT:    loop.call registered "my.f" (%x, %y) sizes (%n, %n * 2 + 1) outputs 1 : memref<?x4xf32>, memref<?xf32>
// CHECK-NEXT:    loop.call c "scale" [0 : index, #loop.size<3, i64>] (%x, %z) sizes (%n, %n * 2 + 1, %n, %n * 4) outputs 1
// LLVM-LABEL: llvm.func @open
te.func @open(%x: tensor<?x4xf32>, %n: index) -> (tensor<?xf32>, tensor<?xf32>) attributes {sizes = [#te.map<"%0, 4">, #te.map<"%0 * 2 + 1">, #te.map<"%0 * 2 + 1">]} {
  %y = te.extern "y" (%x) sizes (%n, %n * 2 + 1) registered "my.f" : (tensor<?x4xf32>) -> tensor<?xf32>
  %z = te.extern "z" (%x) sizes (%n, %n * 2 + 1, %n, %n * 4) c "scale" [0 : index, #loop.size<3, i64>] : (tensor<?x4xf32>) -> tensor<?xf32>
  te.return %y, %z : tensor<?xf32>, tensor<?xf32>
}
