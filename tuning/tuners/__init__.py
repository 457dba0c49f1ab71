"""
Tuners: each proposes candidates of a task's space and learns from their results.

`make_tuner("model", task, seed)` makes one; `protocol.py` says what each of them holds to.
"""
