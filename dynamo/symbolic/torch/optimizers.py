"""What an optimizer is told before its step is captured: where to count steps."""

from __future__ import annotations

import torch


def count_on_device(optimizer: torch.optim.Optimizer) -> None:
    """Have an optimizer whose parameters are on a GPU count its steps there, as its option `capturable` and torch's compiler have it.

    Otherwise steps are tensors of the processor, and a captured step would have to wait for the device to use them. The option is set for
    good: eager steps between compiled ones find the count where they look for it.
    """
    for group in optimizer.param_groups:
        if "capturable" in group and group["params"] and all(is_on_gpu(p) for p in group["params"]):
            group["capturable"] = True
    for parameter, state in optimizer.state.items():
        step = state.get("step") if isinstance(state, dict) else None
        if isinstance(step, torch.Tensor) and step.device.type == "cpu" and is_on_gpu(parameter):
            state["step"] = step.to(parameter.device)


def is_on_gpu(parameter: torch.Tensor) -> bool:
    return parameter.device.type == "cuda"
