"""Finds the kernel, buffer, element and user line of an illegal memory access or a race, without a GPU: see `backend`."""
