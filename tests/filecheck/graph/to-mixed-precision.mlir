// RUN: mlc-opt %s -p 'graph-to-mixed-precision{precision=bf16}' --split-input-file | filecheck %s
// RUN: mlc-opt %s -p 'graph-to-mixed-precision{precision=f16}' --split-input-file | filecheck %s --check-prefix=F16
// RUN: mlc-opt %s -p 'graph-to-mixed-precision{precision=bf16 target=x86-64-v4}' --split-input-file | filecheck %s --check-prefix=WEIGHTS
// RUN: mlc-opt %s -p 'graph-to-mixed-precision{precision=bf16 vector-bits=256}' --split-input-file | filecheck %s --check-prefix=NARROW
// RUN: mlc-opt %s -p graph-to-mixed-precision --split-input-file | filecheck %s --check-prefix=SAME
// RUN: mlc-opt %s -p 'graph-to-mixed-precision{precision=bf16},graph-alter-op-layout' --split-input-file | filecheck %s --check-prefix=LAYOUT

// What a convolution reads is rounded where it is computed; the residual is read from there; sums are of f32.
// CHECK-LABEL: func.func @residual
// CHECK-DAG:     %[[x:.*]] = graph.cast %x : (tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xbf16>
// CHECK-DAG:     %[[w:.*]] = graph.cast %w : (tensor<16x16x3x3xf32>) -> tensor<16x16x3x3xbf16>
// CHECK:         %[[c:.*]] = graph.conv2d %[[x]], %[[w]] {{{.*}}out_dtype = "float32"{{.*}}} : (tensor<1x16x8x8xbf16>, tensor<16x16x3x3xbf16>) -> tensor<1x16x8x8xf32>
// CHECK:         %[[y:.*]] = graph.relu %[[c]]
// CHECK:         %[[narrow:.*]] = graph.cast %[[y]] : (tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xbf16>
// CHECK:         %[[d:.*]] = graph.conv2d %[[narrow]], %
// CHECK:         %[[wide:.*]] = graph.cast %[[narrow]] : (tensor<1x16x8x8xbf16>) -> tensor<1x16x8x8xf32>
// CHECK:         graph.add %[[d]], %[[wide]]
// F16-LABEL:   func.func @residual
// F16-NOT:       graph.cast
// WEIGHTS-LABEL: func.func @residual
// WEIGHTS-NOT:   graph.cast
// SAME-LABEL:  func.func @residual
// SAME-NOT:      graph.cast
// LAYOUT-LABEL: func.func @residual
// LAYOUT:        graph.conv2d {{.*}}kernel_layout = "OIHW8i16o2i"
func.func @residual(%x: tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32> {
  %w = graph.param "w" : tensor<16x16x3x3xf32>
  %0 = graph.conv2d %x, %w {padding = [1, 1, 1, 1]} : (tensor<1x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x8x8xf32>
  %1 = graph.relu %0 : tensor<1x16x8x8xf32>
  %2 = graph.conv2d %1, %w {padding = [1, 1, 1, 1]} : (tensor<1x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x8x8xf32>
  %3 = graph.add %2, %1 : tensor<1x16x8x8xf32>
  return %3 : tensor<1x16x8x8xf32>
}

// -----

// Casts go above what only moves numbers, so that they are part of the kernel that computes them.
// CHECK-LABEL: func.func @moves
// CHECK:         %[[e:.*]] = graph.exp %x
// CHECK:         %[[n:.*]] = graph.cast %[[e]]
// CHECK:         %[[r:.*]] = graph.reshape %[[n]] {{.*}} -> tensor<2x8xbf16>
// CHECK:         graph.dense %[[r]], %
// F16-LABEL:   func.func @moves
// F16:           %[[w:.*]] = graph.cast %w : (tensor<4x8xf32>) -> tensor<4x8xf16>
// F16:           graph.dense %{{.*}}, %[[w]] {out_dtype = "float32"} : (tensor<2x8xf32>, tensor<4x8xf16>) -> tensor<2x4xf32>
// WEIGHTS-LABEL: func.func @moves
// WEIGHTS:       %[[w:.*]] = graph.cast %w : (tensor<4x8xf32>) -> tensor<4x8xbf16>
// WEIGHTS:       graph.dense %{{.*}}, %[[w]] {out_dtype = "float32"} : (tensor<2x8xf32>, tensor<4x8xbf16>) -> tensor<2x4xf32>
// LAYOUT-LABEL: func.func @moves
// LAYOUT:        graph.dense {{.*}}kernel_layout = "OI4o2i"
func.func @moves(%x: tensor<4x4xf32>) -> tensor<2x4xf32> {
  %w = graph.param "w" : tensor<4x8xf32>
  %0 = graph.exp %x : tensor<4x4xf32>
  %1 = graph.reshape %0 : (tensor<4x4xf32>) -> tensor<2x8xf32>
  %2 = graph.dense %1, %w : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}

// -----

// Three channels are padded to two words.
// LAYOUT-LABEL: func.func @three
// LAYOUT:        graph.layout_transform %{{.*}} -> tensor<1x1x8x8x4xbf16>
// LAYOUT:        graph.conv2d {{.*}}kernel_layout = "OIHW2i4o2i"
func.func @three(%x: tensor<1x3x8x8xf32>) -> tensor<1x4x8x8xf32> {
  %w = graph.param "w" : tensor<4x3x3x3xf32>
  %0 = graph.conv2d %x, %w {padding = [1, 1, 1, 1]} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x8x8xf32>
  return %0 : tensor<1x4x8x8xf32>
}

// -----

// No words: one channel, one channel a group, weights that are computed.
// CHECK-LABEL: func.func @keeps
// CHECK-NOT:     graph.cast
func.func @keeps(%x: tensor<1x3x8x8xf32>, %y: tensor<1x1x8x8xf32>, %w: tensor<4x3x1x1xf32>) -> (tensor<1x4x8x8xf32>, tensor<1x3x8x8xf32>) {
  %a = graph.param "a" : tensor<4x1x1x1xf32>
  %b = graph.param "b" : tensor<3x1x1x1xf32>
  %0 = graph.conv2d %y, %a : (tensor<1x1x8x8xf32>, tensor<4x1x1x1xf32>) -> tensor<1x4x8x8xf32>
  %1 = graph.conv2d %x, %b {groups = 3} : (tensor<1x3x8x8xf32>, tensor<3x1x1x1xf32>) -> tensor<1x3x8x8xf32>
  %2 = graph.conv2d %x, %w : (tensor<1x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x8x8xf32>
  %3 = graph.add %0, %2 : tensor<1x4x8x8xf32>
  return %3, %1 : tensor<1x4x8x8xf32>, tensor<1x3x8x8xf32>
}

// -----

// 24 channels are blocks of 8, half a vector of 16: in f32 two pixels share one. A machine with vectors of 8 is another.
// CHECK-LABEL: func.func @half
// CHECK-NOT:     graph.cast
// NARROW-LABEL: func.func @half
// NARROW:        graph.conv2d {{.*}}out_dtype = "float32"
func.func @half(%x: tensor<1x16x8x8xf32>) -> tensor<1x24x8x8xf32> {
  %w = graph.param "w" : tensor<24x16x3x3xf32>
  %0 = graph.conv2d %x, %w {padding = [1, 1, 1, 1]} : (tensor<1x16x8x8xf32>, tensor<24x16x3x3xf32>) -> tensor<1x24x8x8xf32>
  return %0 : tensor<1x24x8x8xf32>
}
