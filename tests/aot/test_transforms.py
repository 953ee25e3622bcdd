"""`vmap` and `grad` of torch's operators in compiled functions: the first sample of each gives, or raises, what eager does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

import dynamo  # noqa: E402
from dynamo.errors import GraphBreakError  # noqa: E402
from repro_corpus.observe import seed  # noqa: E402
from tests.aot.test_op_db import SEED, UNDEFINED  # noqa: E402
from tests.fake.sweep import quiet  # noqa: E402
from tests.samples import draw  # noqa: E402

WHOLE = 900  # at least so many calls are one graph


@dataclass(frozen=True)
class _Raised:
    kind: type[Exception]
    text: str


def _mapped(op: Any, sample: Any, x: Any) -> Any:
    return torch.vmap(lambda a: op(a, *sample.args, **sample.kwargs), randomness="same")(x)


def _learned(op: Any, sample: Any, x: Any) -> Any:
    def total(a: Any) -> Any:
        found = [t for t in tree_leaves(op(a, *sample.args, **sample.kwargs)) if isinstance(t, torch.Tensor)]
        return sum((t.abs() if t.is_complex() else t).sum() for t in found)

    return torch.func.grad(total)(x)


def _ran(fn: Any, *args: Any) -> Any:
    seed(SEED)
    try:
        with quiet():
            return fn(*args)
    except Exception as e:  # noqa: BLE001  # what eager raises is compared
        return _Raised(type(e), str(e)[:60])


def _check(info: Any) -> tuple[int, list[str]]:
    """How many of the calls were whole, and what differs."""
    with quiet():
        sample = next(iter(draw(info, torch.float32, 1)), None)
    if sample is None or not isinstance(sample.input, torch.Tensor) or sample.input.layout is not torch.strided:
        return 0, []
    whole, wrong = 0, []
    for transform, x in ((_mapped, torch.stack([sample.input, sample.input * 0.5])), (_learned, sample.input)):
        dynamo.reset()
        expected = _ran(transform, info.op, sample, x)
        found = _ran(dynamo.compile(transform, backend="aot_eager", fullgraph=True), info.op, sample, x)
        if isinstance(found, _Raised) and found.kind is GraphBreakError:
            found = _ran(dynamo.compile(transform, backend="aot_eager"), info.op, sample, x)
        else:
            whole += 1
        if isinstance(expected, _Raised) or isinstance(found, _Raised):
            wrong += [] if found == expected else [f"{info.name} {transform.__name__}: {found} instead of {expected}"]
            continue
        try:
            torch.testing.assert_close(found, expected, equal_nan=True, rtol=1e-4, atol=1e-4)
        except AssertionError as e:
            wrong.append(f"{info.name} {transform.__name__}: {e}")
    return whole, wrong


@pytest.mark.slow
def test_first_samples_of_operators() -> None:
    checked = [_check(info) for info in op_db if info.name not in UNDEFINED and torch.float32 in info.supported_dtypes("cpu")]
    assert [line for _, wrong in checked for line in wrong] == []
    assert sum(whole for whole, _ in checked) >= WHOLE
