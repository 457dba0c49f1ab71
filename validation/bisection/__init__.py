"""
Bisection of a wrong compilation: the pass, the rewrite application, the function and the op, then a small reproducer.

    failure    what is wrong, in words that survive a process
    oracle     run passes in a child process and say whether, and how, they are wrong
    search     pass -> rewrite application -> op -> reduction
"""
