"""Numbers that a kernel converts to a type of its own and refuses where it holds no such number, and the kinds of numbers it refuses."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from repro_corpus.program import program


def _tried(compile, make, calls):
    """Each call compiled alone and made twice: the result, or the type and the words of the exception."""
    out = []
    for call in calls:
        f = compile(call)
        for _ in range(2):
            x = make()
            try:
                out.append((f(x), x))
            except Exception as e:  # noqa: BLE001  # compared, whatever it is
                out.append((type(e).__name__, str(e), x))
    return out


@program("", "scales of sums: a float for integers, a bool or a complex number for what is none, one that the type cannot hold")
def scales(compile):
    calls = [
        lambda x: torch.add(x, x, alpha=1.5),
        lambda x: torch.add(x, 2, alpha=1.5),
        lambda x: torch.add(x, 1.5, alpha=1.5),
        lambda x: torch.sub(x, x, alpha=True),
        lambda x: torch.rsub(x, 1, alpha=300),
        lambda x: torch.add(x, x, alpha=1j),
        lambda x: x.add_(x, alpha=300),
        lambda x: x.sub_(x, alpha=-128),
        lambda x: torch.addr(x, x, x, beta=1.5),
        lambda x: torch.addr(x, x, x, alpha=1e10),
        lambda x: torch.addmv(x, x.outer(x), x, beta=300),
        lambda x: torch._foreach_add([x], [x], alpha=1.5),
        lambda x: x.index_add(0, torch.tensor([0]), x[:1], alpha=300),
    ]
    return [_tried(compile, lambda: torch.ones(2).to(dtype), calls) for dtype in (torch.int8, torch.int64, torch.float16, torch.float32)]


@program("", "bounds, fillings, slopes and exponents that the type cannot hold")
def stored(compile):
    calls = [
        lambda x: torch.full((2,), 1e10, dtype=x.dtype),
        lambda x: torch.full((1,), 1e10, dtype=x.dtype),
        lambda x: torch.full((2,), 1e50) + x,
        lambda x: x.clone().fill_(1e10),
        lambda x: x.clamp(0, 1000),
        lambda x: x.clamp_max(1e10),
        lambda x: F.hardtanh(x, 0, 1e10),
        lambda x: F.threshold(x, 0, 1e10),
        lambda x: F.pad(x, (1, 1), value=1e10),
        lambda x: x.pow(1e10),
        lambda x: x.masked_fill(x > 0, 1e10),
        lambda x: torch.addcmul(x, x, x, value=1e10),
        lambda x: F.elu(-x, 1e50),
        lambda x: F.leaky_relu(-x, 1e10),
        lambda x: torch.linspace(0, 1e10, 3, dtype=x.dtype),
    ]
    return [_tried(compile, lambda: torch.ones(2).to(dtype), calls) for dtype in (torch.int8, torch.float16, torch.float32)]


@program("", "types that are not brought together, and softmax and differences of what has none")
def types(compile):
    calls = [
        lambda x: x.lerp(x.double(), 0.5),
        lambda x: x.lerp(x, x.double()),
        lambda x: x.lerp(x, torch.tensor(0.5, dtype=torch.float64)),
        lambda x: x.index_put((torch.tensor([0]),), torch.tensor(1.0, dtype=torch.float64)),
        lambda x: torch.softmax(x.long(), 0),
        lambda x: torch.log_softmax(x > 0, 0),
        lambda x: torch.softmax(x.long(), 0, dtype=torch.float32),
        lambda x: (x > 0).sub_(x > 0),
    ]
    return _tried(compile, lambda: torch.ones(2), calls)


@program("", "a tensor's number that masked_fill cannot convert to the type that it fills")
def filled_with_a_tensor(compile):
    def f(x, mask, value):
        return x.masked_fill(mask, value)

    numbers = {
        torch.uint8: (torch.tensor(300), torch.tensor(-1), torch.tensor(2.7), torch.tensor(True)),
        torch.int32: (torch.tensor(float("nan")), torch.tensor(2**40), torch.tensor(7, dtype=torch.int16)),
        torch.float16: (
            torch.tensor(70000),
            torch.tensor(7),
            torch.tensor(1e10),
            torch.tensor(True),
            torch.tensor(-250, dtype=torch.int16),
        ),
        torch.bfloat16: (torch.tensor(float("-inf")), torch.tensor(70000), torch.tensor(1.5, dtype=torch.float16)),
        torch.float32: (torch.tensor(1e39, dtype=torch.float64), torch.tensor(2**60), torch.tensor(1.5, dtype=torch.float64)),
        torch.bool: (torch.tensor(2), torch.tensor(0.5)),
    }
    mask = torch.tensor([True, False, True])
    return [_tried(compile, lambda: torch.zeros(3).to(dtype), [lambda x, v=v: f(x, mask, v)]) for dtype in numbers for v in numbers[dtype]]


@program("", "bounds beyond the integers of a type: refused, or no bound, as this torch has it")
def far_bounds(compile):
    calls = [
        lambda x: x.clamp(0, 300),
        lambda x: x.clamp(-300, 5),
        lambda x: x.clamp(min=300),
        lambda x: x.clamp_max(-(10**10)),
        lambda x: x.clamp_(max=2**63),
        lambda x: torch.clamp_min(x, -(2**63)),
        lambda x: F.hardtanh(x, 5, 1e10),
        lambda x: F.hardtanh(x, 5, 1e19),
        lambda x: torch._foreach_clamp_max([x], 300),
    ]
    kinds = (torch.int8, torch.uint8, torch.int32, torch.int64)
    return [_tried(compile, lambda: torch.tensor([0, 1, 100, 7]).to(dtype), calls) for dtype in kinds]
