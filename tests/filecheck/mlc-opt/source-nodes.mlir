// RUN: mlc-opt %s --mlir-print-source-nodes | filecheck %s
// RUN: mlc-opt %s --mlir-print-source-nodes | mlc-opt --mlir-print-source-nodes | filecheck %s --check-prefix=GONE
// RUN: mlc-opt %s --mlir-print-source-nodes --mlir-print-debuginfo --mlir-elide-elementsattrs-if-larger=2 | filecheck %s --check-prefix=BOTH
// RUN: mlc-opt %s -p graph-fuse-ops,graph-outline-kernels,convert-graph-to-te,te-inline,convert-te-to-loop --mlir-print-ir-after-all -o /dev/null 2>&1 | filecheck %s --check-prefix=HEADER
// RUN: mlc-opt %s -p graph-fuse-ops,graph-outline-kernels,convert-graph-to-te,kernel-O3 --mlir-print-source-nodes | filecheck %s --check-prefix=LLVM

// CHECK-LABEL: func.func @main
// CHECK:         graph.dense {{.*}} -> tensor<2x4xf32>  // node: fc 1{{$}}
// CHECK-NEXT:    graph.relu {{.*}} : tensor<2x4xf32>  // nodes: act1, act2{{$}}
// CHECK-NEXT:    graph.constant dense<{{.*}}> : tensor<4xf32>{{$}}
// CHECK-NEXT:    graph.add {{.*}}  // nodes: a0, a1, a2, a3, a4, a5, a6, a7 and 2 more{{$}}
// CHECK-NEXT:    func.return {{.*}} : tensor<2x4xf32>{{$}}

// A comment is not read back; locations are.
// GONE-NOT: // node
// BOTH:     graph.dense {{.*}} loc("fc\0A1")  // node: fc 1
// BOTH:     graph.constant dense_resource<__elided__>

// The kernel has the nodes of its calls, on each level.
// HEADER:      // -----// IR Dump After FuseOpsPass (graph-fuse-ops) //----- //
// HEADER-NEXT: builtin.module
// HEADER:      // -----// IR Dump After OutlineKernelsPass (graph-outline-kernels) //----- //
// HEADER-NEXT: // kernel @[[NAME:[a-z0-9_]+]], nodes: fc 1, act1, act2, a0, a1, a2, a3, a4 and 5 more{{$}}
// HEADER-NEXT: builtin.module
// HEADER:      // -----// IR Dump After ConvertTeToLoop (convert-te-to-loop) //----- //
// HEADER-NEXT: // kernel @[[NAME]], nodes: fc 1, act1, act2, a0, a1, a2, a3, a4 and 5 more{{$}}

// LLVM: llvm.func @dense
// LLVM: }  // nodes: fc 1, act1, act2, a0,
func.func @main(%x: tensor<2x8xf32>, %w: tensor<4x8xf32>) -> tensor<2x4xf32> {
  %0 = graph.dense %x, %w : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<2x4xf32> loc("fc\n1")
  %1 = graph.relu %0 : tensor<2x4xf32> loc(fused["act1", "act2", "act1"])
  %c = graph.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %2 = graph.add %1, %c : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32> loc(fused["a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9"])
  return %2 : tensor<2x4xf32>
}
