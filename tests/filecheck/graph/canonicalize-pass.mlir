// RUN: mlc-opt %s -p graph-canonicalize | filecheck %s

// CHECK-LABEL: func.func @activations
// CHECK-NEXT:    %[[R:.*]] = graph.relu %x
// CHECK-NEXT:    return %[[R]], %[[R]]
func.func @activations(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %zero = graph.constant dense<0.0> : tensor<f32>
  %0 = graph.maximum %zero, %x : (tensor<f32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = graph.clip %0 {min = 0.0} : tensor<2x4xf32>
  %2 = graph.clip %0 : tensor<2x4xf32>
  return %1, %2 : tensor<2x4xf32>, tensor<2x4xf32>
}

// Where only axes of size 1 move, nothing moves in memory.
// CHECK-LABEL: func.func @units
// CHECK-NEXT:    graph.reshape %x : (tensor<1x3x1x4xf32>) -> tensor<3x4x1x1xf32>
// CHECK-NEXT:    graph.reshape %y : (tensor<1x2x1x1x8xf32>) -> tensor<1x16x1x1xf32>
func.func @units(%x: tensor<1x3x1x4xf32>, %y: tensor<1x2x1x1x8xf32>) -> (tensor<3x4x1x1xf32>, tensor<1x16x1x1xf32>) {
  %0 = graph.transpose %x {axes = [1, 3, 0, 2]} : (tensor<1x3x1x4xf32>) -> tensor<3x4x1x1xf32>
  %1 = graph.layout_transform %y {src = "NCHW8c", dst = "NCHW"} : (tensor<1x2x1x1x8xf32>) -> tensor<1x16x1x1xf32>
  return %0, %1 : tensor<3x4x1x1xf32>, tensor<1x16x1x1xf32>
}

// CHECK-LABEL: func.func @to_nhwc
// CHECK-NEXT:    graph.layout_transform %x {src = "NCHW8c", dst = "NHWC"}
// CHECK-NEXT:    graph.reshape
// CHECK-NOT:     graph.transpose
func.func @to_nhwc(%x: tensor<1x2x1x5x8xf32>) -> tensor<1x5x12xf32> {
  %0 = graph.layout_transform %x {src = "NCHW8c", dst = "NCHW"} : (tensor<1x2x1x5x8xf32>) -> tensor<1x12x1x5xf32>
  %1 = graph.reshape %0 : (tensor<1x12x1x5xf32>) -> tensor<1x12x5xf32>
  %2 = graph.transpose %1 {axes = [0, 2, 1]} : (tensor<1x12x5xf32>) -> tensor<1x5x12xf32>
  return %2 : tensor<1x5x12xf32>
}

// CHECK-LABEL: func.func @from_nhwc
// CHECK-NEXT:    graph.layout_transform %x {src = "NHWC", dst = "NCHW8c"}
// CHECK-NEXT:    return
func.func @from_nhwc(%x: tensor<1x3x5x16xf32>) -> tensor<1x2x3x5x8xf32> {
  %0 = graph.transpose %x {axes = [0, 3, 1, 2]} : (tensor<1x3x5x16xf32>) -> tensor<1x16x3x5xf32>
  %1 = graph.layout_transform %0 {src = "NCHW", dst = "NCHW8c"} : (tensor<1x16x3x5xf32>) -> tensor<1x2x3x5x8xf32>
  return %1 : tensor<1x2x3x5x8xf32>
}

// The transpose of the keys becomes a flag, and each slice moves its own part.
// CHECK-LABEL: func.func @attention
// CHECK-DAG:     graph.slice %x {begin = [0, 0, 0], end = [4, 1, 8]
// CHECK-DAG:     graph.slice %x {begin = [0, 1, 0], end = [4, 2, 8]
// CHECK:         graph.batch_matmul {{.*}} {transpose_b = true}
func.func @attention(%x: tensor<4x2x8xf32>) -> tensor<1x4x4xf32> {
  %t = graph.transpose %x {axes = [1, 0, 2]} : (tensor<4x2x8xf32>) -> tensor<2x4x8xf32>
  %q = graph.slice %t {begin = [0, 0, 0], end = [1, 4, 8], strides = [1, 1, 1]} : (tensor<2x4x8xf32>) -> tensor<1x4x8xf32>
  %k = graph.slice %t {begin = [1, 0, 0], end = [2, 4, 8], strides = [1, 1, 1]} : (tensor<2x4x8xf32>) -> tensor<1x4x8xf32>
  %kt = graph.transpose %k {axes = [0, 2, 1]} : (tensor<1x4x8xf32>) -> tensor<1x8x4xf32>
  %s = graph.batch_matmul %q, %kt : (tensor<1x4x8xf32>, tensor<1x8x4xf32>) -> tensor<1x4x4xf32>
  return %s : tensor<1x4x4xf32>
}

// Padding with zeros is an attribute of the convolution; padding with ones is not.
// CHECK-LABEL: func.func @pad
// CHECK-NEXT:    graph.conv2d %x, %w {padding = [1, 2, 3, 4]}
// CHECK-NEXT:    graph.pad %x
// CHECK-NEXT:    graph.conv2d
func.func @pad(%x: tensor<1x2x5x5xf32>, %w: tensor<3x2x1x1xf32>) -> (tensor<1x3x9x11xf32>, tensor<1x3x9x11xf32>) {
  %0 = graph.pad %x {pad_width = [0, 0, 0, 0, 1, 3, 2, 4]} : (tensor<1x2x5x5xf32>) -> tensor<1x2x9x11xf32>
  %1 = graph.conv2d %0, %w : (tensor<1x2x9x11xf32>, tensor<3x2x1x1xf32>) -> tensor<1x3x9x11xf32>
  %2 = graph.pad %x {pad_width = [0, 0, 0, 0, 1, 3, 2, 4], value = 1.0} : (tensor<1x2x5x5xf32>) -> tensor<1x2x9x11xf32>
  %3 = graph.conv2d %2, %w : (tensor<1x2x9x11xf32>, tensor<3x2x1x1xf32>) -> tensor<1x3x9x11xf32>
  return %1, %3 : tensor<1x3x9x11xf32>, tensor<1x3x9x11xf32>
}

// A convolution of bytes pads with its zero point: only padding by the same value is an attribute of it.
// CHECK-LABEL: func.func @pad_by_a_zero_point
// CHECK-NEXT:    %[[P:.*]] = graph.pad %x
// CHECK-NEXT:    graph.conv2d %[[P]], %w {out_dtype = "int32", pad_value = 7}
// CHECK-NEXT:    graph.conv2d %x, %w {padding = [1, 2, 3, 4], out_dtype = "int32", pad_value = 7}
func.func @pad_by_a_zero_point(%x: tensor<1x2x5x5xui8>, %w: tensor<3x2x1x1xi8>) -> (tensor<1x3x9x11xi32>, tensor<1x3x9x11xi32>) {
  %0 = graph.pad %x {pad_width = [0, 0, 0, 0, 1, 3, 2, 4]} : (tensor<1x2x5x5xui8>) -> tensor<1x2x9x11xui8>
  %1 = graph.conv2d %0, %w {pad_value = 7, out_dtype = "int32"} : (tensor<1x2x9x11xui8>, tensor<3x2x1x1xi8>) -> tensor<1x3x9x11xi32>
  %2 = graph.pad %x {pad_width = [0, 0, 0, 0, 1, 3, 2, 4], value = 7.0} : (tensor<1x2x5x5xui8>) -> tensor<1x2x9x11xui8>
  %3 = graph.conv2d %2, %w {pad_value = 7, out_dtype = "int32"} : (tensor<1x2x9x11xui8>, tensor<3x2x1x1xi8>) -> tensor<1x3x9x11xi32>
  return %1, %3 : tensor<1x3x9x11xi32>, tensor<1x3x9x11xi32>
}

// CHECK-LABEL: func.func @keepdims
// CHECK-NEXT:    graph.sum %x {axes = [1], keepdims = true}
// CHECK-NEXT:    return
func.func @keepdims(%x: tensor<2x3x4xf32>) -> tensor<2x1x4xf32> {
  %0 = graph.sum %x {axes = [1]} : (tensor<2x3x4xf32>) -> tensor<2x4xf32>
  %1 = graph.reshape %0 : (tensor<2x4xf32>) -> tensor<2x1x4xf32>
  return %1 : tensor<2x1x4xf32>
}

// A broadcast operand is read as it is, unless it alone gives the result its shape.
// CHECK-LABEL: func.func @broadcast
// CHECK-NEXT:    %[[Y:.*]] = graph.broadcast_to %y
// CHECK-NEXT:    graph.add %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT:    graph.add %[[Y]], %y
func.func @broadcast(%x: tensor<2x3xf32>, %y: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = graph.broadcast_to %y : (tensor<3xf32>) -> tensor<2x3xf32>
  %1 = graph.add %x, %0 : tensor<2x3xf32>
  %2 = graph.add %0, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return %1, %2 : tensor<2x3xf32>, tensor<2x3xf32>
}

// What is concatenated again starts with what is there; the inner result is used, so it stays.
// CHECK-LABEL: func.func @concat_again
// CHECK-NEXT:    %[[A:.*]] = graph.concatenate %x, %y {axis = 1}
// CHECK-NEXT:    %[[R:.*]] = graph.relu %[[A]]
// CHECK-NEXT:    graph.concatenate %[[A]], %[[R]] {axis = 1}
func.func @concat_again(%x: tensor<1x2xf32>, %y: tensor<1x3xf32>) -> tensor<1x10xf32> {
  %0 = graph.concatenate %x, %y {axis = 1} : (tensor<1x2xf32>, tensor<1x3xf32>) -> tensor<1x5xf32>
  %1 = graph.relu %0 : tensor<1x5xf32>
  %2 = graph.concatenate %x, %y, %1 {axis = 1} : (tensor<1x2xf32>, tensor<1x3xf32>, tensor<1x5xf32>) -> tensor<1x10xf32>
  return %2 : tensor<1x10xf32>
}

// A concatenation that only another one reads is part of it; so are all parts of a split, and slices that touch.
// CHECK-LABEL: func.func @concat_of_parts
// CHECK-NEXT:    %[[S:.*]] = graph.slice %y {begin = [0, 0], end = [1, 3], strides = [1, 1]}
// CHECK-NEXT:    graph.concatenate %x, %[[S]], %x {axis = 1}
func.func @concat_of_parts(%x: tensor<1x2xf32>, %y: tensor<1x6xf32>) -> tensor<1x7xf32> {
  %a, %b = graph.split %x {axis = 1, sections = [1, 1]} : (tensor<1x2xf32>) -> (tensor<1x1xf32>, tensor<1x1xf32>)
  %c = graph.slice %y {begin = [0, 0], end = [1, 1], strides = [1, 1]} : (tensor<1x6xf32>) -> tensor<1x1xf32>
  %d = graph.slice %y {begin = [0, 1], end = [1, 3], strides = [1, 1]} : (tensor<1x6xf32>) -> tensor<1x2xf32>
  %0 = graph.concatenate %a, %b, %c {axis = 1} : (tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x3xf32>
  %1 = graph.concatenate %0, %d, %x {axis = 1} : (tensor<1x3xf32>, tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x7xf32>
  return %1 : tensor<1x7xf32>
}

// Channels of a single pixel are in order in every layout: what pads the last block up is sliced off.
// CHECK-LABEL: func.func @unpad
// CHECK-NEXT:    %[[R:.*]] = graph.reshape %x : (tensor<1x2x1x1x16xf32>) -> tensor<32xf32>
// CHECK-NEXT:    %[[S:.*]] = graph.slice %[[R]] {begin = [0], end = [20], strides = [1]}
// CHECK-NEXT:    graph.reshape %[[S]] : (tensor<20xf32>) -> tensor<1x20x1x1xf32>
func.func @unpad(%x: tensor<1x2x1x1x16xf32>) -> tensor<1x20x1x1xf32> {
  %0 = graph.layout_transform %x {src = "NCHW16c", dst = "NCHW"} : (tensor<1x2x1x1x16xf32>) -> tensor<1x20x1x1xf32>
  return %0 : tensor<1x20x1x1xf32>
}

// Elements move once: the axes between two transposes are taken apart.
// CHECK-LABEL: func.func @transposes
// CHECK-NEXT:    %[[T:.*]] = graph.transpose %x {axes = [1, 3, 0, 2]}
// CHECK-NEXT:    graph.reshape %[[T]]
// CHECK-NOT:     graph.transpose
func.func @transposes(%x: tensor<2x3x4x5xf32>) -> tensor<15x8xf32> {
  %0 = graph.transpose %x {axes = [0, 2, 1, 3]} : (tensor<2x3x4x5xf32>) -> tensor<2x4x3x5xf32>
  %1 = graph.reshape %0 : (tensor<2x4x3x5xf32>) -> tensor<8x15xf32>
  %2 = graph.transpose %1 {axes = [1, 0]} : (tensor<8x15xf32>) -> tensor<15x8xf32>
  return %2 : tensor<15x8xf32>
}

// What follows a convolution and its movements computes before them; its constant takes the shape that it needs there.
// CHECK-LABEL: func.func @after_movements
// CHECK:         %[[C:.*]] = graph.conv2d
// CHECK-NOT:     graph.transpose
// CHECK:         %[[A:.*]] = graph.add %{{.*}}, %{{.*}} : (tensor<1x8x2x2xf32>, tensor<1x8x1x1xf32>)
// CHECK-NEXT:    %[[R:.*]] = graph.relu %[[A]]
// CHECK:         graph.transpose
func.func @after_movements(%x: tensor<1x4x2x2xf32>, %w: tensor<8x4x1x1xf32>) -> tensor<1x8x4x1xf32> {
  %b = graph.param "b" : tensor<8x1x1xf32>
  %0 = graph.conv2d %x, %w : (tensor<1x4x2x2xf32>, tensor<8x4x1x1xf32>) -> tensor<1x8x2x2xf32>
  %1 = graph.transpose %0 {axes = [0, 1, 3, 2]} : tensor<1x8x2x2xf32>
  %2 = graph.reshape %1 : (tensor<1x8x2x2xf32>) -> tensor<1x8x4x1xf32>
  %3 = graph.add %2, %b : (tensor<1x8x4x1xf32>, tensor<8x1x1xf32>) -> tensor<1x8x4x1xf32>
  %4 = graph.relu %3 : tensor<1x8x4x1xf32>
  return %4 : tensor<1x8x4x1xf32>
}

// A bound that nothing reaches, and a clip that is not negative anyway.
// CHECK-LABEL: func.func @bounds
// CHECK-NEXT:    %[[C:.*]] = graph.clip %x {min = 0.5, max = 6.0}
// CHECK-NEXT:    return %x, %x, %[[C]]
func.func @bounds(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %low = graph.full {value = -inf} : tensor<f32>
  %high = graph.full {value = inf} : tensor<f32>
  %0 = graph.maximum %x, %low : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = graph.minimum %high, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.clip %x {min = 0.5, max = 6.0} : tensor<4xf32>
  %3 = graph.relu %2 : tensor<4xf32>
  return %0, %1, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Reshapes that drop axes of size 1 follow what is pointwise and what is reduced, next to other reshapes.
// CHECK-LABEL: func.func @sinks
// CHECK:         %[[C:.*]] = graph.conv2d
// CHECK-NEXT:    %[[R:.*]] = graph.relu %[[C]] : tensor<1x8x1x4xf32>
// CHECK:         %[[A:.*]] = graph.add %[[R]], %{{.*}} : (tensor<1x8x1x4xf32>, tensor<1x8x1x1xf32>) -> tensor<1x8x1x4xf32>
// CHECK-NEXT:    %[[S:.*]] = graph.sum %[[A]] {axes = [3], keepdims = true}
// CHECK-NEXT:    %[[Y:.*]] = graph.reshape %[[S]] : (tensor<1x8x1x1xf32>) -> tensor<1x8x1xf32>
// CHECK-NEXT:    return %[[Y]]
func.func @sinks(%x: tensor<1x4x1x4xf32>, %w: tensor<8x4x1x1xf32>) -> tensor<1x8x1xf32> {
  %b = graph.full {value = 2.0} : tensor<1x8x1xf32>
  %0 = graph.conv2d %x, %w : (tensor<1x4x1x4xf32>, tensor<8x4x1x1xf32>) -> tensor<1x8x1x4xf32>
  %1 = graph.reshape %0 : (tensor<1x8x1x4xf32>) -> tensor<1x8x4xf32>
  %2 = graph.relu %1 : tensor<1x8x4xf32>
  %3 = graph.add %2, %b : (tensor<1x8x4xf32>, tensor<1x8x1xf32>) -> tensor<1x8x4xf32>
  %4 = graph.sum %3 {axes = [2], keepdims = true} : (tensor<1x8x4xf32>) -> tensor<1x8x1xf32>
  return %4 : tensor<1x8x1xf32>
}

// CHECK-LABEL: func.func @added_axes
// CHECK-NEXT:    graph.reshape %x : (tensor<2x3xf32>) -> tensor<1x2x3xf32>
func.func @added_axes(%x: tensor<2x3xf32>) -> tensor<1x2x3xf32> {
  %0 = graph.broadcast_to %x : (tensor<2x3xf32>) -> tensor<1x2x3xf32>
  return %0 : tensor<1x2x3xf32>
}

// A part of a concatenation is a part of the operand that it lies in.
// CHECK-LABEL: func.func @slice_within
// CHECK-NEXT:    graph.slice %y {begin = [0, 1], end = [1, 3], strides = [1, 1]}
// CHECK-NEXT:    return
func.func @slice_within(%x: tensor<1x2xf32>, %y: tensor<1x4xf32>) -> tensor<1x2xf32> {
  %0 = graph.concatenate %x, %y {axis = 1} : (tensor<1x2xf32>, tensor<1x4xf32>) -> tensor<1x6xf32>
  %1 = graph.slice %0 {begin = [0, -3], end = [1, -1], strides = [1, 1]} : (tensor<1x6xf32>) -> tensor<1x2xf32>
  return %1 : tensor<1x2xf32>
}

// The last elements of a state and what comes behind it: the state's first ones are not copied.
// CHECK-LABEL: func.func @window_of_state
// CHECK-NEXT:    %[[S:.*]] = graph.slice %state {begin = [0, 3], end = [2, 8], strides = [1, 1]}
// CHECK-NEXT:    graph.concatenate %[[S]], %y {axis = 1}
// CHECK-NEXT:    return
func.func @window_of_state(%state: tensor<2x8xf32>, %y: tensor<2x3xf32>) -> tensor<2x8xf32> {
  %0 = graph.concatenate %state, %y {axis = 1} : (tensor<2x8xf32>, tensor<2x3xf32>) -> tensor<2x11xf32>
  %1 = graph.slice %0 {begin = [0, 3], end = [2, 11], strides = [1, 1]} : (tensor<2x11xf32>) -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}

// A kernel writes its result into the concatenation, of which the slice is a view; only %x is not reached.
// CHECK-LABEL: func.func @slice_across
// CHECK-NEXT:    %[[R:.*]] = graph.relu %y
// CHECK-NEXT:    %[[C:.*]] = graph.concatenate %[[R]], %z {axis = 1}
// CHECK-NEXT:    graph.slice %[[C]] {begin = [0, 1], end = [1, 7], strides = [1, 1]}
// CHECK-NEXT:    return
func.func @slice_across(%x: tensor<1x2xf32>, %y: tensor<1x4xf32>, %z: tensor<1x3xf32>) -> tensor<1x6xf32> {
  %0 = graph.relu %y : tensor<1x4xf32>
  %1 = graph.concatenate %x, %0, %z {axis = 1} : (tensor<1x2xf32>, tensor<1x4xf32>, tensor<1x3xf32>) -> tensor<1x9xf32>
  %2 = graph.slice %1 {begin = [0, 3], end = [1, 9], strides = [1, 1]} : (tensor<1x9xf32>) -> tensor<1x6xf32>
  return %2 : tensor<1x6xf32>
}

// CHECK-LABEL: func.func @split_of_concat
// CHECK-NEXT:    %[[A:.*]] = graph.slice %y {begin = [0, 0], end = [1, 1], strides = [1, 1]}
// CHECK-NEXT:    %[[B:.*]] = graph.slice %y {begin = [0, 1], end = [1, 4], strides = [1, 1]}
// CHECK-NEXT:    return %x, %[[A]], %[[B]]
func.func @split_of_concat(%x: tensor<1x2xf32>, %y: tensor<1x4xf32>) -> (tensor<1x2xf32>, tensor<1x1xf32>, tensor<1x3xf32>) {
  %0 = graph.concatenate %x, %y {axis = 1} : (tensor<1x2xf32>, tensor<1x4xf32>) -> tensor<1x6xf32>
  %1, %2, %3 = graph.split %0 {axis = 1, sections = [2, 1, 3]} : (tensor<1x6xf32>) -> (tensor<1x2xf32>, tensor<1x1xf32>, tensor<1x3xf32>)
  return %1, %2, %3 : tensor<1x2xf32>, tensor<1x1xf32>, tensor<1x3xf32>
}

// Sizes may be symbols: one channel a block moves nothing.
// CHECK-LABEL: @open_units
// CHECK-NEXT:    graph.reshape %x : (tensor<1x3x?x?xf32, #graph.dims<[H, W]>>) -> tensor<1x3x?x?x1xf32, #graph.dims<[H, W]>>
func.func @open_units(%x: tensor<1x3x?x?xf32, #graph.dims<[H, W]>>) -> tensor<1x3x?x?x1xf32, #graph.dims<[H, W]>> {
  %0 = graph.layout_transform %x {src = "NCHW", dst = "NCHW1c"} : (tensor<1x3x?x?xf32, #graph.dims<[H, W]>>) -> tensor<1x3x?x?x1xf32, #graph.dims<[H, W]>>
  return %0 : tensor<1x3x?x?x1xf32, #graph.dims<[H, W]>>
}
