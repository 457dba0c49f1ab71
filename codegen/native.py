"""From LLVM IR text to machine code: objects, assembly, and libraries loaded into this process."""

from collections.abc import Iterable
from functools import cache
from typing import cast

# llvmlite has neither annotations nor stubs.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
import llvmlite.binding as llvm

from mlc.support.errors import UserError
from mlc.targets.target import Target

_libraries = 0


@cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    # Without the parser, module-level assembly makes LLVM abort the process.
    llvm.initialize_native_asmparser()


@cache
def target_machine(target: Target) -> llvm.TargetMachine:
    """Return LLVM's machine for a target; made once, since making one costs as much as a small kernel."""
    _initialize()
    try:
        machine = llvm.Target.from_triple(target.triple)
    except RuntimeError:
        raise UserError(f"expected a triple that LLVM knows, but got '{target.triple}'") from None
    return machine.create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, reloc="pic", codemodel="default"
    )


def _optimized(ir_text: str, target: Target) -> tuple[llvm.ModuleRef, llvm.TargetMachine]:
    """Parse a module and run LLVM's middle end over it at level 0, which only inlines `alwaysinline` functions."""
    machine = target_machine(target)
    try:
        module = llvm.parse_assembly(ir_text)
        module.verify()  # LLVM aborts the process on IR that is not valid
    except RuntimeError as error:
        raise UserError(f"expected LLVM IR, but got: {str(error).strip()}") from error
    module.triple = target.triple
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=0)
    options.loop_vectorization = options.slp_vectorization = False
    options.loop_unrolling = options.loop_interleaving = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module, machine


def emit_object(ir_text: str, target: Target | str = "native") -> bytes:
    """Compile LLVM IR text to an object file; the same text and target give the same bytes."""
    module, machine = _optimized(ir_text, Target.parse(target))
    return machine.emit_object(module)


def assemble(ir_text: str, target: Target | str = "native") -> str:
    """Compile LLVM IR text to assembly text."""
    module, machine = _optimized(ir_text, Target.parse(target))
    return machine.emit_assembly(module)


@cache
def _jit() -> llvm.LLJIT:
    """
    Return the one JIT linker of this process.

    It is LLVM's JITLink, which allocates the sections of an object together. RuntimeDyld, the default, allocates each
    alone: where the free addresses of a process are far apart it ends the process, as code reaches 2 GB.
    """
    _initialize()
    return llvm.create_lljit_compiler(target_machine(Target.parse("native")), use_jit_link=True)


class Library:
    """
    Objects linked into this process; their code stays as long as this object.

    Keep the library as long as one of its addresses is in use.
    """

    def __init__(self, tracker: llvm.ResourceTracker, symbols: Iterable[str]) -> None:
        self._tracker = tracker
        self.symbols = tuple(symbols)

    @staticmethod
    def load(objects: Iterable[bytes], imports: dict[str, int] | None = None) -> "Library":
        """Link objects (in any order) with each other, this process and the named addresses."""
        global _libraries
        builder = llvm.JITLibraryBuilder().add_current_process()
        symbols: list[str] = []
        for data in objects:
            builder.add_object_img(data)
            symbols += defined_symbols(data)
        for name, address in (imports or {}).items():
            builder.import_symbol(name, address)
        for name in symbols:
            builder.export_symbol(name)
        _libraries += 1
        try:
            tracker = builder.link(_jit(), f"mlc.{_libraries}")
        except RuntimeError as error:
            raise UserError(f"expected objects that link, but got: {str(error).strip()}") from error
        return Library(tracker, symbols)

    def address(self, symbol: str) -> int:
        """Return the address of a function or a global."""
        if symbol not in self.symbols:
            raise UserError(f"expected a symbol of the library ({', '.join(self.symbols)}), but got '{symbol}'")
        return cast("int", self._tracker[symbol])


def defined_symbols(data: bytes) -> list[str]:
    """Return the names of the global symbols that an object file defines, sorted."""
    _initialize()
    if data[:4] == b"\x7fELF" and data[4] == 2:
        return _elf_symbols(data)
    raise UserError("expected a 64-bit ELF object")


def _elf_symbols(data: bytes) -> list[str]:
    """Read the symbol table of a little-endian ELF64 relocatable file."""
    from struct import unpack_from

    table, entry_size, count = unpack_from("<Q", data, 40)[0], *unpack_from("<HH", data, 58)
    sections = [unpack_from("<IIQQQQIIQQ", data, table + i * entry_size) for i in range(count)]
    names: list[str] = []
    for _, kind, _, _, offset, size, link, _, _, _ in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        strings = sections[link][4]
        for at in range(offset, offset + size, 24):
            name, info, _, section, _, _ = unpack_from("<IBBHQQ", data, at)
            if section and info >> 4 in (1, 2, 10):  # global, weak, GNU unique
                end = data.index(b"\0", strings + name)
                names.append(data[strings + name : end].decode())
    return sorted(names)
