"""The dialects of mlc. The registry maps a dialect's name to "module:attribute", imported when used."""

DIALECTS: dict[str, str] = {
    "graph": "mlc.dialects.graph:Graph",
    "te": "mlc.dialects.te:Te",
    "sched": "mlc.dialects.sched:Sched",
    "loop": "mlc.dialects.loop:Loop",
    "runtime": "mlc.dialects.runtime:Runtime",
    "llvm_ext": "mlc.dialects.llvm_ext:LLVMExt",
}
