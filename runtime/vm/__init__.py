"""
The vm: programs as versioned bytecode, run from Python, with kernels that are found or compiled when they are needed.

    instructions.py  the instruction set        encoding.py    bytes
    program.py       functions and segments     text.py        the disassembler
    segment.py       runs the code of kernels   machine.py     runs the code of tensors
    memory.py        the allocator              executable.py  the executable; saved.py: on disk
"""
