"""
The cost model: what schedules, passes over graphs and the runtime expect a machine to take. Numbers only, no IR.

    caches.py       what stays in L1 and L2, the rate of what does not
    tiles.py        register tiles: the method of BLIS (Low et al., "Analytical modeling is enough for high-performance
                    BLIS", 2016)
    grids.py        blocks of rows and parts of columns, dealt out to threads; roofline-like: cycles plus bytes moved
    threads.py      when threads are worth it
    winograd.py     Winograd's convolution and the direct one
    branches.py     parallel contractions of one tensor, apart and as one
    thresholds.py   proportions and limits that are no machine's

Rates are those of a target's core (`targets/machine.py`); times are cycles, sizes are bytes.
"""
