"""Bytes as C."""

import numpy as np


def words_text(data: bytes) -> str:
    """Bytes as the initializer of an array of 64-bit words."""
    words = np.frombuffer(data + bytes(-len(data) % 8), "<u8")
    rows = [words[k : k + 6] for k in range(0, len(words), 6)]
    lines = ["  " + " ".join(f"0x{word:x}u," if word < 1 << 32 else f"0x{word:x}ull," for word in row) for row in rows]
    body = "\n".join(lines) or "  0"
    return f"{{\n{body}\n}}"
