"""Trains one model for a few steps, eagerly and compiled, and measures both against the same steps in float64."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch

import dynamo
from tests.models.running import tensors
from tests.models.zoo import Model

STEPS = 5
WORSE = 2.0  # a compiled run may be this much further from float64 than eager is
FLOOR = 2e-6  # relative error that any order of float32 sums may have, however lucky eager's is
SPREAD = 10.0  # the worst of several seeds, where chance decides, may be this much further from float64 than eager's worst

Optimizer = Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]


def adam(parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """`eps` is above the rounding noise of a gradient, of which Adam would otherwise see only the sign."""
    return torch.optim.Adam(parameters, lr=1e-4, eps=1e-3)


@dataclass
class Trained:
    """What training left: losses and outputs of every step, parameters and buffers by name."""

    losses: torch.Tensor
    outputs: list[torch.Tensor]
    state: dict[str, torch.Tensor]


def train(module: torch.nn.Module, inputs: tuple[Any, Any], optimizer: Optimizer, compiled: bool) -> Trained:
    """Five steps: forward, loss, backward and optimizer in one function, as a training script writes it."""
    module.train()
    opt = optimizer(module.parameters())
    args, kwargs = inputs

    def step() -> tuple[torch.Tensor, list[torch.Tensor]]:
        outputs = list(tensors(module(*args, **kwargs)))
        loss = torch.stack([out.square().mean() for out in outputs if out.grad_fn is not None]).sum()
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss, outputs

    call = dynamo.compile(step, backend="inductor") if compiled else step
    losses, outputs = [], []
    for _ in range(STEPS):
        loss, out = call()
        losses.append(loss.detach().double())
        outputs += [o.detach().double() for o in out if o.is_floating_point()]
    state = {name: t.detach().double() for name, t in module.state_dict().items()}
    return Trained(torch.stack(losses), outputs, state)


def errors(actual: Trained, reference: Trained) -> dict[str, float]:
    """Relative distance from the reference: of losses, outputs, and parameters and buffers, each weighed by its size."""
    return {
        "losses": distance([actual.losses], [reference.losses]),
        "outputs": distance(actual.outputs, reference.outputs),
        **{kind: distance(*zip(*pairs, strict=True)) for kind, pairs in kinds(actual, reference).items()},
    }


def kinds(actual: Trained, reference: Trained) -> dict[str, list[tuple[torch.Tensor, torch.Tensor]]]:
    """State by its last name (`weight`, `running_var`, ...), which is what shares a scale."""
    out: dict[str, list[tuple[torch.Tensor, torch.Tensor]]] = {}
    for name, value in actual.state.items():
        out.setdefault(name.rpartition(".")[2], []).append((value, reference.state[name]))
    return out


def distance(actual: Iterable[torch.Tensor], reference: Iterable[torch.Tensor]) -> float:
    pairs = list(zip(actual, reference, strict=True))
    assert all(a.shape == r.shape for a, r in pairs)
    off = sum(float((a - r).square().sum()) for a, r in pairs)
    size = sum(float(r.square().sum()) for _, r in pairs)
    return math.sqrt(off / size) if size else math.sqrt(off)


def check_training(model: Model, optimizer: Optimizer = adam, seeds: int = 1) -> None:
    """Compiled training stays as close to float64 as eager training does.

    Several seeds are for models with kinks: whether max(0, x) lets a gradient through is the sign of x, so rounding next
    to zero moves a whole gradient, and takes eager itself up to 3e-2 from float64. Which runs are hit is chance. So the least
    error of each quantity is held to eager's least, and the worst to what chance does to eager.
    """
    runs = [off_float64(model, optimizer, seed) for seed in range(seeds)]
    actual, eager = [a for a, _ in runs], [e for _, e in runs]
    compare(of_each(min, actual), of_each(min, eager))
    compare(of_each(max, actual), of_each(max, eager), worse=WORSE if seeds == 1 else SPREAD)


def off_float64(model: Model, optimizer: Optimizer, seed: int) -> tuple[dict[str, float], dict[str, float]]:
    """Errors of the compiled and of the eager run."""
    torch.manual_seed(seed)
    module = model.make()
    inputs = model.inputs()
    reference = train(*in_double((copy.deepcopy(module), inputs)), optimizer, compiled=False)
    assert reference.losses.all(), "nothing is learnt from a loss of zero"
    eager = errors(train(copy.deepcopy(module), inputs, optimizer, compiled=False), reference)
    dynamo.reset()
    return errors(train(module, inputs, optimizer, compiled=True), reference), eager


def of_each(choice: Callable[[Iterable[float]], float], runs: list[dict[str, float]]) -> dict[str, float]:
    """The least or the worst error of each quantity; different quantities may have it from different runs."""
    return {what: choice(run[what] for run in runs) for what in runs[0]}


def without_kinks(model: Model) -> Model:
    """The model with smooth functions for max(0, x) and for maxima of windows; what chance moves is gone."""

    def make() -> torch.nn.Module:
        module = model.make()
        for parent in list(module.modules()):
            for name, child in list(parent.named_children()):
                if isinstance(child, torch.nn.ReLU):
                    setattr(parent, name, torch.nn.SiLU())
                elif isinstance(child, torch.nn.MaxPool2d):
                    setattr(parent, name, torch.nn.AvgPool2d(child.kernel_size, child.stride, child.padding))
        return module

    return replace(model, name=f"{model.name} without kinks", make=make)


def check_forward(model: Model) -> None:
    """The compiled forward pass in evaluation mode stays as close to float64 as the eager one does."""
    torch.manual_seed(0)
    module = model.make().eval()
    args, kwargs = inputs = model.inputs()
    dynamo.reset()
    with torch.no_grad():
        eager, actual = module(*args, **kwargs), dynamo.compile(module, backend="inductor")(*args, **kwargs)
        double, (args, kwargs) = in_double((module, inputs))
        reference = list(tensors(double(*args, **kwargs)))
    found = [distance([o.double() for o in tensors(out)], reference) for out in (actual, eager)]
    compare({"outputs": found[0]}, {"outputs": found[1]})


def compare(actual: dict[str, float], eager: dict[str, float], worse: float = WORSE) -> None:
    for what, error in actual.items():
        limit = worse * eager[what] + FLOOR
        assert error <= limit, f"{what}: compiled is {error:.2e} from float64, eager {eager[what]:.2e}"


def in_double(run: tuple[torch.nn.Module, tuple[Any, Any]]) -> tuple[torch.nn.Module, tuple[Any, Any]]:
    module, (args, kwargs) = run

    def wide(value: Any) -> Any:
        return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    return module.double(), (tuple(wide(a) for a in args), {k: wide(v) for k, v in kwargs.items()})
