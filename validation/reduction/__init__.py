"""
Reduction of a module for which a check holds (it makes a pass fail) to a small one for which it still holds.

`subject` is what is reduced, `edits` how it can get smaller, `places` where, `resize` how sizes do, `reduce` the order.
"""
