"""torch's global modes as one value that can be put back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_DEVICES = ("cpu", "cuda")

# getter -> setter; each pair is one mode
_MODES: tuple[tuple[Callable[[], Any], Callable[[Any], Any]], ...] = (
    (torch.is_grad_enabled, torch._C._set_grad_enabled),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
)


def snapshot() -> Callable[[], None]:
    """The modes as they are now; calling the result puts back those that have changed since."""
    values = [get() for get, _ in _MODES]
    autocast = [(d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in _DEVICES]

    def restore() -> None:
        for (get, put), value in zip(_MODES, values, strict=True):
            if get() != value:
                put(value)
        for device, enabled, dtype in autocast:
            if torch.is_autocast_enabled(device) != enabled:
                torch.set_autocast_enabled(device, enabled)
            if torch.get_autocast_dtype(device) != dtype:
                torch.set_autocast_dtype(device, dtype)

    return restore


# What a call may leave changed only where eager does: name -> reader. Reading changes nothing.
_SURROUNDINGS: dict[str, Callable[[], Any]] = {
    "grad mode": torch.is_grad_enabled,
    "inference mode": torch.is_inference_mode_enabled,
    "default dtype": torch.get_default_dtype,
    "autocast": lambda: [(d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in _DEVICES],
    "autocast cache": torch.is_autocast_cache_enabled,
    "deterministic algorithms": lambda: (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    ),
    "matmul precision": torch.get_float32_matmul_precision,
    "threads": torch.get_num_threads,
    "anomaly mode": lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
    "random state": lambda: hash(bytes(torch.get_rng_state().untyped_storage().tolist())),
    "dispatch modes": torch._C._len_torch_dispatch_stack,
    "function modes": torch._C._len_torch_function_stack,
    "function overrides": torch._C._is_torch_function_enabled,
    "dispatch keys included": lambda: str(torch._C._dispatch_tls_local_include_set()),
    "dispatch keys excluded": lambda: str(torch._C._dispatch_tls_local_exclude_set()),
    "functorch levels": torch._C._functorch.maybe_current_level,
    "saved tensor hooks": torch._C._autograd._saved_tensors_hooks_is_enabled,  # type: ignore[attr-defined]  # the stub lacks it
    "profiler": torch._C._autograd._profiler_enabled,
}


def surroundings() -> dict[str, Any]:
    """Every global state that a compiled call must leave as eager leaves it, by name."""
    return {name: read() for name, read in _SURROUNDINGS.items()}
