"""
The weights of a model as an object file: an ELF header, the bytes of weights.bin, one symbol.

On x86-64 code reaches 2 GiB around it. The weights are therefore in a section that is marked as large: linkers place
such sections behind all others, so that code still reaches its data, and whoever uses the symbol must hold its address
in 64 bits. AArch64 has no such sections; its code reaches 4 GiB.
"""

import os
import shutil
import struct
from pathlib import Path

from mlc.support.alignment import ALIGNMENT
from mlc.support.errors import UserError

_MACHINES = {"x86_64": 62, "aarch64": 183}
_HEADER = 64
_NAMES = (".note.GNU-stack", ".symtab", ".strtab")
_PROGBITS, _SYMTAB, _STRTAB = 1, 2, 3
_ALLOC, _X86_64_LARGE = 2, 0x10000000
# By machine: the section of the weights, its flags, and the bytes that it may have (0: any number).
_SECTIONS = {
    "x86_64": (".lrodata.mlc_weights", _ALLOC | _X86_64_LARGE, 0),
    "aarch64": (".rodata.mlc_weights", _ALLOC, 3 << 30),
}
_HIDDEN_OBJECT = (1 << 4 | 1, 2)
"""st_info (binding global, type object) and st_other (hidden) of the symbol."""


def write_weights_object(weights: Path, symbol: str, machine: str, path: Path) -> None:
    """
    Write `path`, which defines the hidden symbol at the first weight.

    An assembler's .incbin does the same, but holds the file in memory, twice.
    """
    if machine not in _MACHINES:
        raise UserError(f"expected a machine of {', '.join(_MACHINES)} to export a library, but got {machine}")
    section, flags, most = _SECTIONS[machine]
    with weights.open("rb") as source, path.open("wb") as file:
        size = os.fstat(source.fileno()).st_size
        if most and size > most:
            raise UserError(
                f"expected weights of at most {most} bytes in a library for {machine}, but got {size}; use save"
            )
        file.write(bytes(_HEADER))
        shutil.copyfileobj(source, file, 1 << 20)
        names = b"\0" + b"\0".join(name.encode() for name in (section, *_NAMES, symbol)) + b"\0"
        named = names.index(f"\0{symbol}\0".encode()) + 1
        symbols = bytes(24) + struct.pack("<IBBHQQ", named, *_HIDDEN_OBJECT, 1, 0, size)
        at = _HEADER + size
        file.write(symbols + names + bytes(-(at + len(symbols) + len(names)) % 8))
        table = file.tell()
        for row in (
            ("", 0, 0, 0, 0, 0, 0, 0, 0),
            (section, _PROGBITS, flags, _HEADER, size, 0, 0, ALIGNMENT, 0),
            (_NAMES[0], _PROGBITS, 0, at, 0, 0, 0, 1, 0),
            (_NAMES[1], _SYMTAB, 0, at, len(symbols), 4, 1, 1, 24),
            (_NAMES[2], _STRTAB, 0, at + len(symbols), len(names), 0, 0, 1, 0),
        ):
            file.write(_section(names, *row))
        file.seek(0)
        file.write(b"\x7fELF" + bytes([2, 1, 1, 0]) + bytes(8))
        file.write(struct.pack("<HHIQQQIHHHHHH", 1, _MACHINES[machine], 1, 0, 0, table, 0, _HEADER, 0, 0, 64, 5, 4))


def _section(
    names: bytes, name: str, kind: int, flags: int, at: int, size: int, link: int, info: int, alignment: int, entry: int
) -> bytes:
    start = names.index(f"\0{name}\0".encode()) + 1 if name else 0
    return struct.pack("<IIQQQQIIQQ", start, kind, flags, 0, at, size, link, info, alignment, entry)
