"""`out=` of another type or another layout: refused, written and laid out as in eager, for all of torch's operator database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

import dynamo
from dynamo import internal_errors
from tests.fake.sweep import quiet
from tests.samples import draw

FORMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "double": lambda t: torch.zeros(t.shape, dtype=torch.float64),
    "int": lambda t: torch.zeros(t.shape, dtype=torch.int32),
    "complex": lambda t: torch.zeros(t.shape, dtype=torch.complex64),
    "reversed": lambda t: torch.zeros(t.shape[::-1], dtype=t.dtype).permute(list(range(t.dim()))[::-1]),
    "resized": lambda t: torch.empty(0, dtype=t.dtype),
    "gaps": lambda t: torch.zeros([2 * n for n in t.shape], dtype=t.dtype)[tuple(slice(None, None, 2) for _ in t.shape)],
}
# Eager's own kernels write beside the elements of an `out` that is not in order, or leave what was there.
_CONFUSED = frozenset(
    "narrow_copy nn.functional.avg_pool3d nn.functional.gelu native_batch_norm _native_batch_norm_legit tril triu empty".split()
)


def _turned(x: Any) -> Any:
    return x.mT.contiguous().mT if isinstance(x, torch.Tensor) and x.layout is torch.strided and x.dim() > 1 else x


def _outcome(call: Callable[..., Any], args: Any, outs: Any) -> Any:
    torch.manual_seed(0)
    copied = tree_map(lambda t: t.detach().clone() if isinstance(t, torch.Tensor) else t, args)
    try:
        call(*copied[0], out=outs, **copied[1])
    except Exception as e:  # noqa: BLE001  # compared, whatever it is
        return type(e).__name__
    return tree_leaves(outs)


def _differ(expected: Any, found: Any) -> bool:
    if isinstance(expected, str) or isinstance(found, str):
        return bool(expected != found)
    return any(
        e.shape != f.shape or (e.numel() and e.stride() != f.stride()) or not torch.allclose(e, f, 1e-3, 1e-4, equal_nan=True)
        for e, f in zip(expected, found, strict=True)
    )


def _wrong(info: Any, form: str) -> bool:
    """Whether a compiled call with this `out` differs, for the first and for a turned argument."""
    (sample,) = draw(info, torch.float32, 1)
    args = ((sample.input, *sample.args), sample.kwargs)
    try:
        results = tree_map(lambda t: t.detach() if isinstance(t, torch.Tensor) else t, info.op(*args[0], **args[1]))
    except Exception:  # noqa: BLE001  # refused without `out` as well
        return False
    if not all(isinstance(t, torch.Tensor) and t.layout is torch.strided for t in tree_leaves(results)):
        return False
    make = tuple(results) if isinstance(results, tuple) else results

    def call(*given: Any, out: Any, **options: Any) -> Any:
        return info.op(*given, out=out, **options)

    for of in (args, ((_turned(args[0][0]), *args[0][1:]), args[1])):
        expected = _outcome(call, of, tree_map(FORMS[form], make))
        dynamo.reset()
        internal_errors.forget()
        found = _outcome(dynamo.compile(call, backend="aot_eager"), of, tree_map(FORMS[form], make))
        if _differ(expected, found) or internal_errors.internal_errors():
            return True
    return False


@pytest.mark.parametrize("form", FORMS)
def test_out(form: str) -> None:
    with quiet():
        infos = [i for i in op_db if i.supports_out and i.op is not None and torch.float32 in i.supported_dtypes("cpu")]
        wrong = sorted({i.name for i in infos if i.name not in _CONFUSED and _wrong(i, form)})
    assert not wrong
