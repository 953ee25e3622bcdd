"""Facts of operators against what eager's kernels do: every operator that the samples of torch's database reach."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dynamo.ops.facts import facts_of
from tests import samples

pytest.importorskip("expecttest")

# May view or copy, and with these samples copy.
COPIES: frozenset[str] = frozenset()


def tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)


def is_plain(t: torch.Tensor) -> bool:
    """Can its bits be compared? Below the dispatcher a conjugate tensor looks like what it is the conjugate of."""
    return t.layout is torch.strided and t.device.type == "cpu" and not (t.is_quantized or t.is_conj() or t.is_neg())


def is_unchanged(t: torch.Tensor, old: torch.Tensor) -> bool:
    return t.shape == old.shape and bool(((t == old) | ((t != t) & (old != old))).all())


class Watch(TorchDispatchMode):
    """Notes for each operator what it did beside giving results."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: set[Any] = set()
        self.wrote: set[tuple[Any, int | str]] = set()
        self.shared: set[Any] = set()
        self.drew: set[Any] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [(where, t) for where, value in (*enumerate(args), *kwargs.items()) for t in tensors(value) if is_plain(t)]
        before = [t.detach().clone() for _, t in given]
        state = torch.get_rng_state()
        out = func(*args, **kwargs)
        self.ran.add(func)
        self.wrote.update((func, where) for (where, t), old in zip(given, before, strict=True) if not is_unchanged(t.detach(), old))
        memory = {t.untyped_storage()._cdata for _, t in given}
        if any(t.numel() and t.untyped_storage()._cdata in memory for t in tensors(out) if t.layout is torch.strided):
            self.shared.add(func)
        if not torch.equal(state, torch.get_rng_state()):
            self.drew.add(func)
        return out


@pytest.fixture(scope="module")
def seen() -> Watch:
    from torch.testing._internal.common_methods_invocations import op_db

    watch = Watch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in op_db:
            dtype = next((d for d in (torch.float32, torch.int64, torch.complex64) if op.supports_dtype(d, "cpu")), None)
            if dtype is None:
                continue
            for sample in samples.draw(op, dtype, 2):
                for form in (op.op, op.inplace_variant):
                    own = sample.input.clone() if form is op.inplace_variant and isinstance(sample.input, torch.Tensor) else sample.input
                    try:
                        with watch:
                            form(own, *sample.args, **sample.kwargs)
                    except (RuntimeError, AssertionError, TypeError):
                        continue  # refuses this sample, or looks at what it got
    return watch


def test_enough_operators_ran(seen: Watch) -> None:
    assert len(seen.ran) > 500


def test_what_kernels_write_to(seen: Watch) -> None:
    def may_write(op: Any, where: int | str) -> bool:
        facts = facts_of(op)
        training = facts.training
        return where in facts.writes or (training is not None and training.how == "writes" and where in training.statistics)

    assert {(op, where) for op, where in seen.wrote if not may_write(op, where)} == set()


def test_what_kernels_give_back_of_their_arguments(seen: Watch) -> None:
    def may_share(op: Any) -> bool:
        facts = facts_of(op)
        return bool(facts.views or facts.shares or facts.writes)

    assert {op for op in seen.shared if not may_share(op)} == set()
    assert {str(op) for op in seen.ran - seen.shared if facts_of(op).views} == COPIES


def test_what_kernels_draw(seen: Watch) -> None:
    assert {op for op in seen.drew if not facts_of(op).random} == set()
    assert {op for op in seen.ran - seen.drew if facts_of(op).random} == set()
