"""Numbers that a kernel converts are refused for fakes as eager's kernels refuse them, in every type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from dynamo.fake import FakeMode

aten = torch.ops.aten
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.uint8, torch.int64, torch.bool, torch.complex64)
VALUES = (1e50, 1e10, 300, -128, -1, 1, 1.5, 1.0, True, float("inf"), 1j)


def _at(op: Any, *shapes: tuple[int, ...] | int | str, **named: str) -> Callable[[torch.dtype, Any], Any]:
    """A call with ones of the shapes; "v" stands for the number, an int for itself."""

    def call(dtype: torch.dtype, value: Any) -> Any:
        args = [value if s == "v" else s if isinstance(s, int) else torch.ones(s).to(dtype) for s in shapes]
        return op(*args, **dict.fromkeys(named, value))

    return call


def _index_add(dtype: torch.dtype, value: Any) -> Any:
    return aten.index_add(torch.ones(2).to(dtype), 0, torch.tensor([0]), torch.ones(1).to(dtype), alpha=value)


CALLS: dict[str, Callable[[torch.dtype, Any], Any]] = {
    "add": _at(aten.add.Tensor, (2,), (2,), alpha="v"),
    "add of a number": _at(aten.add.Scalar, (2,), 1, "v"),
    "add in place": _at(aten.add_.Tensor, (2,), (2,), alpha="v"),
    "sub": _at(aten.sub.Tensor, (2,), (2,), alpha="v"),
    "sub in place": _at(aten.sub_.Tensor, (2,), (2,), alpha="v"),
    "rsub": _at(aten.rsub.Tensor, (2,), (2,), alpha="v"),
    "rsub of a number": _at(aten.rsub.Scalar, (2,), 1, "v"),
    "add of lists": lambda dtype, v: aten._foreach_add.List([torch.ones(2).to(dtype)], [torch.ones(2).to(dtype)], alpha=v),
    "sub of lists": lambda dtype, v: aten._foreach_sub.List([torch.ones(2).to(dtype)], [torch.ones(2).to(dtype)], alpha=v),
    "clamp of lists": lambda dtype, v: aten._foreach_clamp_max.Scalar([torch.ones(2).to(dtype)], v),
    "addr, alpha": _at(aten.addr, (2,), (2,), (2,), alpha="v"),
    "addr, beta": _at(aten.addr, (2,), (2,), (2,), beta="v"),
    "addmm, alpha": _at(aten.addmm, (2,), (2, 2), (2, 2), alpha="v"),
    "addmm, beta": _at(aten.addmm, (2,), (2, 2), (2, 2), beta="v"),
    "addmv, alpha": _at(aten.addmv, (2,), (2, 2), (2,), alpha="v"),
    "addmv, beta": _at(aten.addmv, (2,), (2, 2), (2,), beta="v"),
    "baddbmm": _at(aten.baddbmm, (2,), (2, 2, 2), (2, 2, 2), alpha="v"),
    "addbmm": _at(aten.addbmm, (2,), (2, 2, 2), (2, 2, 2), beta="v"),
    "index_add": _index_add,
    "clamp, least": _at(aten.clamp, (2,), "v"),
    "clamp, greatest": lambda dtype, v: aten.clamp(torch.ones(2).to(dtype), None, v),
    "clamp_min": _at(aten.clamp_min, (2,), "v"),
    "clamp_max": _at(aten.clamp_max, (2,), "v"),
    "hardtanh": _at(aten.hardtanh, (2,), 0, "v"),
    "threshold": _at(aten.threshold, (2,), "v", 0),
    "threshold, value": _at(aten.threshold, (2,), 0, "v"),
    "pow": _at(aten.pow.Tensor_Scalar, (2,), "v"),
    "pow of lists": lambda dtype, v: aten._foreach_pow.Scalar([torch.ones(2).to(dtype)], v),
    "pow of a number, of lists": lambda dtype, v: aten._foreach_pow.ScalarAndTensor(v, [torch.ones(2).to(dtype)]),
    "hardshrink": _at(aten.hardshrink, (2,), "v"),
    "pad": lambda dtype, v: aten.constant_pad_nd(torch.ones(2).to(dtype), (1, 1), v),
    "fill_diagonal": _at(aten.fill_diagonal_, (2, 2), "v"),
    "linspace": lambda dtype, v: aten.linspace(0, v, 3, dtype=dtype),
    "full": lambda dtype, v: aten.full((2,), v, dtype=dtype),
    "full of one element": lambda dtype, v: aten.full((1,), v, dtype=dtype),
    "full of the default type": lambda dtype, v: aten.full((2,), v),
    "full_like": _at(aten.full_like, (2,), "v"),
    "fill": _at(aten.fill_.Scalar, (2,), "v"),
    "fill one element": _at(aten.fill_.Scalar, (1,), "v"),
    "addcmul": _at(aten.addcmul, (2,), (2,), (2,), value="v"),
    "addcdiv": _at(aten.addcdiv, (2,), (2,), (2,), value="v"),
    "elu": _at(aten.elu, (2,), "v"),
    "elu, scale": _at(aten.elu, (2,), 1, "v"),
    "celu": _at(aten.celu, (2,), "v"),
    "leaky_relu": _at(aten.leaky_relu, (2,), "v"),
    "softplus": _at(aten.softplus, (2,), "v"),
    "softplus, threshold": _at(aten.softplus, (2,), 1, "v"),
    "lerp": _at(aten.lerp.Scalar, (2,), (2,), "v"),
}


def _refusal(call: Callable[[], Any]) -> str:
    try:
        call()
    except NotImplementedError:  # of the type, not of the number
        return ""
    except RuntimeError as e:
        return str(e) if "without overflow" in str(e) or "argument alpha" in str(e) or "Boolean alpha" in str(e) else ""
    return "accepted"


@pytest.mark.parametrize("name", CALLS)
def test_numbers_are_refused_as_in_eager(name: str) -> None:
    call, wrong = CALLS[name], []
    for dtype in DTYPES:
        for value in VALUES:
            expected = _refusal(lambda dtype=dtype, value=value: call(dtype, value))
            if not expected:
                continue
            with FakeMode():
                found = _refusal(lambda dtype=dtype, value=value: call(dtype, value))
            if found and (found == "accepted") != (expected == "accepted"):
                wrong.append(f"{dtype} {value}: {found} instead of {expected}")
    assert not wrong, "\n".join(wrong)


def test_types_that_a_kernel_does_not_bring_together() -> None:
    one, two, at = torch.ones(2), torch.ones(2, dtype=torch.float64), (torch.tensor([0]),)
    calls: list[Callable[[], Any]] = [
        lambda: one.lerp(two, 0.5),
        lambda: one.lerp(one, two),
        lambda: one.clone().lerp_(two, 0.5),
        lambda: one.index_put(at, two[:1]),
        lambda: one.clone().index_put_(at, two[:1]),
        lambda: (one > 0).sub_(one > 0),
    ]
    for call in calls:
        with pytest.raises(RuntimeError):
            call()
        with FakeMode(), pytest.raises(RuntimeError):
            call()
    with FakeMode():
        one.lerp(one, torch.tensor(0.5, dtype=torch.float64))
