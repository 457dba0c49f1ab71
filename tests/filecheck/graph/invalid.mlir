// RUN: mlc-opt %s --split-input-file --verify-diagnostics

func.func @result_type(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{expected result of type tensor<2x3xf32>, which its operands imply, but got tensor<3x2xf32>}}
  %0 = graph.relu %x : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}

// -----

func.func @element_types(%x: tensor<2xf32>, %y: tensor<2xi32>) {
  // expected-error@+1 {{expected operands with the same element type, but got tensor<2xf32> and tensor<2xi32>; insert a graph.cast}}
  %0 = graph.add %x, %y : (tensor<2xf32>, tensor<2xi32>) -> tensor<2xf32>
  return
}

// -----

func.func @broadcasting(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>) {
  // expected-error@+1 {{expected shapes that broadcast together, but got 2x3 and 2x4: axis 1 is 3 in one and 4 in another}}
  %0 = graph.add %x, %y : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @integers(%x: tensor<2xi32>) {
  // expected-error@+1 {{expected operand to have floating-point elements, but got tensor<2xi32>}}
  %0 = graph.exp %x : tensor<2xi32>
  return
}

// -----

func.func @condition(%x: tensor<2xf32>) {
  // expected-error@+1 {{expected the condition to have i1 elements, but got tensor<2xf32>; insert a graph.cast}}
  %0 = graph.where %x, %x, %x : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @operands(%x: tensor<2xf32>) {
  // expected-error@+1 {{expected 2 operands, but got 1}}
  %0 = graph.add %x : tensor<2xf32>
  return
}

// -----

func.func @no_tensor(%x: f32) {
  // expected-error@+1 {{expected operand 0 to be a tensor, but got f32}}
  %0 = graph.relu %x : f32
  return
}

// -----

func.func @missing_attribute(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{expected attribute 'axes' of graph.sum}}
  %0 = graph.sum %x : (tensor<2x3xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @missing_property(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{expected an attribute 'axes'}}
  %0 = "graph.sum"(%x) : (tensor<2x3xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @attribute_class(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{expected 'axis' to be an integer, but got "one"}}
  %0 = "graph.softmax"(%x) <{axis = "one"}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @unknown_property(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{unknown property 'axes'; the op has: axis}}
  %0 = "graph.softmax"(%x) <{axes = 1 : i64}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @given_twice(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{attribute 'axis' is given twice}}
  %0 = graph.softmax %x {axis = 1, axis = 0} : tensor<2x3xf32>
  return
}

// -----

func.func @axis(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{expected axis in [-2, 2) for a tensor of rank 2, but got 2}}
  %0 = graph.softmax %x {axis = 2} : tensor<2x3xf32>
  return
}

// -----

func.func @bias(%x: tensor<1x8xf32>, %b: tensor<4xf32>) {
  // expected-error@+1 {{expected a bias of type tensor<8xf32> for axis 1 of 1x8, but got tensor<4xf32>}}
  %0 = graph.bias_add %x, %b : (tensor<1x8xf32>, tensor<4xf32>) -> tensor<1x8xf32>
  return
}

// -----

func.func @conv_channels(%x: tensor<1x4x8x8xf32>, %w: tensor<8x3x3x3xf32>) {
  // expected-error@+1 {{expected a kernel for 4 / 1 input channels (channels / groups), but got one for 3}}
  %0 = graph.conv2d %x, %w : (tensor<1x4x8x8xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x6x6xf32>
  return
}

// -----

func.func @conv_window(%x: tensor<1x3x2x8xf32>, %w: tensor<8x3x3x3xf32>) {
  // expected-error@+1 {{expected a window that fits: on axis H it spans 3, but the padded image has 2}}
  %0 = graph.conv2d %x, %w : (tensor<1x3x2x8xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x1x6xf32>
  return
}

// -----

func.func @conv_strides(%x: tensor<1x3x8x8xf32>, %w: tensor<8x3x3x3xf32>) {
  // expected-error@+1 {{expected strides of 2 integers >= 1, but got [0, 1]}}
  %0 = graph.conv2d %x, %w {strides = [0, 1]} : (tensor<1x3x8x8xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x6x6xf32>
  return
}

// -----

func.func @conv_layout(%x: tensor<1x3x8x8xf32>, %w: tensor<8x3x3x3xf32>) {
  // expected-error@+1 {{expected a layout like NCHW, NHWC or NCHW16c, but got 'NCxHW'}}
  %0 = graph.conv2d %x, %w {data_layout = "NCxHW"} : (tensor<1x3x8x8xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x6x6xf32>
  return
}

// -----

func.func @conv_block(%x: tensor<1x1x8x8x8xf32>, %w: tensor<8x3x3x3xf32>) {
  // expected-error@+1 {{expected the image of layout NCHW16c to have 16 inner c, but got 8}}
  %0 = graph.conv2d %x, %w {data_layout = "NCHW16c"} : (tensor<1x1x8x8x8xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x6x6xf32>
  return
}

// -----

func.func @pool_padding(%x: tensor<1x3x8x8xf32>) {
  // expected-error@+1 {{expected padding smaller than the window of 2 on axis H, but got [2, 0]}}
  %0 = graph.max_pool2d %x {pool_size = [2, 2], padding = [2, 0, 0, 0]} : (tensor<1x3x8x8xf32>) -> tensor<1x3x9x7xf32>
  return
}

// -----

func.func @dense(%x: tensor<1x4xf32>, %w: tensor<8x3xf32>) {
  // expected-error@+1 {{expected a weight for the last axis of 1x4, but got one with I = 3}}
  %0 = graph.dense %x, %w : (tensor<1x4xf32>, tensor<8x3xf32>) -> tensor<1x8xf32>
  return
}

// -----

func.func @batch_matmul(%x: tensor<2x4xf32>, %y: tensor<3x5xf32>) {
  // expected-error@+1 {{expected inner sizes that agree, but got 4 in tensor<2x4xf32> and 3 in tensor<3x5xf32>}}
  %0 = graph.batch_matmul %x, %y : (tensor<2x4xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
  return
}

// -----

func.func @reshape(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{expected a result with the elements of tensor<2x3xf32>, but got tensor<5xf32>}}
  %0 = graph.reshape %x : (tensor<2x3xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @transpose(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{expected axes that are a permutation of [0, 1], but got [0, 0]}}
  %0 = graph.transpose %x {axes = [0, 0]} : (tensor<2x3xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @split(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected sections that sum to 4, but got [1, 2]}}
  %0, %1 = graph.split %x {axis = 0, sections = [1, 2]} : (tensor<4xf32>) -> (tensor<1xf32>, tensor<2xf32>)
  return
}

// -----

func.func @layout_transform(%x: tensor<1x2x4x4x16xf32>) {
  // expected-error@+1 {{expected a result that holds tensor<1x2x4x4x16xf32> in layout NCHW, but got tensor<1x12x4x4xf32>}}
  %0 = graph.layout_transform %x {src = "NCHW16c", dst = "NCHW"} : (tensor<1x2x4x4x16xf32>) -> tensor<1x12x4x4xf32>
  return
}

// -----

// expected-error@+2 {{expected a value like dense<0.0> : tensor<2xf32>}}
func.func @constant() {
  %0 = graph.constant 3 : i32
  return
}

// -----

func.func @no_dims(%x: tensor<?x3xf32>) {
  // expected-error@+1 {{expected a #graph.dims encoding that names each of the 1 sizes left as '?', but got tensor<?x3xf32>}}
  %0 = graph.relu %x : tensor<?x3xf32>
  return
}

// -----

func.func @symbolic_sizes(%x: tensor<?xf32, #graph.dims<[H]>>, %y: tensor<?xf32, #graph.dims<[W]>>) {
  // expected-error@+1 {{expected shapes that broadcast together, but got H and W: axis 0 is H in one and W in another}}
  %0 = graph.add %x, %y : (tensor<?xf32, #graph.dims<[H]>>, tensor<?xf32, #graph.dims<[W]>>) -> tensor<?xf32, #graph.dims<[H]>>
  return
}

// -----

// expected-error@+1 {{expected a positive divisor, but got 0}}
func.func @division(%x: tensor<?xf32, #graph.dims<[H floordiv 0]>>) {
  return
}

// -----

// expected-error@+1 {{expected H from 9 on, but got 9 to 3}}
func.func @ends(%x: tensor<?xf32, #graph.dims<[H<9 to 3>]>>) {
  return
}

// -----

// expected-error@+1 {{expected 0 <= low <= high and step >= 1, but got 9 to 3 step 1}}
func.func @symbol() attributes {graph.symbols = {H = #graph.symbol<9 to 3>}} {
  return
}

// -----

func.func @fused_yield(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected graph.yield of (tensor<2xf32>), like the results, but got (tensor<4xf32>)}}
  %0 = graph.fused "k" (%a = %x : tensor<4xf32>) -> tensor<2xf32> {
    graph.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @fused_is_isolated(%x: tensor<4xf32>) {
  // expected-error@+1 {{using value defined out of its IsolatedFromAbove parent}}
  %0 = graph.fused "k" (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    graph.yield %x : tensor<4xf32>
  }
  return
}

// -----

func.func @call(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected a call of type (tensor<2xf32>) -> (tensor<2xf32>), which @k has, but got (tensor<4xf32>) -> (tensor<2xf32>)}}
  %0 = graph.call @k(%x) : (tensor<4xf32>) -> tensor<2xf32>
  return
}
func.func private @k(tensor<2xf32>) -> tensor<2xf32>

// -----

func.func @bitwise_of_floats(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected operands of integers, but got tensor<4xf32>; insert a graph.cast}}
  %0 = graph.bitwise_and %x, %x : tensor<4xf32>
  return
}

// -----

func.func @bitcast_changes_the_width(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected a result with elements as wide as those of tensor<4xf32>, but got tensor<4xi64>}}
  %0 = graph.bitcast %x : (tensor<4xf32>) -> tensor<4xi64>
  return
}

// -----

func.func @bitcast_of_bits(%x: tensor<4xi1>) {
  // expected-error@+1 {{expected elements that are not i1, but got tensor<4xi1> and tensor<4xi8>; use graph.cast}}
  %0 = graph.bitcast %x : (tensor<4xi1>) -> tensor<4xi8>
  return
}

// -----

func.func @gather_by_floats(%x: tensor<2x4xf32>, %i: tensor<2x3xf32>) {
  // expected-error@+1 {{expected indices of integers, but got tensor<2x3xf32>}}
  %0 = graph.gather_elements %x, %i {axis = 1} : (tensor<2x4xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @gather_elements_beyond(%x: tensor<2x4xf32>, %i: tensor<3x3xi64>) {
  // expected-error@+1 {{expected indices no larger than 2x4 but for axis 1, but got tensor<3x3xi64>}}
  %0 = graph.gather_elements %x, %i {axis = 1} : (tensor<2x4xf32>, tensor<3x3xi64>) -> tensor<3x3xf32>
  return
}

// -----

func.func @gather_rows_batch(%x: tensor<2x4xf32>, %i: tensor<3x3xi64>) {
  // expected-error@+1 {{expected indices that share the first 1 axes of tensor<2x4xf32>, but got tensor<3x3xi64>}}
  %0 = graph.gather_rows %x, %i {batch_dims = 1} : (tensor<2x4xf32>, tensor<3x3xi64>) -> tensor<3x3xf32>
  return
}

// -----

func.func @scatter_reduction(%x: tensor<4xf32>, %i: tensor<2xi64>, %u: tensor<2xf32>) {
  // expected-error@+1 {{expected reduction to be one of none, add, mul, max, min, but got 'mean'}}
  %0 = graph.scatter_elements %x, %i, %u {reduction = "mean"} : (tensor<4xf32>, tensor<2xi64>, tensor<2xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @scatter_updates(%x: tensor<4x5xf32>, %i: tensor<2x1xi64>, %u: tensor<2x4xf32>) {
  // expected-error@+1 {{expected updates of type tensor<2x5xf32>, but got tensor<2x4xf32>}}
  %0 = graph.scatter_nd %x, %i, %u : (tensor<4x5xf32>, tensor<2x1xi64>, tensor<2x4xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @scatter_nd_rank(%x: tensor<4x5xf32>, %i: tensor<2xi64>, %u: tensor<2xf32>) {
  // expected-error@+1 {{expected indices of rank 2 whose last axis names axes of tensor<4x5xf32>, but got tensor<2xi64>}}
  %0 = graph.scatter_nd %x, %i, %u : (tensor<4x5xf32>, tensor<2xi64>, tensor<2xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @scatter_elements_beyond(%x: tensor<2x4xf32>, %i: tensor<3x3xi64>, %u: tensor<3x3xf32>) {
  // expected-error@+1 {{expected indices that fit into tensor<2x4xf32> but for axis 1, but got tensor<3x3xi64>}}
  %0 = graph.scatter_elements %x, %i, %u {axis = 1} : (tensor<2x4xf32>, tensor<3x3xi64>, tensor<3x3xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @cumulative_combine(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected combine to be add or mul, but got 'max'}}
  %0 = graph.cumulative %x {combine = "max"} : tensor<4xf32>
  return
}

// -----

func.func @lookup_signed(%q: tensor<4xi8>, %t: tensor<256xi8>) {
  // expected-error@+1 {{expected unsigned bytes to look up, but got tensor<4xi8>}}
  %0 = graph.lookup %q, %t : (tensor<4xi8>, tensor<256xi8>) -> tensor<4xi8>
  return
}

// -----

func.func @lookup_table(%q: tensor<4xui8>, %t: tensor<128xi8>) {
  // expected-error@+1 {{expected a table of 256 elements, one for each byte, but got tensor<128xi8>}}
  %0 = graph.lookup %q, %t : (tensor<4xui8>, tensor<128xi8>) -> tensor<4xi8>
  return
}

// -----

func.func @argsort_axis(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected axis in [-1, 1) for a tensor of rank 1, but got 3}}
  %0 = graph.argsort %x {axis = 3} : (tensor<4xf32>) -> tensor<4xi64>
  return
}

// -----

func.func @argsort_count(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected a count in 0..4, but got 5}}
  %0 = graph.argsort %x {count = 5} : (tensor<4xf32>) -> tensor<5xi64>
  return
}

// -----

func.func @quantize_integers(%x: tensor<2x4xi32>, %s: tensor<f32>, %z: tensor<ui8>) {
  // expected-error@+1 {{expected floats to quantise, but got tensor<2x4xi32>}}
  %0 = graph.quantize %x, %s, %z : (tensor<2x4xi32>, tensor<f32>, tensor<ui8>) -> tensor<2x4xui8>
  return
}

// -----

func.func @quantize_bits(%x: tensor<2x4xf32>, %s: tensor<f32>, %z: tensor<i64>) {
  // expected-error@+1 {{expected quantised values of 8, 16 or 32 bits, but got i64}}
  %0 = graph.quantize %x, %s, %z : (tensor<2x4xf32>, tensor<f32>, tensor<i64>) -> tensor<2x4xi64>
  return
}

// -----

func.func @dequantize_zero(%x: tensor<2x4xui8>, %s: tensor<f32>, %z: tensor<i8>) {
  // expected-error@+1 {{expected a scale of floats and a zero point of ui8, but got tensor<f32> and tensor<i8>}}
  %0 = graph.dequantize %x, %s, %z : (tensor<2x4xui8>, tensor<f32>, tensor<i8>) -> tensor<2x4xf32>
  return
}

// -----

func.func @dequantize_counts(%x: tensor<2x4xui8>, %s: tensor<4xf32>, %z: tensor<ui8>) {
  // expected-error@+1 {{expected one zero point for each scale, but got tensor<4xf32> and tensor<ui8>}}
  %0 = graph.dequantize %x, %s, %z : (tensor<2x4xui8>, tensor<4xf32>, tensor<ui8>) -> tensor<2x4xf32>
  return
}

// -----

func.func @dequantize_axis(%x: tensor<2x4xui8>, %s: tensor<4xf32>, %z: tensor<4xui8>) {
  // expected-error@+1 {{expected one scale, or one for each place of axis 0, but got tensor<4xf32>}}
  %0 = graph.dequantize %x, %s, %z {axis = 0} : (tensor<2x4xui8>, tensor<4xf32>, tensor<4xui8>) -> tensor<2x4xf32>
  return
}

// -----

func.func @bytes_to_floats(%x: tensor<2x4xui8>, %w: tensor<3x4xi8>) {
  // expected-error@+1 {{expected operands of floats no wider than float32, the out_dtype (or integers of 8 or 16 bits and int32)}}
  %0 = graph.dense %x, %w {out_dtype = "float32"} : (tensor<2x4xui8>, tensor<3x4xi8>) -> tensor<2x3xf32>
  return
}

// -----

func.func @fill_with_a_fraction() {
  // expected-error@+1 {{expected value to be an element of tensor<2xi32>, -2147483648 to 2147483647, but got 0.5}}
  %0 = graph.full {value = 0.5} : tensor<2xi32>
  return
}

// -----

func.func @fill_below_the_range() {
  // expected-error@+1 {{expected value to be an element of tensor<2xui8>, 0 to 255, but got -1}}
  %0 = graph.full {value = -1.0} : tensor<2xui8>
  return
}

// -----

func.func @pad_with_infinity(%x: tensor<2xi8>) {
  // expected-error@+1 {{expected value to be an element of tensor<2xi8>, -128 to 127, but got inf}}
  %0 = graph.pad %x {pad_width = [0, 1], value = inf} : (tensor<2xi8>) -> tensor<3xi8>
  return
}

// -----

func.func @winograd_groups(%x: tensor<1x6x8x8x4xf32>, %u: tensor<6x6x2x2x4x4xf32>) {
  // expected-error@+1 {{expected groups that divide 2 blocks of channels, but got 3}}
  %0 = graph.conv2d_winograd %x, %u {groups = 3} : (tensor<1x6x8x8x4xf32>, tensor<6x6x2x2x4x4xf32>) -> tensor<1x2x8x8x4xf32>
  return
}

// -----

func.func @winograd_channels_of_groups(%x: tensor<1x2x8x8x4xf32>, %u: tensor<6x6x2x2x4x4xf32>) {
  // expected-error@+1 {{expected an image in the weights' blocks of (2, 4) channels, 2 times, but got (1, 2, 8, 8, 4)}}
  %0 = graph.conv2d_winograd %x, %u {groups = 2} : (tensor<1x2x8x8x4xf32>, tensor<6x6x2x2x4x4xf32>) -> tensor<1x2x8x8x4xf32>
  return
}
