// Read by read-schedules.mlir.
te.func @matvec(%a: tensor<8x64xf32>, %x: tensor<64xf32>) -> tensor<8xf32> {
  %y = te.compute "y" (%i : 8) reduce (%k : 64) sum {
    %0 = te.read %a[%i, %k] : f32
    %1 = te.read %x[%k] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<8xf32>
  te.return %y : tensor<8xf32>
}
sched.schedule @matvec {
  %y = sched.block "y" : !sched.block
  %i, %k = sched.loops %y : 2
  %ko, %ki = sched.split %k [?, 32]
  %init, %update = sched.decompose_reduction %y at %ko
  sched.vectorize %ki
}
