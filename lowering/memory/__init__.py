"""The memory planner, which places the buffers of @main and those inside a kernel."""
