"""How long a kernel takes on the device that is there, alone, on random numbers: as its own script measures it."""

from __future__ import annotations

import torch

from inductor.targets.triton.library import Kernel

LARGE = 16384 * 4096  # elements of the copy that others are compared with


def microseconds(kernel: Kernel) -> float:
    """Of one run of the kernel, all launches of a batch together; 0.0 where there is no form. Raises OutOfMemoryError."""
    module = kernel.module
    if module.KERNEL is None:
        return 0.0
    tensors = module.samples("cuda")
    bad = [torch.zeros(1, dtype=torch.int32, device="cuda")] if module.TAKES_BAD else []
    return float(module.microseconds(lambda *given: module.launch(*given, bad=bad), tensors))


_rates: dict[int, float] = {}


def copy_rate(index: int, kernel: Kernel) -> float:
    """Bytes that a copy moves in a microsecond on a device, reads and writes, measured as the file of any kernel measures."""
    if index not in _rates:
        with torch.cuda.device(index):
            source = torch.empty(LARGE, dtype=torch.bfloat16, device="cuda")
            took = kernel.module.microseconds(lambda a, b: b.copy_(a), [source, torch.empty_like(source)])
            _rates[index] = 2.0 * source.nbytes / float(took)
    return _rates[index]
