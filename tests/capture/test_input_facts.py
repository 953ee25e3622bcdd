"""What a program can ask of a tensor, asked of tensors that differ in one fact each, one after the other: no answer is a constant.

A fact that no guard knows would be that of the first call. Each question runs beside an operator, else there would be no graph.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynamo
from dynamo import config

Tensor = torch.Tensor


class Sub(torch.Tensor):
    """Another type, and nothing else."""


def ones(*shape: int, **options: Any) -> Tensor:
    return torch.ones(*(shape or (2, 4)), **options)


def changed(t: Tensor, change: Callable[[Tensor], Any]) -> Tensor:
    change(t)
    return t


def inferred() -> Tensor:
    with torch.inference_mode():
        return ones()


GIVEN: dict[str, Callable[[], Tensor]] = {
    "plain": ones,
    "leaf": lambda: ones(requires_grad=True),
    "result": lambda: ones(requires_grad=True) * 1,
    "part of a result": lambda: (ones(4, 4, requires_grad=True) * 1).split(2)[1],
    "view of a leaf": lambda: ones(4, 4, requires_grad=True)[:2],
    "view": lambda: ones(4, 4)[2:],
    "parameter": lambda: torch.nn.Parameter(ones()),
    "frozen parameter": lambda: torch.nn.Parameter(ones(), requires_grad=False),
    "buffer": lambda: torch.nn.Buffer(ones()),
    "gradient": lambda: changed(ones(requires_grad=True), lambda t: setattr(t, "grad", ones())),
    "hook": lambda: changed(ones(requires_grad=True), lambda t: t.register_hook(lambda g: g * 2)),
    "retains": lambda: changed(ones(requires_grad=True) * 1, lambda t: t.retain_grad()),
    "inference": inferred,
    "attribute": lambda: changed(ones(), lambda t: setattr(t, "foo", 3)),
    "offset": lambda: ones(64)[8:16].view(2, 4),
    "large memory": lambda: ones(100)[:8].view(2, 4),
    "transposed": lambda: ones(4, 2).t(),
    "gaps": lambda: ones(2, 8)[:, ::2],
    "expanded": lambda: ones(1, 4).expand(2, 4),
    "negative": lambda: ones(dtype=torch.complex64).conj().imag,
    "subclass": lambda: ones().as_subclass(Sub),
    "detached": lambda: (ones(requires_grad=True) * 1).detach(),
    "written": lambda: ones().add_(1),
    "double": lambda: ones().double(),
    "integers": lambda: ones().int(),
    "shared": lambda: ones().share_memory_(),
}
QUESTIONS = (
    *"x.is_leaf|x.requires_grad|x.grad_fn is None|x.grad is None|x._is_view()|x._base is None|x.retains_grad|x._version".split("|"),
    *"x.output_nr|x.is_inference()|x.is_shared()|x.storage_offset()|x.stride()|x.untyped_storage().nbytes()|x.is_conj()".split("|"),
    *"x.is_neg()|x.is_contiguous()|type(x).__name__|isinstance(x, torch.nn.Parameter)|isinstance(x, torch.nn.Buffer)".split("|"),
    *"hasattr(x, 'foo')|getattr(x, 'foo', 1)|x.__dict__|x.dtype|x.clone().stride()|(x + 1).stride()|x.contiguous() is x".split("|"),
    *"x.to(torch.float32) is x|x.detach() is x|x.data.requires_grad|x.reshape(-1)._is_view()|x.t().is_contiguous()".split("|"),
    *"x.element_size()|x.is_set_to(x)|x.name|x.layout|str(x)|bool(x.all())|x.tolist()|torch.empty_like(x).stride()".split("|"),
    *"torch.zeros_like(x).requires_grad|x.new_zeros(2).dtype|x.type()|x.grad_dtype|x.data_ptr() % 4|x.is_pinned()".split("|"),
    *"torch.result_type(x, 1.0)|x.mul(2).is_leaf|(x * 2)._version|x.view(2, 4)._base is None|x.__class__.__name__".split("|"),
    *"x in [x]|x.shape[0] + x.stride(0)|x.mT.shape|x._backward_hooks is None|x._post_accumulate_grad_hooks is None".split("|"),
    *"x.untyped_storage().data_ptr() == x.data_ptr()|x.itemsize|x.nbytes|x._is_zerotensor()|copy.copy(x) is x".split("|"),
    *"x.grad_fn.name() if x.grad_fn is not None else ''|torch.overrides.has_torch_function((x,))|x.requires_grad_() is x".split("|"),
    *"x.add_(1).requires_grad|x.t_().stride()|x.unsqueeze_(0).shape|x.detach_().requires_grad|x.fill_(3)._version".split("|"),
    *"x.requires_grad_(False).requires_grad|x.copy_(x * 2)|x.data.add_(1)|x.retain_grad()|x.mul_(x)|x.square_().sum()".split("|"),
)


def plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.dtype, value.shape, value.stride(), value.requires_grad, value.is_leaf, type(value).__name__, value.tolist()
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


def outcome(f: Callable[[Tensor], Any], x: Tensor) -> str:
    """The answer, and what has become of the tensor."""
    before = 0 if x.is_inference() else x._version
    try:
        answer = plain(f(x))
    except (RuntimeError, TypeError, ValueError) as e:
        answer = type(e).__name__, str(e)[:60]
    return repr((answer, plain(x), x.storage_offset(), 0 if x.is_inference() else x._version - before))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_are_those_of_each_tensor(question: str) -> None:
    program: dict[str, Any] = {"torch": torch, "copy": copy}
    exec(f"def f(x):\n    y = x * 2\n    return y.sum(), {question}", program)  # the question
    expected = {name: outcome(program["f"], make()) for name, make in GIVEN.items()}
    with config.patch(recompile_limit=2 * len(GIVEN)):
        for order in (list(GIVEN), list(GIVEN)[::-1]):
            dynamo.reset()
            compiled = dynamo.compile(program["f"], backend="eager")
            found = {name: outcome(compiled, GIVEN[name]()) for name in order}
            assert {n: found[n] for n in order if found[n] != expected[n]} == {}, expected
