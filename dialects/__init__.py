"""What the IRs are. The registry is data: a dialect's name -> where it is; imported when used."""

DIALECTS: dict[str, str] = {
    "graph": "mlc.dialects.graph:Graph",
    "te": "mlc.dialects.te:Te",
    "sched": "mlc.dialects.sched:Sched",
    "loop": "mlc.dialects.loop:Loop",
    "runtime": "mlc.dialects.runtime:Runtime",
    "llvm_ext": "mlc.dialects.llvm_ext:LLVMExt",
}
