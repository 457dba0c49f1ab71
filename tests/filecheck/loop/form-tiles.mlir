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

// A reduction axis ends in loop.reduce; lanes off the predicate count as the identity, and do not mask the sum.
// CHECK-LABEL: loop.func @row_sum
// CHECK:           %[[A:.*]] = loop.load %S[d0] mask (-%ko * 16 + 18) else %{{.*}} tile (d0 : 4, d1 : 16) : vector<4x1xf32>
// CHECK:           %[[X:.*]] = loop.load %X[d0, {{.*}}] mask ({{.*}}) else
// CHECK:           %[[C:.*]] = loop.compare sge
// CHECK:           %[[T:.*]] = loop.select %{{.*}}, %[[X]], %{{.*}} : vector<4x16xi1>, vector<4x16xf32>
// CHECK-NEXT:      %[[R:.*]] = loop.reduce sum %[[T]] axes [1] : vector<4x16xf32> to vector<4x1xf32>
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
