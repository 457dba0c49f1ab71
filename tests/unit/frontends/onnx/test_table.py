"""The table of converters: an op has one converter, unless another one says that it wraps it."""

from pathlib import Path

import pytest

from mlc.frontends.onnx.table import MODULES, Wraps, assembled, converters, wraps

KEY = ("", "Op")


def _converter(name):
    return lambda node: [name]


def _wrapper(name):
    return lambda node, own: [name, *own(node)]


def test_a_wrapper_gets_the_converter_that_it_names():
    modules = {
        "outer": {KEY: wraps("inner", _wrapper("outer"))},
        "plain": {KEY: _converter("plain")},
        "inner": {KEY: wraps("plain", _wrapper("inner"))},
    }
    for order in (["outer", "plain", "inner"], ["inner", "outer", "plain"], ["plain", "inner", "outer"]):
        table = assembled({name: modules[name] for name in order})
        assert table[KEY](None) == ["outer", "inner", "plain"]  # pyright: ignore[reportArgumentType]  (not read)


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        (
            {"a": _converter("a"), "b": _converter("b")},
            r"expected one converter of .*'Op'.*, but got them in \['a', 'b'\]",
        ),
        ({"a": wraps("b", _wrapper("a"))}, r"expected one converter of .*, but got them in \[\]"),
        (
            {"a": _converter("a"), "b": wraps("a", _wrapper("b")), "c": wraps("a", _wrapper("c"))},
            r"expected one of \['b', 'c'\] to wrap the converter of .* in a, but got \['b', 'c'\]",
        ),
        (
            {"a": _converter("a"), "b": wraps("elsewhere", _wrapper("b"))},
            r"expected one of \['b'\] to wrap the converter of .* in a, but got \[\]",
        ),
    ],
)
def test_an_op_of_two_modules_is_an_error_unless_one_wraps_the_other(modules, message):
    with pytest.raises(ValueError, match=message):
        assembled({name: {KEY: entry} for name, entry in modules.items()})


def test_every_module_of_ops_is_in_the_table():
    import mlc.frontends.onnx.ops as ops

    found = {file.relative_to(folder) for folder in ops.__path__ for file in Path(folder).rglob("*.py")}
    names = {".".join(path.with_suffix("").parts) for path in found if path.name != "__init__.py"}
    assert names == set(MODULES)
    assert not any(isinstance(converter, Wraps) for converter in converters().values())
