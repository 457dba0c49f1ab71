// RUN: mlc-opt %s | mlc-opt | filecheck %s

// CHECK-LABEL: func.func @calls
// CHECK:         runtime.call @relu ins(%{{.*}} : memref<8xf32>) outs(%{{.*}} : memref<8xf32>)
// CHECK-NEXT:    runtime.call @fill ins() outs(%{{.*}} : memref<8xf32>) {origins = ["a"]}
// CHECK-NEXT:    runtime.call @elsewhere ins(%{{.*}}, %{{.*}} : memref<8xf32>, memref<2x4xf32>) outs(%{{.*}}, %{{.*}} : memref<8xf32>, memref<i1>)
func.func @calls(%x: memref<8xf32>, %y: memref<8xf32>, %z: memref<2x4xf32>, %f: memref<i1>) {
  runtime.call @relu ins(%x : memref<8xf32>) outs(%y : memref<8xf32>)
  runtime.call @fill ins() outs(%y : memref<8xf32>) {origins = ["a"]}
  runtime.call @elsewhere ins(%x, %z : memref<8xf32>, memref<2x4xf32>) outs(%y, %f : memref<8xf32>, memref<i1>)
  return
}
func.func private @relu(tensor<8xf32>) -> tensor<8xf32>
loop.func @fill(%y: memref<8xf32>) attributes {outputs = 1 : i64} {
  loop.yield
}

// CHECK-LABEL: func.func @parts
// CHECK-NEXT:    runtime.part %x at 16 : memref<8xf32> to memref<2x2xf32>
func.func @parts(%x: memref<8xf32>) {
  %0 = runtime.part %x at 16 : memref<8xf32> to memref<2x2xf32>
  return
}

// CHECK-LABEL: func.func @rows
// CHECK-NEXT:    runtime.row %x[%i] : memref<5x1x8xf32> to memref<1x8xf32>
// CHECK-NEXT:    runtime.fill %x : memref<5x1x8xf32>
func.func @rows(%x: memref<5x1x8xf32>, %i: index) {
  %0 = runtime.row %x[%i] : memref<5x1x8xf32> to memref<1x8xf32>
  runtime.fill %x : memref<5x1x8xf32>
  return
}

// CHECK-LABEL: func.func @open_sizes
// CHECK-NEXT:    runtime.part %x at 64 + %i bytes %n : memref<?x8xf32> to memref<?x8xf32>
// CHECK-NEXT:    runtime.part %x at 0 + %i : memref<?x8xf32> to memref<2x8xf32>
// CHECK-NEXT:    runtime.row %x[%i] : memref<?x8xf32> to memref<8xf32>
// CHECK-NEXT:    runtime.row %y[%i] bytes %n : memref<4x?xf32> to memref<?xf32>
// CHECK-NEXT:    runtime.fill %x bytes %n : memref<?x8xf32>
// CHECK-NEXT:    runtime.copy %x to %y bytes %n : memref<?x8xf32> to memref<4x?xf32>
func.func @open_sizes(%x: memref<?x8xf32>, %y: memref<4x?xf32>, %i: index, %n: index) {
  %0 = runtime.part %x at 64 + %i bytes %n : memref<?x8xf32> to memref<?x8xf32>
  %1 = runtime.part %x at 0 + %i : memref<?x8xf32> to memref<2x8xf32>
  %2 = runtime.row %x[%i] : memref<?x8xf32> to memref<8xf32>
  %3 = runtime.row %y[%i] bytes %n : memref<4x?xf32> to memref<?xf32>
  runtime.fill %x bytes %n : memref<?x8xf32>
  runtime.copy %x to %y bytes %n : memref<?x8xf32> to memref<4x?xf32>
  return
}
