// RUN: mlc-opt %s -p loop-form-tiles | filecheck %s

// Vectorized loops become the axes of tiles; an axis that an access does not use has size 1.
// CHECK-LABEL: loop.func @outer_product
// CHECK-NEXT:    %[[A:.*]] = loop.load %A[d0] tile (d0 : 4, d1 : 16) : vector<4x1xf32>
// CHECK-NEXT:    %[[B:.*]] = loop.load %B[d1] tile (d0 : 4, d1 : 16) : vector<1x16xf32>
// CHECK-NEXT:    %[[X:.*]] = loop.broadcast %[[A]] : vector<4x1xf32> to vector<4x16xf32>
// CHECK-NEXT:    %[[Y:.*]] = loop.broadcast %[[B]] : vector<1x16xf32> to vector<4x16xf32>
// CHECK-NEXT:    %[[P:.*]] = arith.mulf %[[X]], %[[Y]] : vector<4x16xf32>
// CHECK-NEXT:    loop.store %[[P]], %C[d0, d1] tile (d0 : 4, d1 : 16) : vector<4x16xf32>
loop.func @outer_product(%A: memref<4xf32>, %B: memref<16xf32>, %C: memref<4x16xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 4 vectorized {
    loop.for %j = 0 to 16 vectorized {
      loop.block "outer" (%u : 4 = %i, %v : 16 = %j) {
        %a = loop.load %A[%u] : f32
        %b = loop.load %B[%v] : f32
        %p = arith.mulf %a, %b : f32
        loop.store %p, %C[%u, %v] : f32
      }
    }
  }
}

// A reduction axis ends in loop.reduce; lanes off the predicate are loaded as the identity, and do not mask the sum.
// CHECK-LABEL: loop.func @row_sum
// CHECK:           %[[A:.*]] = loop.load %S[d0] mask (-%ko * 16 + 18) else %{{.*}} tile (d0 : 4, d1 : 16) : vector<4x1xf32>
// CHECK:           %[[X:.*]] = loop.load %X[d0, {{.*}}] mask ({{.*}}) else
// CHECK-NOT:       loop.load %X
// CHECK:           %[[R:.*]] = loop.reduce sum %[[X]] axes [1] : vector<4x16xf32> to vector<4x1xf32>
// CHECK-NEXT:      %[[N:.*]] = arith.addf %[[A]], %[[R]] : vector<4x1xf32>
// CHECK-NEXT:      loop.store %[[N]], %S[d0] mask (-%ko * 16 + 18) tile (d0 : 4, d1 : 16) : vector<4x1xf32>
loop.func @row_sum(%X: memref<4x19xf32>, %S: memref<4xf32>) attributes {outputs = 1 : i64} {
  loop.for %ko = 0 to 3 {
    loop.for %i = 0 to 4 vectorized {
      loop.for %k = 0 to 16 vectorized {
        loop.block "sum" (%u : 4 = %i) reduce (%v : 19 = %ko * 16 + %k) where (18 - %ko * 16 - %k) {
          %a = loop.load %S[%u] : f32
          %x = loop.load %X[%u, %v] : f32
          %n = arith.addf %a, %x : f32
          loop.store %n, %S[%u] : f32
        }
      }
    }
  }
}

// The init region runs where the reduction axes are 0.
// CHECK-LABEL: loop.func @init
// CHECK:           loop.store %{{.*}}, %S[] mask (-%k) : f32
// CHECK-NEXT:      loop.load %S[] : f32
loop.func @init(%X: memref<4xf32>, %S: memref<f32>) attributes {outputs = 1 : i64} {
  loop.for %k = 0 to 4 {
    loop.block "sum" () reduce (%v : 4 = %k) init {
    ^bb0(%v : index):
      %z = arith.constant 0.0 : f32
      loop.store %z, %S[] : f32
    } {
      %a = loop.load %S[] : f32
      %x = loop.load %X[%v] : f32
      %n = arith.addf %a, %x : f32
      loop.store %n, %S[] : f32
    }
  }
}

