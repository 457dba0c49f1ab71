// RUN: mlc-opt %s -p graph-simplify-expr,graph-fold-constant | filecheck %s

// CHECK-LABEL: func.func @doubled
// CHECK:         graph.multiply %x, %{{.*}} : (tensor<4xf32>, tensor<f32>)
func.func @doubled(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A root that something else reads is computed anyway.
// CHECK-LABEL: func.func @roots
// CHECK-NEXT:    %[[R:.*]] = graph.rsqrt %x
// CHECK-NEXT:    %[[M:.*]] = graph.multiply %y, %[[R]]
// CHECK-NEXT:    %[[S:.*]] = graph.sqrt %y
// CHECK-NEXT:    %[[D:.*]] = graph.divide %x, %[[S]]
func.func @roots(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.sqrt %x : tensor<4xf32>
  %1 = graph.divide %y, %0 : tensor<4xf32>
  %2 = graph.sqrt %y : tensor<4xf32>
  %3 = graph.divide %x, %2 : tensor<4xf32>
  return %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// ((x + 1) * 2 + 3) * 4 == x * 8 + 20
// CHECK-LABEL: func.func @linear
// CHECK-NEXT:    %[[A:.*]] = graph.constant dense<8.000000e+00>
// CHECK-NEXT:    %[[M:.*]] = graph.multiply %x, %[[A]]
// CHECK-NEXT:    %[[B:.*]] = graph.constant dense<2.000000e+01>
// CHECK-NEXT:    %[[S:.*]] = graph.add %[[M]], %[[B]]
// CHECK-NEXT:    return %[[S]]
func.func @linear(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = graph.constant dense<1.0> : tensor<f32>
  %b = graph.constant dense<2.0> : tensor<f32>
  %c = graph.constant dense<3.0> : tensor<f32>
  %d = graph.constant dense<4.0> : tensor<f32>
  %0 = graph.add %x, %a : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = graph.multiply %0, %b : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = graph.add %1, %c : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = graph.multiply %d, %2 : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}

// A row times a column would be a matrix; 1e-30 * 1e-30 would be 0.
// CHECK-LABEL: func.func @apart
// CHECK:         graph.multiply %x, %a
// CHECK-NEXT:    graph.multiply %{{.*}}, %b
// CHECK-NEXT:    graph.multiply %{{.*}}, %c
// CHECK-NEXT:    graph.multiply %{{.*}}, %c
func.func @apart(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %a = graph.param "a" : tensor<4xf32>
  %b = graph.param "b" : tensor<4x1xf32>
  %c = graph.constant dense<1.0e-30> : tensor<f32>
  %0 = graph.multiply %x, %a : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %1 = graph.multiply %0, %b : (tensor<4x4xf32>, tensor<4x1xf32>) -> tensor<4x4xf32>
  %2 = graph.multiply %x, %c : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %3 = graph.multiply %2, %c : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %1, %3 : tensor<4x4xf32>, tensor<4x4xf32>
}

// CHECK-LABEL: func.func @fills
// CHECK-NEXT:    %[[C:.*]] = graph.constant dense<3.000000e+00> : tensor<f32>
// CHECK-NEXT:    graph.maximum %x, %[[C]] : (tensor<4x100xf32>, tensor<f32>)
func.func @fills(%x: tensor<4x100xf32>) -> tensor<4x100xf32> {
  %a = graph.full {value = 3.0} : tensor<4x100xf32>
  %0 = graph.maximum %x, %a : tensor<4x100xf32>
  return %0 : tensor<4x100xf32>
}

// Floats that are not made from integers may be equal once they are scaled.
// CHECK-LABEL: func.func @orders
// CHECK:         graph.argmax %q {axes = [1]} : (tensor<2x8xui8>)
// CHECK:         graph.multiply
// CHECK-NEXT:    graph.argmax
func.func @orders(%q: tensor<2x8xui8>, %x: tensor<2x8xf32>) -> (tensor<2xi64>, tensor<2xi64>) {
  %z = graph.constant dense<128.0> : tensor<f32>
  %s = graph.constant dense<0.02> : tensor<f32>
  %0 = graph.cast %q : (tensor<2x8xui8>) -> tensor<2x8xf32>
  %1 = graph.subtract %0, %z : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %2 = graph.multiply %1, %s : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %3 = graph.argmax %2 {axes = [1]} : (tensor<2x8xf32>) -> tensor<2xi64>
  %4 = graph.multiply %x, %s : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %5 = graph.argmax %4 {axes = [1]} : (tensor<2x8xf32>) -> tensor<2xi64>
  return %3, %5 : tensor<2xi64>, tensor<2xi64>
}

// The second clip lets 300 through, which a u8 has not; the third is narrower than the type.
// CHECK-LABEL: func.func @clips
// CHECK-NEXT:    %[[A:.*]] = graph.clip %x {min = 0.0, max = 255.0}
// CHECK-NEXT:    %[[B:.*]] = graph.clip %x {min = 0.0, max = 300.0}
// CHECK-NEXT:    %[[C:.*]] = graph.cast %[[B]]
// CHECK-NEXT:    %[[D:.*]] = graph.cast %[[C]]
// CHECK-NEXT:    %[[E:.*]] = graph.clip %q {min = 1.0, max = 255.0}
// CHECK-NEXT:    return %[[A]], %[[D]], %q, %[[E]]
func.func @clips(%x: tensor<4xi32>, %q: tensor<4xui8>) -> (tensor<4xi32>, tensor<4xi32>, tensor<4xui8>, tensor<4xui8>) {
  %0 = graph.clip %x {min = 0.0, max = 255.0} : tensor<4xi32>
  %1 = graph.cast %0 : (tensor<4xi32>) -> tensor<4xui8>
  %2 = graph.cast %1 : (tensor<4xui8>) -> tensor<4xi32>
  %3 = graph.clip %x {min = 0.0, max = 300.0} : tensor<4xi32>
  %4 = graph.cast %3 : (tensor<4xi32>) -> tensor<4xui8>
  %5 = graph.cast %4 : (tensor<4xui8>) -> tensor<4xi32>
  %6 = graph.clip %q {min = 0.0, max = 255.0} : tensor<4xui8>
  %7 = graph.clip %q {min = 1.0, max = 255.0} : tensor<4xui8>
  return %2, %5, %6, %7 : tensor<4xi32>, tensor<4xi32>, tensor<4xui8>, tensor<4xui8>
}

// CHECK-LABEL: func.func @exact_casts
// CHECK-NEXT:    %[[A:.*]] = graph.cast %q : (tensor<4xi8>) -> tensor<4xi32>
// CHECK-NEXT:    %[[B:.*]] = graph.cast %q : (tensor<4xi8>) -> tensor<4xf32>
// CHECK-NEXT:    %[[C:.*]] = graph.cast %[[B]] : (tensor<4xf32>) -> tensor<4xui8>
func.func @exact_casts(%q: tensor<4xi8>) -> (tensor<4xi32>, tensor<4xui8>) {
  %0 = graph.cast %q : (tensor<4xi8>) -> tensor<4xf32>
  %1 = graph.cast %0 : (tensor<4xf32>) -> tensor<4xi32>
  %2 = graph.cast %q : (tensor<4xi8>) -> tensor<4xf32>
  %3 = graph.cast %2 : (tensor<4xf32>) -> tensor<4xui8>
  return %1, %3 : tensor<4xi32>, tensor<4xui8>
}

// CHECK-LABEL: func.func @binomials
// CHECK-NEXT:    %[[S:.*]] = graph.subtract %x, %y
// CHECK-NEXT:    %[[Q:.*]] = graph.multiply %[[S]], %[[S]]
// CHECK-NEXT:    graph.multiply %x, %x
// CHECK-COUNT-2: graph.add
func.func @binomials(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %two = graph.constant dense<2.0> : tensor<f32>
  %0 = graph.multiply %x, %x : tensor<4xf32>
  %1 = graph.multiply %y, %y : tensor<4xf32>
  %2 = graph.multiply %two, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.multiply %2, %y : tensor<4xf32>
  %4 = graph.subtract %0, %3 : tensor<4xf32>
  %5 = graph.add %4, %1 : tensor<4xf32>
  %6 = graph.multiply %x, %x : tensor<4xf32>
  %7 = graph.multiply %y, %y : tensor<4xf32>
  %8 = graph.multiply %x, %y : tensor<4xf32>
  %9 = graph.add %6, %7 : tensor<4xf32>
  %10 = graph.add %9, %8 : tensor<4xf32>
  return %5, %10 : tensor<4xf32>, tensor<4xf32>
}

// One product for the heads that share keys or values; each matrix is read once.
// CHECK-LABEL: func.func @shared_heads
// CHECK-NEXT:    %[[Q:.*]] = graph.reshape %q : (tensor<2x8x1x16xf32>) -> tensor<2x2x4x16xf32>
// CHECK-NEXT:    %[[K:.*]] = graph.reshape %k : (tensor<2x2x1x?x16xf32, #graph.dims<[M]>>) -> tensor<2x2x?x16xf32
// CHECK-NEXT:    %[[S:.*]] = graph.batch_matmul %[[Q]], %[[K]] {transpose_b = true}
// CHECK-NEXT:    graph.reshape %[[S]]
func.func @shared_heads(%q: tensor<2x8x1x16xf32>, %k: tensor<2x2x1x?x16xf32, #graph.dims<[M]>>)
    -> tensor<2x8x1x?xf32, #graph.dims<[M]>> {
  %0 = graph.broadcast_to %k : (tensor<2x2x1x?x16xf32, #graph.dims<[M]>>) -> tensor<2x2x4x?x16xf32, #graph.dims<[M]>>
  %1 = graph.reshape %0 : (tensor<2x2x4x?x16xf32, #graph.dims<[M]>>) -> tensor<2x8x?x16xf32, #graph.dims<[M]>>
  %2 = graph.batch_matmul %q, %1 {transpose_b = true} : (tensor<2x8x1x16xf32>, tensor<2x8x?x16xf32, #graph.dims<[M]>>) -> tensor<2x8x1x?xf32, #graph.dims<[M]>>
  return %2 : tensor<2x8x1x?xf32, #graph.dims<[M]>>
}

// Many rows, heads that are not repeated next to each other, and rows that are broadcast themselves, stay.
// CHECK-LABEL: func.func @other_heads
// CHECK:         graph.batch_matmul %q,
// CHECK:         graph.batch_matmul %r,
// CHECK:         graph.batch_matmul %s,
func.func @other_heads(%q: tensor<8x32x16xf32>, %r: tensor<1x1x16xf32>, %s: tensor<8x1x16xf32>, %k: tensor<2x1x5x16xf32>, %l: tensor<1x4x5x16xf32>)
    -> (tensor<8x32x5xf32>, tensor<8x1x5xf32>, tensor<8x1x5xf32>) {
  %0 = graph.broadcast_to %k : (tensor<2x1x5x16xf32>) -> tensor<2x4x5x16xf32>
  %1 = graph.reshape %0 : (tensor<2x4x5x16xf32>) -> tensor<8x5x16xf32>
  %2 = graph.batch_matmul %q, %1 {transpose_b = true} : (tensor<8x32x16xf32>, tensor<8x5x16xf32>) -> tensor<8x32x5xf32>
  %3 = graph.batch_matmul %r, %1 {transpose_b = true} : (tensor<1x1x16xf32>, tensor<8x5x16xf32>) -> tensor<8x1x5xf32>
  %4 = graph.broadcast_to %l : (tensor<1x4x5x16xf32>) -> tensor<2x4x5x16xf32>
  %5 = graph.reshape %4 : (tensor<2x4x5x16xf32>) -> tensor<8x5x16xf32>
  %6 = graph.batch_matmul %s, %5 {transpose_b = true} : (tensor<8x1x16xf32>, tensor<8x5x16xf32>) -> tensor<8x1x5xf32>
  return %2, %3, %6 : tensor<8x32x5xf32>, tensor<8x1x5xf32>, tensor<8x1x5xf32>
}
