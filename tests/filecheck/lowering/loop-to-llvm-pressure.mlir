// RUN: mlc-opt %s -p 'convert-loop-to-llvm{vector-bits=512}' -o /dev/null 2>&1 | filecheck %s

// An accumulator that each iteration loads and stores is a warning at its loop.
// CHECK: loop-to-llvm-pressure.mlir:[[# @LINE + 2]]:3: warning: 'loop.for' op over %k accumulates a tile of %C in memory
loop.func @accumulates(%A: memref<3x16xf32>, %C: memref<16xf32>) attributes {outputs = 1 : i64} {
  loop.for %k = 0 to 3 {
    %c = loop.load %C[d0] tile (d0 : 16) : vector<16xf32>
    %a = loop.load %A[%k, d0] tile (d0 : 16) : vector<16xf32>
    %n = arith.addf %c, %a : vector<16xf32>
    loop.store %n, %C[d0] tile (d0 : 16) : vector<16xf32>
  }
}
