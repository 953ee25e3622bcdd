"""AOT over torch's operator database: forward and gradients of three samples per op equal eager's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.utils._pytree import tree_flatten, tree_unflatten  # noqa: E402

from dynamo.aot import aot_eager  # noqa: E402
from dynamo.fake import FakeError  # noqa: E402
from dynamo.fake.pointwise_rules import words  # noqa: E402
from repro_corpus.observe import seed  # noqa: E402
from tests.aot.compare import backward, graph_of  # noqa: E402
from tests.fake.sweep import quiet  # noqa: E402
from tests.samples import draw  # noqa: E402

EAGER_ERRORS = (RuntimeError, ValueError, TypeError, NotImplementedError, AssertionError, IndexError)
# results are memory nobody wrote, or random in a way the sample's seed doesn't fix
UNDEFINED = words(
    """empty empty_like empty_permuted empty_strided new_empty new_empty_strided resize_ resize_as_ jiterator_unary
    nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d"""
)
# read values before an op reaches the dispatcher, or copy where torch's meta kernel insists on a view
NOT_TRACEABLE = frozenset({"tensor_split", "view_copy"})
SEED = 42  # the one torch's samples set themselves before they draw


def samples() -> Iterator[tuple[str, Any, Any]]:
    for info in op_db:
        if info.name in UNDEFINED | NOT_TRACEABLE or torch.float32 not in info.supported_dtypes("cpu"):
            continue
        with quiet():
            drawn = draw(info, torch.float32, 3, requires_grad=info.supports_autograd)
        for sample in drawn:
            yield info.name, info.op, sample


def copied(tensors: list[Any]) -> list[Any]:
    return [t.detach().clone().requires_grad_(t.requires_grad) for t in tensors]


def as_function(op: Any, sample: Any) -> tuple[Any, list[Any]]:
    """The op as a function of the sample's tensors."""
    flat, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
    where = [i for i, x in enumerate(flat) if isinstance(x, torch.Tensor)]

    def fn(*tensors: Any) -> Any:
        values = list(flat)
        for i, t in zip(where, tensors, strict=True):
            values[i] = t
        first, args, kwargs = tree_unflatten(values, spec)
        return op(first, *args, **kwargs)

    return fn, [flat[i] for i in where]


def differs(fn: Any, tensors: list[Any]) -> str:
    """'' if AOT gives eager's results and gradients."""
    theirs, ours = copied(tensors), copied(tensors)
    try:
        seed(SEED)
        expected = fn(*theirs)
        backward(expected)
    except EAGER_ERRORS:
        return ""
    try:
        seed(SEED)
        compiled = aot_eager(graph_of(fn, len(tensors)), ours)
    except FakeError:
        return ""
    try:
        seed(SEED)
        actual = compiled(*ours)
        backward(actual)
        torch.testing.assert_close(plain(actual), plain(expected), equal_nan=True)
        for a, e in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a.grad, e.grad, equal_nan=True)
    except (*EAGER_ERRORS, FakeError) as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return ""


def plain(value: Any) -> Any:
    """Tensors without history; anything else as itself."""
    return [t.detach() for t in tree_flatten(value)[0] if isinstance(t, torch.Tensor)]


def wrong() -> Iterator[str]:
    for name, op, sample in samples():
        fn, tensors = as_function(op, sample)
        if any(t.layout is not torch.strided for t in tensors):
            continue
        with quiet():
            message = differs(fn, tensors)
        if message:
            yield f"{name}: {message}"


def test_results_and_gradients_equal_eager() -> None:
    found = list(wrong())
    assert not found, "\n".join(found)
