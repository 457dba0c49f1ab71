"""
Machines: `Target` describes one to compile for, `host` the CPUs and caches of this one.

In: a target's name. Out: facts: vector width, registers, caches, instructions. Nothing here knows an IR.
"""
