"""
Compiles for the vm: what is known becomes segments of kernels, and the rest functions that are resolved at a call.

    model --AOT compiles it--> one segment
          --what the data decides stands in its way--> an open function
                resolve(function, arguments): import with these shapes; where a node needs a value, the nodes
                before it become a segment, and the node and those after it a function of their own
"""
