"""torch's global modes as one value that can be put back."""

from __future__ import annotations

import ctypes
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.autograd.forward_ad
import torch.utils._device

from dynamo import torch_facts

_DEVICES = ("cpu", "cuda")


@dataclass(frozen=True, eq=False)
class Mode:
    """One global mode.

    `is_depth`: a number that blocks count up and down; what a program does to it is a difference.
    """

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], Any]
    is_depth: bool = False


# setter, getter (of torch, or of torch._C with an underscore), and whether tracing settles the mode
PLAIN: tuple[tuple[str, str, bool], ...] = (
    ("_set_grad_enabled", "is_grad_enabled", True),
    ("_set_default_dtype", "get_default_dtype", False),
    ("set_autocast_cache_enabled", "is_autocast_cache_enabled", True),
    ("_set_sdp_use_flash", "_get_flash_sdp_enabled", True),
    ("_set_sdp_use_math", "_get_math_sdp_enabled", True),
    ("_set_sdp_use_mem_efficient", "_get_mem_efficient_sdp_enabled", True),
    ("_set_sdp_use_cudnn", "_get_cudnn_sdp_enabled", True),
    ("_set_sdp_use_overrideable", "_get_overrideable_sdp_enabled", True),
    ("_set_sdp_priority_order", "_get_sdp_priority_order", True),
    ("_set_view_replay_enabled", "_is_view_replay_enabled", True),
    ("_set_multithreading_enabled", "_is_multithreading_enabled", True),
    ("_set_float32_matmul_precision", "_get_float32_matmul_precision", False),
    ("_set_cudnn_enabled", "_get_cudnn_enabled", False),
    ("_set_cudnn_benchmark", "_get_cudnn_benchmark", False),
    ("_set_cudnn_deterministic", "_get_cudnn_deterministic", False),
    ("_set_cudnn_allow_tf32", "_get_cudnn_allow_tf32", False),
    ("_set_cudnn_depthwise_kernel", "_get_cudnn_depthwise_kernel", False),
    ("_cuda_set_cudnn_benchmark_limit", "_cuda_get_cudnn_benchmark_limit", False),
    ("_set_mkldnn_enabled", "_get_mkldnn_enabled", False),
    ("_set_cublas_allow_tf32", "_get_cublas_allow_tf32", False),
    ("set_num_threads", "get_num_threads", False),
)


def find(name: str) -> Any:
    """The function of `PLAIN` with this name, or None where this torch has none."""
    found = getattr(torch, name, None) if not name.startswith("_") else None
    return found if found is not None else getattr(torch._C, name, None)


def plain_modes() -> Iterator[tuple[Callable[..., Any], Callable[..., Any], bool]]:
    """The rows of `PLAIN` that this torch has: setter, getter, whether tracing settles the mode; kernels read the others while they run."""
    for setter, getter, is_traced in PLAIN:
        write, read = find(setter), find(getter)
        if write is not None and read is not None:
            yield write, read, is_traced


def autocast_nesting() -> int:
    """How many autocast blocks are open."""
    torch.autocast_increment_nesting()
    return int(torch.autocast_decrement_nesting())


def _set_autocast_nesting(depth: int) -> None:
    now = autocast_nesting()
    for _ in range(now, depth):
        torch.autocast_increment_nesting()
    for _ in range(depth, now):
        torch.autocast_decrement_nesting()


def _autocast_modes() -> Iterator[Mode]:
    for device in _DEVICES:
        yield Mode(f"autocast on {device}", partial(torch.is_autocast_enabled, device), partial(torch.set_autocast_enabled, device))
        yield Mode(f"autocast dtype on {device}", partial(torch.get_autocast_dtype, device), partial(torch.set_autocast_dtype, device))


@contextmanager
def without_autocast() -> Iterator[None]:
    """As it is where programs call `backward`: outside of their blocks of autocast."""
    on = [device for device in _DEVICES if torch.is_autocast_enabled(device)]
    for device in on:
        torch.set_autocast_enabled(device, False)
    try:
        yield
    finally:
        for device in on:
            torch.set_autocast_enabled(device, True)


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _set_deterministic(wanted: tuple[bool, bool]) -> None:
    torch._C._set_deterministic_algorithms(wanted[0], warn_only=wanted[1])


MODES: tuple[Mode, ...] = (
    *(Mode(read.__name__.removeprefix("_"), read, write) for write, read, _ in plain_modes()),
    *_autocast_modes(),
    Mode("autocast nesting", autocast_nesting, _set_autocast_nesting, is_depth=True),
    Mode("deterministic algorithms", _deterministic, _set_deterministic),
)


# setters of modes that kernels read while they run
KERNEL_MODES: frozenset[Callable[..., Any]] = frozenset(
    {
        *(write for write, _, is_traced in plain_modes() if not is_traced),
        torch.use_deterministic_algorithms,
        *(f for f in (getattr(torch._C, "_set_fp32_precision_setter", None),) if f is not None),
    }
)


class _Open(threading.local):
    """Inference modes that graphs of this thread have entered and not left, innermost last."""

    def __init__(self) -> None:
        self.guards: list[Any] = []


