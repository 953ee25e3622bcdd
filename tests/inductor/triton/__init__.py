"""The target for GPUs, without one."""
