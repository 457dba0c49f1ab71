// RUN: mlc-opt %s --pass-pipeline=canonicalize | filecheck %s

// CHECK-LABEL: func.func @neutral(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
// CHECK-NEXT: return %x
func.func @neutral(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %zero = graph.constant dense<0.0> : tensor<f32>
  %one = graph.full {value = 1.0} : tensor<3xf32>
  %bias = graph.full {value = 0.0} : tensor<3xf32>
  %0 = graph.add %zero, %x : (tensor<f32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = graph.subtract %0, %zero : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %2 = graph.multiply %1, %one : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %3 = graph.divide %2, %one : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %4 = graph.power %3, %one : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %5 = graph.bias_add %4, %bias : tensor<2x3xf32>
  return %5 : tensor<2x3xf32>
}

// 0 - x is not x, and x + 0 that broadcasts x is not x.
// CHECK-LABEL: func.func @not_neutral(
// CHECK: graph.subtract
// CHECK: graph.add
func.func @not_neutral(%x: tensor<3xf32>) -> tensor<2x3xf32> {
  %zero = graph.full {value = 0.0} : tensor<2x3xf32>
  %flat = graph.full {value = 0.0} : tensor<3xf32>
  %0 = graph.subtract %flat, %x : tensor<3xf32>
  %1 = graph.add %0, %zero : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @moves_nothing(
// CHECK-NEXT: return %x
func.func @moves_nothing(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = graph.identity %x : tensor<2x3xf32>
  %1 = graph.cast %0 : tensor<2x3xf32>
  %2 = graph.reshape %1 : tensor<2x3xf32>
  %3 = graph.transpose %2 {axes = [0, 1]} : tensor<2x3xf32>
  %4 = graph.broadcast_to %3 : tensor<2x3xf32>
  %5 = graph.concatenate %4 {axis = 0} : tensor<2x3xf32>
  %6 = graph.slice %5 {begin = [0, 0], end = [2, 3], strides = [1, 1]} : tensor<2x3xf32>
  %7 = graph.pad %6 {pad_width = [0, 0, 0, 0]} : tensor<2x3xf32>
  %8 = graph.tile %7 {reps = [1, 1]} : tensor<2x3xf32>
  %9 = graph.flip %8 {axes = []} : tensor<2x3xf32>
  return %9 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @reshapes(
// CHECK-NEXT: %{{.*}} = graph.reshape %x : (tensor<2x6xf32>) -> tensor<12xf32>
// CHECK-NEXT: return
func.func @reshapes(%x: tensor<2x6xf32>) -> tensor<12xf32> {
  %0 = graph.reshape %x : (tensor<2x6xf32>) -> tensor<3x4xf32>
  %1 = graph.reshape %0 : (tensor<3x4xf32>) -> tensor<12xf32>
  return %1 : tensor<12xf32>
}

// CHECK-LABEL: func.func @transposes(
// CHECK-NEXT: %{{.*}} = graph.transpose %x {axes = [1, 2, 0]} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
// CHECK-NEXT: return
func.func @transposes(%x: tensor<2x3x4xf32>) -> tensor<3x4x2xf32> {
  %0 = graph.transpose %x {axes = [2, 0, 1]} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  %1 = graph.transpose %0 {axes = [2, 0, 1]} : (tensor<4x2x3xf32>) -> tensor<3x4x2xf32>
  return %1 : tensor<3x4x2xf32>
}

// CHECK-LABEL: func.func @transposed_back(
// CHECK-NEXT: return %x
func.func @transposed_back(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = graph.transpose %x {axes = [1, 0]} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = graph.transpose %0 {axes = [1, 0]} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @twice(
// CHECK-NEXT: %{{.*}} = graph.relu %x : tensor<4xf32>
// CHECK-NEXT: return
func.func @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.neg %x : tensor<4xf32>
  %1 = graph.neg %0 : tensor<4xf32>
  %2 = graph.relu %1 : tensor<4xf32>
  %3 = graph.relu %2 : tensor<4xf32>
  return %3 : tensor<4xf32>
}

// CHECK-LABEL: func.func @clips(
// CHECK-NEXT: %{{.*}} = graph.clip %x {min = 0.0, max = 3.0} : tensor<4xf32>
// CHECK-NEXT: return
func.func @clips(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.clip %x {min = 0.0, max = 6.0} : tensor<4xf32>
  %1 = graph.clip %0 {max = 3.0} : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @layouts_cancel(
// CHECK-NEXT: return %x
func.func @layouts_cancel(%x: tensor<1x20x4x4xf32>) -> tensor<1x20x4x4xf32> {
  %0 = graph.layout_transform %x {src = "NCHW", dst = "NCHW16c"} : (tensor<1x20x4x4xf32>) -> tensor<1x2x4x4x16xf32>
  %1 = graph.layout_transform %0 {src = "NCHW16c", dst = "NCHW"} : (tensor<1x2x4x4x16xf32>) -> tensor<1x20x4x4xf32>
  return %1 : tensor<1x20x4x4xf32>
}

// The padding that the first drops is not what the second writes: both stay.
// CHECK-LABEL: func.func @layouts_that_cut(
// CHECK-COUNT-2: graph.layout_transform
func.func @layouts_that_cut(%x: tensor<1x2x4x4x16xf32>) -> tensor<1x2x4x4x16xf32> {
  %0 = graph.layout_transform %x {src = "NCHW16c", dst = "NCHW"} : (tensor<1x2x4x4x16xf32>) -> tensor<1x20x4x4xf32>
  %1 = graph.layout_transform %0 {src = "NCHW", dst = "NCHW16c"} : (tensor<1x20x4x4xf32>) -> tensor<1x2x4x4x16xf32>
  return %1 : tensor<1x2x4x4x16xf32>
}

// CHECK-LABEL: func.func @casts(
// CHECK-NEXT: return %x
func.func @casts(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.cast %x : (tensor<4xf32>) -> tensor<4xf64>
  %1 = graph.cast %0 : (tensor<4xf64>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @narrowing_casts(
// CHECK-COUNT-2: graph.cast
func.func @narrowing_casts(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.cast %x : (tensor<4xf32>) -> tensor<4xf16>
  %1 = graph.cast %0 : (tensor<4xf16>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