// An index read from memory becomes a gather.
// CHECK-LABEL: loop.func @take
// CHECK:         %[[I:.*]] = loop.cast index_cast %{{.*}} : vector<4x1xi64> to vector<4x1xindex>
// CHECK-NEXT:    loop.gather %X[0, d1] by %[[I]] at 0 tile (d0 : 4, d1 : 16) : vector<4x16xf32>
loop.func @take(%X: memref<9x16xf32>, %I: memref<4xi64>, %Y: memref<4x16xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 4 vectorized {
    loop.for %j = 0 to 16 vectorized {
      loop.block "take" (%u : 4 = %i, %v : 16 = %j) {
        %n = loop.load %I[%u] : i64
        %k = loop.cast index_cast %n : i64 to index
        %x = loop.load %X[%k, %v] : f32
        loop.store %x, %Y[%u, %v] : f32
      }
    }
  }
}

// A select by the position along an axis is a concatenation of the values: no index, comparison or mask is left.
// CHECK-LABEL: loop.func @rows_by_position
// CHECK-NEXT:    %[[X:.*]] = loop.load %A[0, d1] tile (d0 : 3, d1 : 16) : vector<1x16xf32>
// CHECK-NEXT:    %[[Y:.*]] = loop.load %A[1, d1] tile (d0 : 3, d1 : 16) : vector<1x16xf32>
// CHECK-NEXT:    %[[S:.*]] = arith.addf %[[X]], %[[Y]] : vector<1x16xf32>
// CHECK-NOT:     loop.{{index|compare|select|broadcast}}
// CHECK:         %[[C:.*]] = loop.concat %[[S]], %[[Y]], %[[X]] axis 0 : vector<1x16xf32> to vector<3x16xf32>
// CHECK-NEXT:    loop.store %[[C]], %B[d0, d1] tile (d0 : 3, d1 : 16) : vector<3x16xf32>
loop.func @rows_by_position(%A: memref<2x16xf32>, %B: memref<3x16xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 3 vectorized {
    loop.for %j = 0 to 16 vectorized {
      loop.block "rows" (%u : 3 = %i, %v : 16 = %j) {
        %x = loop.load %A[0, %v] : f32
        %y = loop.load %A[1, %v] : f32
        %s = arith.addf %x, %y : f32
        %p = loop.index 1 - %u : index
        %0 = arith.constant 0 : index
        %1 = arith.constant 1 : index
        %second = loop.compare sge %p, %0 : index
        %inner = loop.select %second, %y, %x : i1, f32
        %first = loop.compare sge %p, %1 : index
        %chosen = loop.select %first, %s, %inner : i1, f32
        loop.store %chosen, %B[%u, %v] : f32
      }
    }
  }
}

// Along the lanes of vectors, and of a value that differs along the axis, it stays a select.
// CHECK-LABEL: loop.func @lanes_by_position
// CHECK:         %[[L:.*]] = loop.compare slt
// CHECK:         loop.select
// CHECK:         %[[K:.*]] = loop.load %A[d0, d1] tile (d0 : 2, d1 : 16) : vector<2x16xf32>
// CHECK:         loop.select
// CHECK-NOT:     loop.concat
loop.func @lanes_by_position(%A: memref<2x16xf32>, %B: memref<2x16xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 2 vectorized {
    loop.for %j = 0 to 16 vectorized {
      loop.block "rows" (%u : 2 = %i, %v : 16 = %j) {
        %x = loop.load %A[0, %v] : f32
        %y = loop.load %A[1, %v] : f32
        %p = loop.index %v : index
        %8 = arith.constant 8 : index
        %low = loop.compare slt %p, %8 : index
        %lanes = loop.select %low, %y, %x : i1, f32
        %z = loop.load %A[%u, %v] : f32
        %q = loop.index %u : index
        %1 = arith.constant 1 : index
        %top = loop.compare slt %q, %1 : index
        %chosen = loop.select %top, %z, %lanes : i1, f32
        loop.store %chosen, %B[%u, %v] : f32
      }
    }
  }
}
