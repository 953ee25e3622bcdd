"""Types that eager's kernels lack: a call whose result nothing reads raises what eager raises, for all of torch's operator database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import (
    foreach_binary_op_db,
    foreach_pointwise_op_db,
    foreach_unary_op_db,
    op_db,
)
from torch.utils._pytree import tree_leaves, tree_map

import dynamo
from dynamo import internal_errors
from tests.fake.sweep import quiet
from tests.samples import draw

LISTS = (*foreach_unary_op_db, *foreach_binary_op_db, *foreach_pointwise_op_db)
DTYPES = (torch.bool, torch.int64, torch.complex64)
# Computed for integers (docs/differences.md); numbers that the other operand's type decides; kept for torch's own decompositions.
KNOWN = frozenset(
    """nn.functional.max_pool1d torch.ops.aten._unsafe_masked_index
    torch.ops.aten._unsafe_masked_index_put_accumulate""".split()
)


def _refusal(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as e:  # noqa: BLE001  # compared, whatever it is
        return type(e).__name__
    return ""


def _is_lost(call: Callable[[], Any]) -> bool:
    """Whether eager raises, and a compiled function that does not read the result raises something else or nothing."""
    expected = _refusal(call)
    if not expected:
        return False

    def unread() -> int:
        call()
        return 1

    dynamo.reset()
    internal_errors.forget()
    found = _refusal(dynamo.compile(unread, backend="aot_eager"))
    return found != expected or bool(internal_errors.internal_errors())


def _calls(info: Any, dtype: torch.dtype) -> Iterator[tuple[str, Callable[[], Any]]]:
    base = next((d for d in (torch.float32, torch.int64) if d in info.supported_dtypes("cpu")), None)
    for sample in draw(info, base, 2) if base is not None else ():

        def converted(t: Any, base: torch.dtype | None = base) -> Any:
            return t.detach().to(dtype) if isinstance(t, torch.Tensor) and t.layout is torch.strided and t.dtype is base else t

        args = tree_map(converted, (sample.input, sample.args, sample.kwargs))
        if all(t.numel() for t in tree_leaves(args) if isinstance(t, torch.Tensor)):
            for op in (info.op, info.inplace_variant):
                if op is not None:
                    yield info.name, lambda op=op, args=args: op(args[0], *args[1], **args[2])


def _calls_of_lists(info: Any, dtype: torch.dtype) -> Iterator[tuple[str, Callable[[], Any]]]:
    x = torch.ones(3).to(dtype)
    both = [x, x]
    forms = [
        (),
        (both,),
        (2,),
        (True,),
        (1.5,),
        (1j,),
        ([2, 1.5],),
        ([x.float(), x],),
        (both, both),
        (both, both, 0.5),
        (both, both, [1, 2]),
    ]
    for name in (info.name, f"{info.name}_"):
        op = getattr(torch, name, None)
        for more in forms if op else ():
            yield f"{name} {more}", lambda op=op, more=more: op([x, x.clone()], *more)


@pytest.mark.parametrize("dtype", DTYPES)
def test_types_that_kernels_lack(dtype: torch.dtype) -> None:
    with quiet():
        calls = [c for info in op_db if info.name not in KNOWN for c in _calls(info, dtype)]
        calls += [c for info in LISTS for c in _calls_of_lists(info, dtype)]
        lost = sorted({name for name, call in calls if _is_lost(call)})
    assert not lost


@pytest.mark.parametrize("name", ["cumsum_", "cumprod_"])
@pytest.mark.parametrize("shape", [(), (0,), (0, 3)])
def test_no_kernel_is_asked_for(name: str, shape: tuple[int, ...]) -> None:
    def scanned(x: torch.Tensor) -> torch.Tensor:
        return getattr(x, name)(0)

    compiled = dynamo.compile(scanned, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(shape, dtype=torch.bool)), scanned(torch.ones(shape, dtype=torch.bool)))
