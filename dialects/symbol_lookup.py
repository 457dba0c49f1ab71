"""Finding the op of a symbol; while a module is verified and nothing changes, without a walk over all symbols."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from xdsl.dialects.builtin import StringAttr, SymbolRefAttr
from xdsl.ir import Operation
from xdsl.traits import SymbolOpInterface, SymbolTable

_Tables = dict[Operation, dict[str, Operation] | None]
_TABLES: ContextVar[_Tables | None] = ContextVar("mlc_symbol_tables", default=None)


@contextmanager
def unchanged_symbols() -> Generator[None]:
    """Inside, no symbol is added, removed or renamed."""
    token = _TABLES.set({})
    SymbolTable.lookup_symbol = staticmethod(_lookup)  # upstream's calls look up their callees by it
    try:
        yield
    finally:
        _TABLES.reset(token)


_WALK = SymbolTable.lookup_symbol


def _lookup(op: Operation, name: str | StringAttr | SymbolRefAttr) -> Operation | None:
    """As xDSL's `SymbolTable.lookup_symbol`, from the tables while there are some."""
    if _TABLES.get() is None or not isinstance(name, SymbolRefAttr):
        return _WALK(op, name)
    return lookup_symbol(op, name)


def lookup_symbol(op: Operation, name: SymbolRefAttr) -> Operation | None:
    """The op of this symbol in the nearest symbol table around `op`; ValueError where there is no table."""
    tables = _TABLES.get()
    table_op: Operation | None = op
    while table_op is not None and not table_op.has_trait(SymbolTable):
        table_op = table_op.parent_op()
    if tables is None or table_op is None or name.nested_references:
        return _WALK(op, name)
    if table_op not in tables:
        tables[table_op] = _table(table_op)
    table = tables[table_op]
    return _WALK(op, name) if table is None else table.get(name.root_reference.data)


def _table(table_op: Operation) -> dict[str, Operation] | None:
    """The symbols of a table; of two with one name, which is an error, the first one. None if one is malformed."""
    table: dict[str, Operation] = {}
    for op in table_op.regions[0].block.ops:
        symbol = op.get_trait(SymbolOpInterface)
        try:
            name = None if symbol is None else symbol.get_sym_attr_name(op)
        except Exception:  # reported when that op is verified
            return None
        if name is not None:
            table.setdefault(name.data, op)
    return table
