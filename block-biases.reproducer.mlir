// A crash of mlc-opt; replay it with: mlc-opt --run-reproducer block-biases.reproducer.mlir
// configuration: '--pass-pipeline=builtin.module(graph-block-biases{target="x86-64-v4"})' --verify-each=true
// error: BrokenByPass: pass 'graph-block-biases' left invalid IR: 'graph.add' op expected shapes that broadcast together, but got 4x31x49 and 4x32x49: axis 1 is 31 in one and 32 in another
// versions: mlc 0.1.0, xdsl 0.74.0, Python 3.11.7
//   Traceback (most recent call last):
//     File "/work/main/mlc/passes/verifier.py", line 173, in _verified
//       check(op)
//     File "/work/main/mlc/dialects/graph/base.py", line 442, in verify_
//       inferred = self.infer_types()
//                  ^^^^^^^^^^^^^^^^^^
//     File "/work/main/mlc/dialects/graph/ops/elementwise.py", line 301, in infer_types
//       return [tensor(broadcast([shape_of(a), shape_of(b)]), i1 if self.compares else a.element_type)]
//                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
//     File "/work/main/mlc/dialects/graph/types.py", line 225, in broadcast
//       raise UnequalSizes(
//   mlc.dialects.graph.expressions.UnequalSizes: expected shapes that broadcast together, but got 4x31x49 and 4x32x49: axis 1 is 31 in one and 32 in another
//   
//   The above exception was the direct cause of the following exception:
//   
//   Traceback (most recent call last):
//     File "/work/main/mlc/passes/pass_manager.py", line 117, in _verify
//       verifier.verify(module)
//     File "/work/main/mlc/passes/verifier.py", line 81, in verify
//       self._verify_inside(nested, forms.get(nested))
//     File "/work/main/mlc/passes/verifier.py", line 93, in _verify_inside
//       self._verify_open(op, form)
//     File "/work/main/mlc/passes/verifier.py", line 103, in _verify_open
//       self._verify_one(nested)
//     File "/work/main/mlc/passes/verifier.py", line 130, in _verify_one
//       _verified(op, op.__class__.verify_)
//     File "/work/main/mlc/passes/verifier.py", line 177, in _verified
//       raise InvalidIR(op, str(error)) from error
//   mlc.passes.verifier.InvalidIR: expected shapes that broadcast together, but got 4x31x49 and 4x32x49: axis 1 is 31 in one and 32 in another
//   
//   The above exception was the direct cause of the following exception:
//   
//   Traceback (most recent call last):
//     File "/work/main/mlc/tools/mlc_opt.py", line 198, in compile
//       run_passes(module, self.ctx, self.passes, verify=check, instruments=self.instruments)
//     File "/work/main/mlc/driver/pipeline/manager.py", line 47, in run_passes
//       apply_passes(module, ctx, passes, verify=verify, instruments=instruments, required=required, is_users=users)
//     File "/work/main/mlc/passes/pass_manager.py", line 98, in apply_passes
//       _verify(verifier, module_pass, module)
//     File "/work/main/mlc/passes/pass_manager.py", line 119, in _verify
//       raise BrokenByPass(module_pass, error) from error
//   mlc.passes.pass_manager.BrokenByPass: pass 'graph-block-biases' left invalid IR: 'graph.add' op expected shapes that broadcast together, but got 4x31x49 and 4x32x49: axis 1 is 31 in one and 32 in another
builtin.module {
  func.func @whole(%q: tensor<4x31x8xf32>, %k: tensor<4x49x8xf32>, %v: tensor<4x49x8xf32>, %mask: tensor<4x31x49xf32>) -> tensor<4x31x8xf32> {
    %bias = graph.param "bias" : tensor<4x31x49xf32>
    %0 = graph.fused "batch_matmul_add_softmax_batch_matmul" (%q_1 = %q : tensor<4x31x8xf32>, %k_1 = %k : tensor<4x49x8xf32>, %bias_1 = %bias : tensor<4x31x49xf32>, %mask_1 = %mask : tensor<4x31x49xf32>, %v_1 = %v : tensor<4x49x8xf32>) -> tensor<4x31x8xf32> {
      %1 = graph.batch_matmul %q_1, %k_1 {transpose_b = true} : (tensor<4x31x8xf32>, tensor<4x49x8xf32>) -> tensor<4x31x49xf32>
      %2 = graph.add %1, %bias_1 : tensor<4x31x49xf32>
      %3 = graph.add %2, %mask_1 : tensor<4x31x49xf32>
      %4 = graph.softmax %3 : tensor<4x31x49xf32>
      %5 = graph.batch_matmul %4, %v_1 : (tensor<4x31x49xf32>, tensor<4x49x8xf32>) -> tensor<4x31x8xf32>
      graph.yield %5 : tensor<4x31x8xf32>
    }
    func.return %0 : tensor<4x31x8xf32>
  }
  func.func @ragged(%q: tensor<4x50x8xf32>, %k: tensor<4x49x8xf32>, %v: tensor<4x49x8xf32>) -> tensor<4x50x8xf32> {
    %bias = graph.param "bias" : tensor<1x50x49xf32>
    %keys = graph.param "keys" : tensor<4x1x49xf32>
    %0 = graph.fused "batch_matmul_add_softmax_batch_matmul" (%q_1 = %q : tensor<4x50x8xf32>, %k_1 = %k : tensor<4x49x8xf32>, %bias_1 = %bias : tensor<1x50x49xf32>, %keys_1 = %keys : tensor<4x1x49xf32>, %v_1 = %v : tensor<4x49x8xf32>) -> tensor<4x50x8xf32> {
      %1 = graph.batch_matmul %q_1, %k_1 {transpose_b = true} : (tensor<4x50x8xf32>, tensor<4x49x8xf32>) -> tensor<4x50x49xf32>
      %2 = graph.add %1, %bias_1 : (tensor<4x50x49xf32>, tensor<1x50x49xf32>) -> tensor<4x50x49xf32>
      %3 = graph.add %2, %keys_1 : (tensor<4x50x49xf32>, tensor<4x1x49xf32>) -> tensor<4x50x49xf32>
      %4 = graph.softmax %3 : tensor<4x50x49xf32>
      %5 = graph.batch_matmul %4, %v_1 : (tensor<4x50x49xf32>, tensor<4x49x8xf32>) -> tensor<4x50x8xf32>
      graph.yield %5 : tensor<4x50x8xf32>
    }
    func.return %0 : tensor<4x50x8xf32>
  }
  func.func @alone(%x: tensor<4x31x49xf32>) -> tensor<4x31x49xf32> {
    %bias = graph.param "bias" : tensor<4x31x49xf32>
    %0 = graph.fused "add_softmax" (%x_1 = %x : tensor<4x31x49xf32>, %bias_1 = %bias : tensor<4x31x49xf32>) -> tensor<4x31x49xf32> {
      %1 = graph.add %x_1, %bias_1 : tensor<4x31x49xf32>
      %2 = graph.softmax %1 : tensor<4x31x49xf32>
      graph.yield %2 : tensor<4x31x49xf32>
    }
    func.return %0 : tensor<4x31x49xf32>
  }
}
