"""Independent checks of memory plans: of @main, and of the buffers inside a kernel."""
