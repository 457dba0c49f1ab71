"""
Register tiles: how blocks become ops on tiles (loop-form-tiles), and which of those loops keep in registers.

    form_tiles, block_values, constant_selects    loop-form-tiles: vectorized nests become tile ops
    form_contract, dissolve_block                 sums of narrow products; blocks of sched.tensorize
    promote_tiles, sink_reductions                loop-promote-tiles: accumulators in memory become carried values
    start_sums                                    loop-start-sums: an addend is the initial value of a sum
    registers                                     how many registers a loop needs
"""
