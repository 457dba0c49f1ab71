"""AutoTVM's log lines of version 0.2, for the templates of x86 CPUs: read, written, and mapped to mlc's tiles."""
