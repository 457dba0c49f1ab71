// RUN: mlc-opt %s -p canonicalize,cse --mlir-timing 2>&1 | filecheck %s

// CHECK:      ... Execution time report ...
// CHECK:      Total Execution Time: {{.*}} seconds
// CHECK:      {{[0-9.]+}} ({{.*}}%)  Parser
// CHECK-NEXT: {{[0-9.]+}} ({{.*}}%)  Verifier
// CHECK-NEXT: {{[0-9.]+}} ({{.*}}%)  Passes
// CHECK-NEXT: {{[0-9.]+}} ({{.*}}%)    canonicalize
// CHECK-NEXT: {{[0-9.]+}} ({{.*}}%)    cse
// CHECK-NEXT: {{[0-9.]+}} ({{.*}}%)  Output
// CHECK-NEXT: {{[0-9.]+}} ({{.*}}%)  Rest
// CHECK-NEXT: {{[0-9.]+}} (100.0%)  Total
func.func @empty() {
  func.return
}
