"""
The thread pool: LLVM IR text that goes into every library, and the copy that Python loads for itself.

`module` puts the text together for a target, from `dispatch` (the caller's side) and `workers`; `loaded` compiles it
once a process.
"""