_open = _Open()


def enter_inference_mode(mode: bool) -> Any:
    """Switch inference mode on or off; the result is given to `exit_inference_mode`."""
    guard = torch._C._InferenceMode(mode)
    guard.__enter__()
    _open.guards.append(guard)
    return guard


def exit_inference_mode(guard: Any) -> None:
    """Leave the mode, once."""
    if any(guard is g for g in _open.guards):
        _open.guards = [g for g in _open.guards if g is not guard]
        guard.__exit__(None, None, None)


def open_blocks() -> tuple[int, ...]:
    """How deep this thread is in blocks that no guard on the global state tells apart."""
    return (len(_open.guards), *(mode.read() for mode in MODES if mode.is_depth))


_settled: list[bool] = []


def settle_attention() -> None:
    """Torch puts the order of attention kernels that suits a GPU in place when it first chooses one. Where that happens while a program is
    traced, it looks as if the program had changed a mode, which is put back: for good, since torch does it once."""
    if _settled or not torch.cuda.is_initialized() or torch.cuda.is_current_stream_capturing() or watcher():
        return
    _settled.append(True)
    some = torch.empty(1, 1, 8, 8, dtype=torch.float16, device="cuda")
    with suppress(RuntimeError), warnings.catch_warnings(action="ignore"):  # where the program allows no kernel for these
        torch._fused_sdp_choice(some, some, some)


def snapshot() -> Callable[..., None]:
    """The modes as they are now; calling the result puts back those that have changed since, and leaves inference modes entered since.

    Where the same modes hold again later, `open_blocks()` of that time goes with them.
    """
    settle_attention()
    values = [(mode, mode.read()) for mode in MODES if not mode.is_depth]
    depths = [mode for mode in MODES if mode.is_depth]
    now = open_blocks()

    def restore(blocks: tuple[int, ...] | None = None) -> None:
        entered, *counted = now if blocks is None else blocks
        while len(_open.guards) > entered:
            exit_inference_mode(_open.guards[-1])
        for mode, value in [*values, *zip(depths, counted, strict=True)]:
            if mode.read() != value:
                mode.write(value)

    return restore


def left(before: Sequence[Any]) -> list[tuple[int, Any]]:
    """The modes that differ from `before` (values in the order of `MODES`), as (row, value or difference)."""
    found = []
    for row, (mode, old) in enumerate(zip(MODES, before, strict=True)):
        now = mode.read()
        if now != old:
            found.append((row, now - old if mode.is_depth else now))
    return found


def leave(row: int, value: Any) -> None:
    """Do to a mode what a program did according to `left`."""
    mode = MODES[row]
    mode.write(mode.read() + value if mode.is_depth else value)


def watcher() -> str:
    """What is active that must see every operation of the program one by one, in words; "" if nothing is.

    Graphs hide operations from modes and transforms, so frames run natively under them.
    """
    if torch._C._len_torch_dispatch_stack() or torch._ops._len_torch_dispatch_stack_pre_dispatch():
        return "an active TorchDispatchMode"
    if torch._C._are_functorch_transforms_active():
        return "an active torch.func transform"
    if getattr(torch.autograd.forward_ad, "_current_level", -1) >= 0:
        return "forward-mode differentiation"
    if torch._C._get_tracing_state() is not None:
        return "torch.jit.trace"
    for i in range(torch._C._len_torch_function_stack()):
        mode = torch._C._get_function_stack_at(i)
        if not isinstance(mode, torch.utils._device.DeviceContext):
            return f"an active {type(mode).__name__}"
    return ""


def _random_state() -> int:
    state = torch.get_rng_state()
    return hash(ctypes.string_at(state.data_ptr(), state.numel()))


def _excluded() -> str:
    keys = torch._C._dispatch_tls_local_exclude_set()
    return str(keys if torch_facts.KEY_OF_NAMES is None else keys.remove(torch_facts.KEY_OF_NAMES))


# What a call may leave changed only where eager does: name -> reader. Reading changes nothing.
_SURROUNDINGS: dict[str, Callable[[], Any]] = {
    **{mode.name: mode.read for mode in MODES},
    "inference mode": torch.is_inference_mode_enabled,
    "anomaly mode": lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
    "random state": _random_state,
    "dispatch modes": torch._C._len_torch_dispatch_stack,
    "function modes": torch._C._len_torch_function_stack,
    "function overrides": torch._C._is_torch_function_enabled,
    "dispatch keys included": lambda: str(torch._C._dispatch_tls_local_include_set()),
    "dispatch keys excluded": _excluded,
    "functorch levels": torch._C._functorch.maybe_current_level,
    "forward-mode level": lambda: getattr(torch.autograd.forward_ad, "_current_level", -1),
    "saved tensor hooks": torch._C._autograd._saved_tensors_hooks_is_enabled,  # type: ignore[attr-defined]  # the stub lacks it
    "profiler": torch._C._autograd._profiler_enabled,
}


def surroundings() -> dict[str, Any]:
    """Every global state that a compiled call must leave as eager leaves it, by name."""
    return {name: read() for name, read in _SURROUNDINGS.items()}
