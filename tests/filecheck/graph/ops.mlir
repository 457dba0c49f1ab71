// RUN: MLC_ROUNDTRIP
// RUN: mlc-opt %s | filecheck %s

// Every op once, in its custom form, from its own samples.

// CHECK-LABEL: func.func @relu(
// CHECK: %x = graph.relu %a : tensor<2x3x5xf32>
func.func @relu(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.relu %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @exp(
// CHECK: %x = graph.exp %a : tensor<2x3x5xf32>
func.func @exp(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.exp %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @log(
// CHECK: %x = graph.log %a : tensor<2x3x5xf32>
func.func @log(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.log %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @tanh(
// CHECK: %x = graph.tanh %a : tensor<2x3x5xf32>
func.func @tanh(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.tanh %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @sigmoid(
// CHECK: %x = graph.sigmoid %a : tensor<2x3x5xf32>
func.func @sigmoid(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.sigmoid %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @erf(
// CHECK: %x = graph.erf %a : tensor<2x3x5xf32>
func.func @erf(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.erf %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @sqrt(
// CHECK: %x = graph.sqrt %a : tensor<2x3x5xf32>
func.func @sqrt(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.sqrt %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @rsqrt(
// CHECK: %x = graph.rsqrt %a : tensor<2x3x5xf32>
func.func @rsqrt(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.rsqrt %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @reciprocal(
// CHECK: %x = graph.reciprocal %a : tensor<2x3x5xf32>
func.func @reciprocal(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.reciprocal %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @neg(
// CHECK: %x = graph.neg %a : tensor<2x3x5xf32>
func.func @neg(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.neg %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @abs(
// CHECK: %x = graph.abs %a : tensor<2x3x5xf32>
func.func @abs(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.abs %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @floor(
// CHECK: %x = graph.floor %a : tensor<2x3x5xf32>
func.func @floor(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.floor %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @ceil(
// CHECK: %x = graph.ceil %a : tensor<2x3x5xf32>
func.func @ceil(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.ceil %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @round(
// CHECK: %x = graph.round %a : tensor<2x3x5xf32>
func.func @round(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.round %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @hard_sigmoid(
// CHECK: %x = graph.hard_sigmoid %a : tensor<2x3x5xf32>
func.func @hard_sigmoid(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.hard_sigmoid %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @hard_swish(
// CHECK: %x = graph.hard_swish %a : tensor<2x3x5xf32>
func.func @hard_swish(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.hard_swish %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @leaky_relu(
// CHECK: %x = graph.leaky_relu %a : tensor<2x3x5xf32>
func.func @leaky_relu(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.leaky_relu %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @elu(
// CHECK: %x = graph.elu %a : tensor<2x3x5xf32>
func.func @elu(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.elu %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @softplus(
// CHECK: %x = graph.softplus %a : tensor<2x3x5xf32>
func.func @softplus(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.softplus %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @gelu(
// CHECK: %x = graph.gelu %a : tensor<2x3x5xf32>
func.func @gelu(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.gelu %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @silu(
// CHECK: %x = graph.silu %a : tensor<2x3x5xf32>
func.func @silu(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.silu %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @logical_not(
// CHECK: %x = graph.logical_not %a : tensor<2x3x5xi1>
func.func @logical_not(%a: tensor<2x3x5xi1>) -> tensor<2x3x5xi1> {
  %x = graph.logical_not %a : tensor<2x3x5xi1>
  return %x : tensor<2x3x5xi1>
}
// CHECK-LABEL: func.func @sin(
// CHECK: %x = graph.sin %a : tensor<2x3x5xf32>
func.func @sin(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.sin %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @cos(
// CHECK: %x = graph.cos %a : tensor<2x3x5xf32>
func.func @cos(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.cos %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @sign(
// CHECK: %x = graph.sign %a : tensor<2x3x5xf32>
func.func @sign(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.sign %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @clip(
// CHECK: %x = graph.clip %a : tensor<2x3x5xf32>
func.func @clip(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.clip %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @identity(
// CHECK: %x = graph.identity %a : tensor<2x3x5xf32>
func.func @identity(%a: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %x = graph.identity %a : tensor<2x3x5xf32>
  return %x : tensor<2x3x5xf32>
}
// CHECK-LABEL: func.func @cast(
// CHECK: %x = graph.cast %a : (tensor<2x3xf32>) -> tensor<2x3xi64>
func.func @cast(%a: tensor<2x3xf32>) -> tensor<2x3xi64> {
  %x = graph.cast %a : (tensor<2x3xf32>) -> tensor<2x3xi64>
  return %x : tensor<2x3xi64>
}
// CHECK-LABEL: func.func @add(
// CHECK: %x = graph.add %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
func.func @add(%a: tensor<2x1xf32>, %b: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %x = graph.add %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
  return %x : tensor<2x5xf32>
}
// CHECK-LABEL: func.func @subtract(
// CHECK: %x = graph.subtract %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
func.func @subtract(%a: tensor<2x1xf32>, %b: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %x = graph.subtract %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
  return %x : tensor<2x5xf32>
}
// CHECK-LABEL: func.func @multiply(
// CHECK: %x = graph.multiply %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
func.func @multiply(%a: tensor<2x1xf32>, %b: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %x = graph.multiply %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
  return %x : tensor<2x5xf32>
}
// CHECK-LABEL: func.func @divide(
// CHECK: %x = graph.divide %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
func.func @divide(%a: tensor<2x1xf32>, %b: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %x = graph.divide %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
  return %x : tensor<2x5xf32>
}
// CHECK-LABEL: func.func @power(
// CHECK: %x = graph.power %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
func.func @power(%a: tensor<2x1xf32>, %b: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %x = graph.power %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
  return %x : tensor<2x5xf32>
}
// CHECK-LABEL: func.func @maximum(
// CHECK: %x = graph.maximum %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
func.func @maximum(%a: tensor<2x1xf32>, %b: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %x = graph.maximum %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
  return %x : tensor<2x5xf32>
}
// CHECK-LABEL: func.func @minimum(
// CHECK: %x = graph.minimum %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
func.func @minimum(%a: tensor<2x1xf32>, %b: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %x = graph.minimum %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
  return %x : tensor<2x5xf32>
}
// CHECK-LABEL: func.func @mod(
// CHECK: %x = graph.mod %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
func.func @mod(%a: tensor<2x1xf32>, %b: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %x = graph.mod %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
  return %x : tensor<2x5xf32>
}
// CHECK-LABEL: func.func @equal(
// CHECK: %x = graph.equal %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xi1>
func.func @equal(%a: tensor<2x1xf32>, %b: tensor<2x5xf32>) -> tensor<2x5xi1> {
  %x = graph.equal %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xi1>
  return %x : tensor<2x5xi1>
}
// CHECK-LABEL: func.func @less(
// CHECK: %x = graph.less %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xi1>
func.func @less(%a: tensor<2x1xf32>, %b: tensor<2x5xf32>) -> tensor<2x5xi1> {
  %x = graph.less %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xi1>
  return %x : tensor<2x5xi1>
}
// CHECK-LABEL: func.func @greater(
// CHECK: %x = graph.greater %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xi1>
func.func @greater(%a: tensor<2x1xf32>, %b: tensor<2x5xf32>) -> tensor<2x5xi1> {
  %x = graph.greater %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xi1>
  return %x : tensor<2x5xi1>
}
// CHECK-LABEL: func.func @less_equal(
// CHECK: %x = graph.less_equal %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xi1>
func.func @less_equal(%a: tensor<2x1xf32>, %b: tensor<2x5xf32>) -> tensor<2x5xi1> {
  %x = graph.less_equal %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xi1>
  return %x : tensor<2x5xi1>
}
// CHECK-LABEL: func.func @greater_equal(
// CHECK: %x = graph.greater_equal %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xi1>
func.func @greater_equal(%a: tensor<2x1xf32>, %b: tensor<2x5xf32>) -> tensor<2x5xi1> {
  %x = graph.greater_equal %a, %b : (tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x5xi1>
  return %x : tensor<2x5xi1>
}
// CHECK-LABEL: func.func @logical_and(
// CHECK: %x = graph.logical_and %a, %b : (tensor<2x1xi1>, tensor<2x5xi1>) -> tensor<2x5xi1>
func.func @logical_and(%a: tensor<2x1xi1>, %b: tensor<2x5xi1>) -> tensor<2x5xi1> {
  %x = graph.logical_and %a, %b : (tensor<2x1xi1>, tensor<2x5xi1>) -> tensor<2x5xi1>
  return %x : tensor<2x5xi1>
}
// CHECK-LABEL: func.func @logical_or(
// CHECK: %x = graph.logical_or %a, %b : (tensor<2x1xi1>, tensor<2x5xi1>) -> tensor<2x5xi1>
func.func @logical_or(%a: tensor<2x1xi1>, %b: tensor<2x5xi1>) -> tensor<2x5xi1> {
  %x = graph.logical_or %a, %b : (tensor<2x1xi1>, tensor<2x5xi1>) -> tensor<2x5xi1>
  return %x : tensor<2x5xi1>
}
// CHECK-LABEL: func.func @logical_xor(
// CHECK: %x = graph.logical_xor %a, %b : (tensor<2x1xi1>, tensor<2x5xi1>) -> tensor<2x5xi1>
func.func @logical_xor(%a: tensor<2x1xi1>, %b: tensor<2x5xi1>) -> tensor<2x5xi1> {
  %x = graph.logical_xor %a, %b : (tensor<2x1xi1>, tensor<2x5xi1>) -> tensor<2x5xi1>
  return %x : tensor<2x5xi1>
}
// CHECK-LABEL: func.func @where(
// CHECK: %x = graph.where %a, %b, %c : (tensor<3x1xi1>, tensor<2x3x4xf32>, tensor<f32>) -> tensor<2x3x4xf32>
func.func @where(%a: tensor<3x1xi1>, %b: tensor<2x3x4xf32>, %c: tensor<f32>) -> tensor<2x3x4xf32> {
  %x = graph.where %a, %b, %c : (tensor<3x1xi1>, tensor<2x3x4xf32>, tensor<f32>) -> tensor<2x3x4xf32>
  return %x : tensor<2x3x4xf32>
}
// CHECK-LABEL: func.func @bias_add(
// CHECK: %x = graph.bias_add %a, %b {axis = -1} : tensor<2x5xf32>
func.func @bias_add(%a: tensor<2x5xf32>, %b: tensor<5xf32>) -> tensor<2x5xf32> {
  %x = graph.bias_add %a, %b {axis = -1} : tensor<2x5xf32>
  return %x : tensor<2x5xf32>
}
// CHECK-LABEL: func.func @prelu(
// CHECK: %x = graph.prelu %a, %b : (tensor<2x3x4xf32>, tensor<3x1xf32>) -> tensor<2x3x4xf32>
func.func @prelu(%a: tensor<2x3x4xf32>, %b: tensor<3x1xf32>) -> tensor<2x3x4xf32> {
  %x = graph.prelu %a, %b : (tensor<2x3x4xf32>, tensor<3x1xf32>) -> tensor<2x3x4xf32>
  return %x : tensor<2x3x4xf32>
}
// CHECK-LABEL: func.func @sum(
// CHECK: %x = graph.sum %a {axes = [0, 2]} : (tensor<2x3x4xf32>) -> tensor<3xf32>
func.func @sum(%a: tensor<2x3x4xf32>) -> tensor<3xf32> {
  %x = graph.sum %a {axes = [0, 2]} : (tensor<2x3x4xf32>) -> tensor<3xf32>
  return %x : tensor<3xf32>
}
// CHECK-LABEL: func.func @mean(
// CHECK: %x = graph.mean %a {axes = [0, 2]} : (tensor<2x3x4xf32>) -> tensor<3xf32>
func.func @mean(%a: tensor<2x3x4xf32>) -> tensor<3xf32> {
  %x = graph.mean %a {axes = [0, 2]} : (tensor<2x3x4xf32>) -> tensor<3xf32>
  return %x : tensor<3xf32>
}
// CHECK-LABEL: func.func @max(
// CHECK: %x = graph.max %a {axes = [0, 2]} : (tensor<2x3x4xf32>) -> tensor<3xf32>
func.func @max(%a: tensor<2x3x4xf32>) -> tensor<3xf32> {
  %x = graph.max %a {axes = [0, 2]} : (tensor<2x3x4xf32>) -> tensor<3xf32>
  return %x : tensor<3xf32>
}
// CHECK-LABEL: func.func @min(
// CHECK: %x = graph.min %a {axes = [0, 2]} : (tensor<2x3x4xf32>) -> tensor<3xf32>
func.func @min(%a: tensor<2x3x4xf32>) -> tensor<3xf32> {
  %x = graph.min %a {axes = [0, 2]} : (tensor<2x3x4xf32>) -> tensor<3xf32>
  return %x : tensor<3xf32>
}
// CHECK-LABEL: func.func @prod(
// CHECK: %x = graph.prod %a {axes = [0, 2]} : (tensor<2x3x4xf32>) -> tensor<3xf32>
func.func @prod(%a: tensor<2x3x4xf32>) -> tensor<3xf32> {
  %x = graph.prod %a {axes = [0, 2]} : (tensor<2x3x4xf32>) -> tensor<3xf32>
  return %x : tensor<3xf32>
}
// CHECK-LABEL: func.func @argmax(
// CHECK: %x = graph.argmax %a {axes = [-1]} : (tensor<5x7xf32>) -> tensor<5xi64>
func.func @argmax(%a: tensor<5x7xf32>) -> tensor<5xi64> {
  %x = graph.argmax %a {axes = [-1]} : (tensor<5x7xf32>) -> tensor<5xi64>
  return %x : tensor<5xi64>
}
// CHECK-LABEL: func.func @argmin(
// CHECK: %x = graph.argmin %a {axes = [-1]} : (tensor<5x7xf32>) -> tensor<5xi64>
func.func @argmin(%a: tensor<5x7xf32>) -> tensor<5xi64> {
  %x = graph.argmin %a {axes = [-1]} : (tensor<5x7xf32>) -> tensor<5xi64>
  return %x : tensor<5xi64>
}
// CHECK-LABEL: func.func @softmax(
// CHECK: %x = graph.softmax %a {axis = 1} : tensor<2x5x3xf32>
func.func @softmax(%a: tensor<2x5x3xf32>) -> tensor<2x5x3xf32> {
  %x = graph.softmax %a {axis = 1} : tensor<2x5x3xf32>
  return %x : tensor<2x5x3xf32>
}
// CHECK-LABEL: func.func @log_softmax(
// CHECK: %x = graph.log_softmax %a {axis = 1} : tensor<2x5x3xf32>
func.func @log_softmax(%a: tensor<2x5x3xf32>) -> tensor<2x5x3xf32> {
  %x = graph.log_softmax %a {axis = 1} : tensor<2x5x3xf32>
  return %x : tensor<2x5x3xf32>
}
// CHECK-LABEL: func.func @layer_norm(
// CHECK: %x = graph.layer_norm %a, %b, %c {axis = 1} : tensor<2x3x4xf32>
func.func @layer_norm(%a: tensor<2x3x4xf32>, %b: tensor<3x4xf32>, %c: tensor<3x4xf32>) -> tensor<2x3x4xf32> {
  %x = graph.layer_norm %a, %b, %c {axis = 1} : tensor<2x3x4xf32>
  return %x : tensor<2x3x4xf32>
}
// CHECK-LABEL: func.func @batch_norm(
// CHECK: %x = graph.batch_norm %a, %b, %c, %d, %e : tensor<2x3x4x4xf32>
func.func @batch_norm(%a: tensor<2x3x4x4xf32>, %b: tensor<3xf32>, %c: tensor<3xf32>, %d: tensor<3xf32>, %e: tensor<3xf32>) -> tensor<2x3x4x4xf32> {
  %x = graph.batch_norm %a, %b, %c, %d, %e : tensor<2x3x4x4xf32>
  return %x : tensor<2x3x4x4xf32>
}
// CHECK-LABEL: func.func @instance_norm(
// CHECK: %x = graph.instance_norm %a, %b, %c : tensor<2x3x4x5xf32>
func.func @instance_norm(%a: tensor<2x3x4x5xf32>, %b: tensor<3xf32>, %c: tensor<3xf32>) -> tensor<2x3x4x5xf32> {
  %x = graph.instance_norm %a, %b, %c : tensor<2x3x4x5xf32>
  return %x : tensor<2x3x4x5xf32>
}
// CHECK-LABEL: func.func @conv2d(
// CHECK: %x = graph.conv2d %a, %b {groups = 7, channels = 7, data_layout = "NCHW4c", kernel_layout = "OIHW4o"} : (tensor<1x2x5x5x4xf32>, tensor<2x1x3x3x4xf32>) -> tensor<1x2x3x3x4xf32>
func.func @conv2d(%a: tensor<1x2x5x5x4xf32>, %b: tensor<2x1x3x3x4xf32>) -> tensor<1x2x3x3x4xf32> {
  %x = graph.conv2d %a, %b {groups = 7, channels = 7, data_layout = "NCHW4c", kernel_layout = "OIHW4o"} : (tensor<1x2x5x5x4xf32>, tensor<2x1x3x3x4xf32>) -> tensor<1x2x3x3x4xf32>
  return %x : tensor<1x2x3x3x4xf32>
}
// CHECK-LABEL: func.func @max_pool2d(
// CHECK: %x = graph.max_pool2d %a {pool_size = [3, 2], strides = [2, 2], layout = "NCHW4c"} : (tensor<1x2x6x6x4xf32>) -> tensor<1x2x2x3x4xf32>
func.func @max_pool2d(%a: tensor<1x2x6x6x4xf32>) -> tensor<1x2x2x3x4xf32> {
  %x = graph.max_pool2d %a {pool_size = [3, 2], strides = [2, 2], layout = "NCHW4c"} : (tensor<1x2x6x6x4xf32>) -> tensor<1x2x2x3x4xf32>
  return %x : tensor<1x2x2x3x4xf32>
}
// CHECK-LABEL: func.func @avg_pool2d(
// CHECK: %x = graph.avg_pool2d %a {pool_size = [3, 2], strides = [2, 2], padding = [1, 1, 1, 0], ceil_mode = true, count_include_pad = true} : (tensor<1x2x8x7xf32>) -> tensor<1x2x5x4xf32>
func.func @avg_pool2d(%a: tensor<1x2x8x7xf32>) -> tensor<1x2x5x4xf32> {
  %x = graph.avg_pool2d %a {pool_size = [3, 2], strides = [2, 2], padding = [1, 1, 1, 0], ceil_mode = true, count_include_pad = true} : (tensor<1x2x8x7xf32>) -> tensor<1x2x5x4xf32>
  return %x : tensor<1x2x5x4xf32>
}
// CHECK-LABEL: func.func @dense(
// CHECK: %x = graph.dense %a, %b {kernel_layout = "IO4o"} : (tensor<3x7xf32>, tensor<7x2x4xf32>) -> tensor<3x8xf32>
func.func @dense(%a: tensor<3x7xf32>, %b: tensor<7x2x4xf32>) -> tensor<3x8xf32> {
  %x = graph.dense %a, %b {kernel_layout = "IO4o"} : (tensor<3x7xf32>, tensor<7x2x4xf32>) -> tensor<3x8xf32>
  return %x : tensor<3x8xf32>
}
// CHECK-LABEL: func.func @batch_matmul(
// CHECK: %x = graph.batch_matmul %a, %b {transpose_a = true} : (tensor<2x1x4x3xf32>, tensor<6x4x5xf32>) -> tensor<2x6x3x5xf32>
func.func @batch_matmul(%a: tensor<2x1x4x3xf32>, %b: tensor<6x4x5xf32>) -> tensor<2x6x3x5xf32> {
  %x = graph.batch_matmul %a, %b {transpose_a = true} : (tensor<2x1x4x3xf32>, tensor<6x4x5xf32>) -> tensor<2x6x3x5xf32>
  return %x : tensor<2x6x3x5xf32>
}
// CHECK-LABEL: func.func @reshape(
// CHECK: %x = graph.reshape %a : (tensor<4xf32>) -> tensor<1x4x1xf32>
func.func @reshape(%a: tensor<4xf32>) -> tensor<1x4x1xf32> {
  %x = graph.reshape %a : (tensor<4xf32>) -> tensor<1x4x1xf32>
  return %x : tensor<1x4x1xf32>
}
// CHECK-LABEL: func.func @transpose(
// CHECK: %x = graph.transpose %a {axes = [2, 0, 1]} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
func.func @transpose(%a: tensor<2x3x4xf32>) -> tensor<4x2x3xf32> {
  %x = graph.transpose %a {axes = [2, 0, 1]} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  return %x : tensor<4x2x3xf32>
}
// CHECK-LABEL: func.func @broadcast_to(
// CHECK: %x = graph.broadcast_to %a : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
func.func @broadcast_to(%a: tensor<3x1xf32>) -> tensor<2x3x4xf32> {
  %x = graph.broadcast_to %a : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
  return %x : tensor<2x3x4xf32>
}
// CHECK-LABEL: func.func @concatenate(
// CHECK: %x = graph.concatenate %a, %b, %c {axis = 1} : (tensor<2x3xf32>, tensor<2x5xf32>, tensor<2x1xf32>) -> tensor<2x9xf32>
func.func @concatenate(%a: tensor<2x3xf32>, %b: tensor<2x5xf32>, %c: tensor<2x1xf32>) -> tensor<2x9xf32> {
  %x = graph.concatenate %a, %b, %c {axis = 1} : (tensor<2x3xf32>, tensor<2x5xf32>, tensor<2x1xf32>) -> tensor<2x9xf32>
  return %x : tensor<2x9xf32>
}
// CHECK-LABEL: func.func @slice(
// CHECK: %x = graph.slice %a {begin = [-1], end = [-6], strides = [-2]} : (tensor<5xf32>) -> tensor<3xf32>
func.func @slice(%a: tensor<5xf32>) -> tensor<3xf32> {
  %x = graph.slice %a {begin = [-1], end = [-6], strides = [-2]} : (tensor<5xf32>) -> tensor<3xf32>
  return %x : tensor<3xf32>
}
// CHECK-LABEL: func.func @split(
// CHECK: %x, %y, %z = graph.split %a {axis = 1, sections = [1, 3, 2]} : (tensor<2x6xf32>) -> (tensor<2x1xf32>, tensor<2x3xf32>, tensor<2x2xf32>)
func.func @split(%a: tensor<2x6xf32>) -> (tensor<2x1xf32>, tensor<2x3xf32>, tensor<2x2xf32>) {
  %x, %y, %z = graph.split %a {axis = 1, sections = [1, 3, 2]} : (tensor<2x6xf32>) -> (tensor<2x1xf32>, tensor<2x3xf32>, tensor<2x2xf32>)
  return %x, %y, %z : tensor<2x1xf32>, tensor<2x3xf32>, tensor<2x2xf32>
}
// CHECK-LABEL: func.func @pad(
// CHECK: %x = graph.pad %a {pad_width = [0, 1, 2, 0], mode = "reflect"} : (tensor<3x4xf32>) -> tensor<4x6xf32>
func.func @pad(%a: tensor<3x4xf32>) -> tensor<4x6xf32> {
  %x = graph.pad %a {pad_width = [0, 1, 2, 0], mode = "reflect"} : (tensor<3x4xf32>) -> tensor<4x6xf32>
  return %x : tensor<4x6xf32>
}
// CHECK-LABEL: func.func @take(
// CHECK: %x = graph.take %a, %b {axis = 1} : (tensor<2x5xf32>, tensor<i32>) -> tensor<2xf32>
func.func @take(%a: tensor<2x5xf32>, %b: tensor<i32>) -> tensor<2xf32> {
  %x = graph.take %a, %b {axis = 1} : (tensor<2x5xf32>, tensor<i32>) -> tensor<2xf32>
  return %x : tensor<2xf32>
}
// CHECK-LABEL: func.func @layout_transform(
// CHECK: %x = graph.layout_transform %a {src = "OIHW", dst = "OIHW4i8o"} : (tensor<6x3x2x2xf32>) -> tensor<1x1x2x2x4x8xf32>
func.func @layout_transform(%a: tensor<6x3x2x2xf32>) -> tensor<1x1x2x2x4x8xf32> {
  %x = graph.layout_transform %a {src = "OIHW", dst = "OIHW4i8o"} : (tensor<6x3x2x2xf32>) -> tensor<1x1x2x2x4x8xf32>
  return %x : tensor<1x1x2x2x4x8xf32>
}
// CHECK-LABEL: func.func @tile(
// CHECK: %x = graph.tile %a {reps = [2, 3]} : (tensor<2x3xf32>) -> tensor<4x9xf32>
func.func @tile(%a: tensor<2x3xf32>) -> tensor<4x9xf32> {
  %x = graph.tile %a {reps = [2, 3]} : (tensor<2x3xf32>) -> tensor<4x9xf32>
  return %x : tensor<4x9xf32>
}
// CHECK-LABEL: func.func @flip(
// CHECK: %x = graph.flip %a {axes = [0, -1]} : tensor<3x4xf32>
func.func @flip(%a: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %x = graph.flip %a {axes = [0, -1]} : tensor<3x4xf32>
  return %x : tensor<3x4xf32>
}
// CHECK-LABEL: func.func @constant(
// CHECK: %x = graph.constant dense<[1.000000e+00, 2.000000e+00, -3.000000e+00]> : tensor<3xf32>
func.func @constant() -> tensor<3xf32> {
  %x = graph.constant dense<[1.000000e+00, 2.000000e+00, -3.000000e+00]> : tensor<3xf32>
  return %x : tensor<3xf32>
}
// CHECK-LABEL: func.func @full(
// CHECK: %x = graph.full {value = 3.0} : tensor<4xi32>
func.func @full() -> tensor<4xi32> {
  %x = graph.full {value = 3.0} : tensor<4xi32>
  return %x : tensor<4xi32>
}
// CHECK-LABEL: func.func @iota(
// CHECK: %x = graph.iota {axis = 1} : tensor<2x5xi64>
func.func @iota() -> tensor<2x5xi64> {
  %x = graph.iota {axis = 1} : tensor<2x5xi64>
  return %x : tensor<2x5xi64>
}
// CHECK-LABEL: func.func @band(
// CHECK: %x = graph.band {lower = -3, upper = 0, inside = 0.0, outside = -inf} : tensor<4x4xf32>
func.func @band() -> tensor<4x4xf32> {
  %x = graph.band {lower = -3, upper = 0, inside = 0.0, outside = -inf} : tensor<4x4xf32>
  return %x : tensor<4x4xf32>
}
// CHECK-LABEL: func.func @param(
// CHECK: %w = graph.param "fc.weight" : tensor<256x784xf32>
func.func @param() -> tensor<256x784xf32> {
  %w = graph.param "fc.weight" : tensor<256x784xf32>
  return %w : tensor<256x784xf32>
}
// CHECK-LABEL: func.func @attributes(
// CHECK: graph.relu %a {my.mine = "here", my.note} : tensor<4xf32>
func.func @attributes(%a: tensor<4xf32>) -> tensor<4xf32> {
  %x = graph.relu %a {my.mine = "here", my.note} : tensor<4xf32>
  return %x : tensor<4xf32>
}
// CHECK-LABEL: func.func @conv2d_transpose(
// CHECK: %x = graph.conv2d_transpose %a, %b {strides = [2, 2]} : (tensor<1x3x4x5xf32>, tensor<3x4x2x2xf32>) -> tensor<1x4x8x10xf32>
func.func @conv2d_transpose(%a: tensor<1x3x4x5xf32>, %b: tensor<3x4x2x2xf32>) -> tensor<1x4x8x10xf32> {
  %x = graph.conv2d_transpose %a, %b {strides = [2, 2]} : (tensor<1x3x4x5xf32>, tensor<3x4x2x2xf32>) -> tensor<1x4x8x10xf32>
  return %x : tensor<1x4x8x10xf32>
}
// CHECK-LABEL: func.func @resize2d(
// CHECK: %x = graph.resize2d %a {size = [8, 15], coordinates = "asymmetric", rounding = "floor"} : (tensor<1x2x4x5xf32>) -> tensor<1x2x8x15xf32>
func.func @resize2d(%a: tensor<1x2x4x5xf32>) -> tensor<1x2x8x15xf32> {
  %x = graph.resize2d %a {size = [8, 15], coordinates = "asymmetric", rounding = "floor"} : (tensor<1x2x4x5xf32>) -> tensor<1x2x8x15xf32>
  return %x : tensor<1x2x8x15xf32>
}
// CHECK-LABEL: func.func @winograd_weight(
// CHECK: %x = graph.winograd_weight %a, %b {block_in = 4, block_out = 4} : (tensor<8x4x3x3xf32>, tensor<4x3xf32>) -> tensor<4x4x2x1x4x4xf32>
func.func @winograd_weight(%a: tensor<8x4x3x3xf32>, %b: tensor<4x3xf32>) -> tensor<4x4x2x1x4x4xf32> {
  %x = graph.winograd_weight %a, %b {block_in = 4, block_out = 4} : (tensor<8x4x3x3xf32>, tensor<4x3xf32>) -> tensor<4x4x2x1x4x4xf32>
  return %x : tensor<4x4x2x1x4x4xf32>
}
// CHECK-LABEL: func.func @conv2d_winograd(
// CHECK: %x = graph.conv2d_winograd %a, %b : (tensor<1x2x8x9x4xf32>, tensor<6x6x2x2x4x4xf32>) -> tensor<1x2x8x9x4xf32>
func.func @conv2d_winograd(%a: tensor<1x2x8x9x4xf32>, %b: tensor<6x6x2x2x4x4xf32>) -> tensor<1x2x8x9x4xf32> {
  %x = graph.conv2d_winograd %a, %b : (tensor<1x2x8x9x4xf32>, tensor<6x6x2x2x4x4xf32>) -> tensor<1x2x8x9x4xf32>
  return %x : tensor<1x2x8x9x4xf32>
}

// Attributes at their defaults are not printed, and infinities are words.
// CHECK-LABEL: func.func @defaults(
// CHECK: graph.softmax %a : tensor<4xf32>
// CHECK: graph.clip %x {min = 0.0} : tensor<4xf32>
// CHECK: graph.clip %y {min = -1.0e-07, max = 6.0} : tensor<4xf32>
// CHECK: graph.full {value = -inf} : tensor<4xf32>
func.func @defaults(%a: tensor<4xf32>) {
  %x = graph.softmax %a {axis = -1} : tensor<4xf32>
  %y = graph.clip %x {min = 0, max = inf} : tensor<4xf32>
  %z = graph.clip %y {min = -1.0e-07, max = 6.0} : tensor<4xf32>
  %f = graph.full {value = -inf} : tensor<4xf32>
  return
}

// CHECK-LABEL: func.func @structure(
// CHECK: %y = graph.fused "dense_relu" (%a = %x : tensor<1x4xf32>, %b = %w : tensor<2x4xf32>) -> tensor<1x2xf32> {
// CHECK:   graph.yield %r : tensor<1x2xf32>
// CHECK: } {origins = ["fc1", "relu1"]}
// CHECK: %z = graph.call @relu_kernel(%y) : (tensor<1x2xf32>) -> tensor<1x2xf32>
func.func @structure(%x: tensor<1x4xf32>, %w: tensor<2x4xf32>) -> tensor<1x2xf32> {
  %y = graph.fused "dense_relu" (%a = %x : tensor<1x4xf32>, %b = %w : tensor<2x4xf32>) -> tensor<1x2xf32> {
    %d = graph.dense %a, %b : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<1x2xf32>
    %r = graph.relu %d : tensor<1x2xf32>
    graph.yield %r : tensor<1x2xf32>
  } {origins = ["fc1", "relu1"]}
  %z = graph.call @relu_kernel(%y) : (tensor<1x2xf32>) -> tensor<1x2xf32>
  return %z : tensor<1x2xf32>
}
func.func private @relu_kernel(tensor<1x2xf32>) -> tensor<1x2xf32>
// CHECK-LABEL: func.func @tan(
// CHECK: %x = graph.tan %a : tensor<7xf32>
func.func @tan(%a: tensor<7xf32>) -> tensor<7xf32> {
  %x = graph.tan %a : tensor<7xf32>
  return %x : tensor<7xf32>
}
// CHECK-LABEL: func.func @asin(
// CHECK: %x = graph.asin %a : tensor<7xf32>
func.func @asin(%a: tensor<7xf32>) -> tensor<7xf32> {
  %x = graph.asin %a : tensor<7xf32>
  return %x : tensor<7xf32>
}
// CHECK-LABEL: func.func @acos(
// CHECK: %x = graph.acos %a : tensor<7xf32>
func.func @acos(%a: tensor<7xf32>) -> tensor<7xf32> {
  %x = graph.acos %a : tensor<7xf32>
  return %x : tensor<7xf32>
}
// CHECK-LABEL: func.func @atan(
// CHECK: %x = graph.atan %a : tensor<7xf32>
func.func @atan(%a: tensor<7xf32>) -> tensor<7xf32> {
  %x = graph.atan %a : tensor<7xf32>
  return %x : tensor<7xf32>
}
// CHECK-LABEL: func.func @sinh(
// CHECK: %x = graph.sinh %a : tensor<7xf32>
func.func @sinh(%a: tensor<7xf32>) -> tensor<7xf32> {
  %x = graph.sinh %a : tensor<7xf32>
  return %x : tensor<7xf32>
}
// CHECK-LABEL: func.func @cosh(
// CHECK: %x = graph.cosh %a : tensor<7xf32>
func.func @cosh(%a: tensor<7xf32>) -> tensor<7xf32> {
  %x = graph.cosh %a : tensor<7xf32>
  return %x : tensor<7xf32>
}
// CHECK-LABEL: func.func @bitwise_and(
// CHECK: %x = graph.bitwise_and %a, %b : tensor<4xi32>
func.func @bitwise_and(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {
  %x = graph.bitwise_and %a, %b : tensor<4xi32>
  return %x : tensor<4xi32>
}
// CHECK-LABEL: func.func @bitwise_or(
// CHECK: %x = graph.bitwise_or %a, %b : tensor<4xi32>
func.func @bitwise_or(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {
  %x = graph.bitwise_or %a, %b : tensor<4xi32>
  return %x : tensor<4xi32>
}
// CHECK-LABEL: func.func @bitwise_xor(
// CHECK: %x = graph.bitwise_xor %a, %b : tensor<4xi32>
func.func @bitwise_xor(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {
  %x = graph.bitwise_xor %a, %b : tensor<4xi32>
  return %x : tensor<4xi32>
}
// CHECK-LABEL: func.func @shift_left(
// CHECK: %x = graph.shift_left %a, %b : tensor<4xi32>
func.func @shift_left(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {
  %x = graph.shift_left %a, %b : tensor<4xi32>
  return %x : tensor<4xi32>
}
// CHECK-LABEL: func.func @shift_right(
// CHECK: %x = graph.shift_right %a, %b : tensor<4xi32>
func.func @shift_right(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {
  %x = graph.shift_right %a, %b : tensor<4xi32>
  return %x : tensor<4xi32>
}
// CHECK-LABEL: func.func @bitwise_not(
// CHECK: %x = graph.bitwise_not %a : tensor<4xi32>
func.func @bitwise_not(%a: tensor<4xi32>) -> tensor<4xi32> {
  %x = graph.bitwise_not %a : tensor<4xi32>
  return %x : tensor<4xi32>
}
// CHECK-LABEL: func.func @bitcast(
// CHECK: %x = graph.bitcast %a : (tensor<5xi32>) -> tensor<5xui32>
func.func @bitcast(%a: tensor<5xi32>) -> tensor<5xui32> {
  %x = graph.bitcast %a : (tensor<5xi32>) -> tensor<5xui32>
  return %x : tensor<5xui32>
}
// CHECK-LABEL: func.func @gather_elements(
// CHECK: %x = graph.gather_elements %a, %b {axis = 1} : (tensor<2x4xf32>, tensor<2x3xi64>) -> tensor<2x3xf32>
func.func @gather_elements(%a: tensor<2x4xf32>, %b: tensor<2x3xi64>) -> tensor<2x3xf32> {
  %x = graph.gather_elements %a, %b {axis = 1} : (tensor<2x4xf32>, tensor<2x3xi64>) -> tensor<2x3xf32>
  return %x : tensor<2x3xf32>
}
// CHECK-LABEL: func.func @gather_rows(
// CHECK: %x = graph.gather_rows %a, %b {batch_dims = 1} : (tensor<2x4x3xf32>, tensor<2x5xi32>) -> tensor<2x5x3xf32>
func.func @gather_rows(%a: tensor<2x4x3xf32>, %b: tensor<2x5xi32>) -> tensor<2x5x3xf32> {
  %x = graph.gather_rows %a, %b {batch_dims = 1} : (tensor<2x4x3xf32>, tensor<2x5xi32>) -> tensor<2x5x3xf32>
  return %x : tensor<2x5x3xf32>
}
// CHECK-LABEL: func.func @scatter_elements(
// CHECK: %x = graph.scatter_elements %a, %b, %c {axis = 1} : (tensor<2x4xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<2x4xf32>
func.func @scatter_elements(%a: tensor<2x4xf32>, %b: tensor<2x3xi64>, %c: tensor<2x3xf32>) -> tensor<2x4xf32> {
  %x = graph.scatter_elements %a, %b, %c {axis = 1} : (tensor<2x4xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<2x4xf32>
  return %x : tensor<2x4xf32>
}
// CHECK-LABEL: func.func @scatter_nd(
// CHECK: %x = graph.scatter_nd %a, %b, %c : (tensor<4x5xf32>, tensor<3x1xi64>, tensor<3x5xf32>) -> tensor<4x5xf32>
func.func @scatter_nd(%a: tensor<4x5xf32>, %b: tensor<3x1xi64>, %c: tensor<3x5xf32>) -> tensor<4x5xf32> {
  %x = graph.scatter_nd %a, %b, %c : (tensor<4x5xf32>, tensor<3x1xi64>, tensor<3x5xf32>) -> tensor<4x5xf32>
  return %x : tensor<4x5xf32>
}
// CHECK-LABEL: func.func @argsort(
// CHECK: %x = graph.argsort %a {descending = true, count = 2} : (tensor<3x6xf32>) -> tensor<3x2xi64>
func.func @argsort(%a: tensor<3x6xf32>) -> tensor<3x2xi64> {
  %x = graph.argsort %a {descending = true, count = 2} : (tensor<3x6xf32>) -> tensor<3x2xi64>
  return %x : tensor<3x2xi64>
}
// CHECK-LABEL: func.func @cumulative(
// CHECK: %x = graph.cumulative %a {axis = 1, exclusive = true} : tensor<2x5xf32>
func.func @cumulative(%a: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %x = graph.cumulative %a {axis = 1, exclusive = true} : tensor<2x5xf32>
  return %x : tensor<2x5xf32>
}
// CHECK-LABEL: func.func @lookup(
// CHECK: %x = graph.lookup %a, %b : (tensor<2x3xui8>, tensor<256xi8>) -> tensor<2x3xi8>
func.func @lookup(%a: tensor<2x3xui8>, %b: tensor<256xi8>) -> tensor<2x3xi8> {
  %x = graph.lookup %a, %b : (tensor<2x3xui8>, tensor<256xi8>) -> tensor<2x3xi8>
  return %x : tensor<2x3xi8>
}
// CHECK-LABEL: func.func @nonzero(
// CHECK: graph.nonzero
func.func @nonzero(%a: tensor<2x5xf32>) -> (tensor<2x10xi64>, tensor<i64>) {
  %w, %x = graph.nonzero %a : (tensor<2x5xf32>) -> (tensor<2x10xi64>, tensor<i64>)
  return %w, %x : tensor<2x10xi64>, tensor<i64>
}
// CHECK-LABEL: func.func @unique(
// CHECK: graph.unique
func.func @unique(%a: tensor<7x1xi64>) -> (tensor<7xi64>, tensor<7xi64>, tensor<7xi64>, tensor<i64>) {
  %w, %x, %y, %z = graph.unique %a : (tensor<7x1xi64>) -> (tensor<7xi64>, tensor<7xi64>, tensor<7xi64>, tensor<i64>)
  return %w, %x, %y, %z : tensor<7xi64>, tensor<7xi64>, tensor<7xi64>, tensor<i64>
}
// CHECK-LABEL: func.func @non_max_suppression(
// CHECK: graph.non_max_suppression
func.func @non_max_suppression(%a: tensor<1x4x4xf32>, %b: tensor<1x2x4xf32>, %d: tensor<i64>, %e: tensor<f32>, %f: tensor<f32>) -> (tensor<8x3xi64>, tensor<i64>) {
  %w, %x = graph.non_max_suppression %a, %b, %d, %e, %f : (tensor<1x4x4xf32>, tensor<1x2x4xf32>, tensor<i64>, tensor<f32>, tensor<f32>) -> (tensor<8x3xi64>, tensor<i64>)
  return %w, %x : tensor<8x3xi64>, tensor<i64>
}
