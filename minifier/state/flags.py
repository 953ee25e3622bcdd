"""One row per global flag of torch that a repro carries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Flag:
    """`plain` is the value of a new process; `line` is how a script sets it, with `{value}` for the value as Python writes it."""

    name: str
    plain: Any
    read: Callable[[], Any]
    write: Callable[[Any], Any]
    line: str

    def value(self) -> Any:
        """The value now; `plain` where torch refuses to say, as it does of a precision that the program has set in two ways."""
        try:
            return self.read()
        except RuntimeError:
            return self.plain


def _set(owner: Any, name: str) -> Callable[[Any], None]:
    """Torch's own contexts write so too: assigning is refused once the program has called `disable_global_flags`."""
    declared = vars(type(owner)).get(name)
    if isinstance(declared, torch.backends.ContextProp):
        return declared.setter
    return lambda value: setattr(owner, name, value)


def _dtype_name() -> str:
    return str(torch.get_default_dtype()).removeprefix("torch.")


FLAGS: tuple[Flag, ...] = (
    Flag(
        "default_dtype",
        "float32",
        _dtype_name,
        lambda name: torch.set_default_dtype(getattr(torch, name)),
        "torch.set_default_dtype(getattr(torch, {value}))",
    ),
    Flag(
        "matmul_precision",  # which is also whether matrices on GPUs use TF32
        "highest",
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
        "torch.set_float32_matmul_precision({value})",
    ),
    Flag(
        "deterministic",
        0,
        torch.get_deterministic_debug_mode,
        torch.set_deterministic_debug_mode,
        "torch.set_deterministic_debug_mode({value})",
    ),
    Flag(
        "fill_uninitialized",
        True,
        lambda: getattr(torch.utils.deterministic, "fill_uninitialized_memory"),  # noqa: B009  # a property of the module
        _set(torch.utils.deterministic, "fill_uninitialized_memory"),
        "torch.utils.deterministic.fill_uninitialized_memory = {value}",
    ),
    *(
        Flag(
            name,
            plain,
            lambda owner=owner, attribute=attribute: getattr(owner, attribute),  # type: ignore[misc]  # defaults bind the row
            _set(owner, attribute),
            f"{path}.{attribute} = {{value}}",
        )
        for name, plain, owner, path, attribute in (
            ("cudnn_tf32", True, torch.backends.cudnn, "torch.backends.cudnn", "allow_tf32"),
            ("cudnn_enabled", True, torch.backends.cudnn, "torch.backends.cudnn", "enabled"),
            ("cudnn_benchmark", False, torch.backends.cudnn, "torch.backends.cudnn", "benchmark"),
            ("cudnn_deterministic", False, torch.backends.cudnn, "torch.backends.cudnn", "deterministic"),
        )
    ),
)
