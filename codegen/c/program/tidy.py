"""Text of C functions without what nobody reads: compilers warn of unused variables."""

import re
from collections import Counter

_SPLIT_DECLARATION = re.compile(r"^( *)(\w+) (\w+);\n\1\3 = ", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")
_VARIABLE = re.compile(r" +(?:const )?\w+ (?:\*const |\*restrict |\*)?(\w+)(?:\[\d+\])?(?: = [^{}]*)?;")


def tidied(text: str) -> str:
    """A function in which each value is declared where it gets its value, and no variable is unused."""
    lines = _SPLIT_DECLARATION.sub(r"\1\2 \3 = ", text).split("\n")
    count = Counter(word for line in lines for word in _WORD.findall(line))
    while True:
        kept = [line for line in lines if not ((found := _VARIABLE.fullmatch(line)) and count[found[1]] == 1)]
        if len(kept) == len(lines):
            return "\n".join(lines)
        count = Counter(word for line in kept for word in _WORD.findall(line))
        lines = kept
