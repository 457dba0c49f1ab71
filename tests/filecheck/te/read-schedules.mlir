// RUN: mlc-opt %s --pass-pipeline='te-read-schedules{directory="%S/Inputs/schedules"},te-add-schedule{target=x86-64-v3}' | filecheck %s

// The file's schedule comes behind its kernel; it is no strategy's.
// CHECK-LABEL: te.func @matvec
// CHECK:       sched.schedule @matvec attributes {strategy = "by hand"} {
// CHECK:         sched.split %{{.*}} [?, 32]
// CHECK-NOT:   sched.schedule @matvec
te.func @matvec(%a: tensor<8x64xf32>, %x: tensor<64xf32>) -> tensor<8xf32> {
  %y = te.compute "y" (%i : 8) reduce (%k : 64) sum {
    %0 = te.read %a[%i, %k] : f32
    %1 = te.read %x[%k] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<8xf32>
  te.return %y : tensor<8xf32>
}

// A kernel without a file is left to the strategies.
// CHECK-LABEL: te.func @without
// CHECK:       sched.schedule @without attributes {strategy = "injective"} {
te.func @without(%a: tensor<8xf32>) -> tensor<8xf32> {
  %y = te.compute "y" (%i : 8) {
    %0 = te.read %a[%i] : f32
    %1 = math.exp %0 : f32
    te.yield %1 : f32
  } : tensor<8xf32>
  te.return %y : tensor<8xf32>
}
