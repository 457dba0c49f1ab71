"""The messages of xDSL's parser as mlc says them: what was expected, and what stands there."""

import re

_END = "the end of the text"
_EXPECTED = re.compile(r"^(?P<what>[^,;]+?) expected(?P<where>( .*)?)$")
_NAMES = {
    "shape type": "a size, `?` or an element type",
    "region": "'{', where a region of the operation begins",
    "type": "a type",
    "attribute": "an attribute",
    "operand": "an operand",
    "an operand": "an operand, %name",
    "block argument": "a block argument, %name",
    "function type": "a function type, (types) -> types",
    "function type signature": "':' and the types of the operands and results, (types) -> types",
    "symbol name": "the name of a symbol, @name",
    "argument or type": "an argument, %name: type, or a type",
    "operation name": "the name of an operation",
    "vector element type": "the element type of a vector",
    "string literal": 'a string, "..."',
    "integer literal": "an integer",
    "boolean literal": "true or false",
    "identifier": "a name",
    "identifier or string literal": "a name",
    "bare-id or string-literal here as part of attribute entry": "the name of an attribute",
    "integer, boolean, or float literal": "a number or a boolean",
    "integer or float literal": "a number",
    "result SSA value": "the name of a result, %name",
}


def token_text(token: str) -> str:
    """A token as messages name it; the empty one is the end of the text."""
    return f"'{token}'" if token else _END


def reworded(message: str, token: str | None) -> str:
    """
    `"type expected" -> "expected a type, but got ','"`, for messages that lack what they got; others are unchanged.

    `token` is the one that the message is about; None if it is about another place.
    """
    if token is not None and message.startswith("Expected 'x' in shape delimiter"):
        return f"expected 'x' between the sizes of a shape, but got {token_text(token)}"
    text = re.sub("^expect ", "expected ", message.rstrip("!.").strip())
    if (match := _EXPECTED.match(text)) is not None:
        what, where = match["what"], match["where"]
    elif text.startswith("Expected ") or (text.startswith("expected ") and not re.search("[,;]", text)):
        what, where = text[9:], ""
    else:
        return message
    if token is None or re.search(r"\b(got|had)\b", text):
        return message
    what = _NAMES.get(what, _NAMES.get(what[:1].lower() + what[1:], what))
    return f"expected {what}{where}, but got {token_text(token)}"


def negative_size(digits: str) -> str:
    """The message for a negative size in a type, `digits` being what follows its sign."""
    return f"expected a size of at least 0, or `?` for one that is not known, but got -{digits}"
