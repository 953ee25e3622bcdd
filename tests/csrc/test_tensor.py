"""TensorFacts: holds for tensors that look the same, fails for every single difference, and says which."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any, Self

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

from dynamo import _C

from .kit import leaf_on_input


class Sub(Tensor):
    pass


class Wrapped(Tensor):
    """A subclass with __torch_dispatch__: its attributes are whatever it answers."""

    @staticmethod
    def __new__(cls, inner: Tensor) -> Self:
        return Tensor._make_wrapper_subclass(cls, inner.shape, strides=inner.stride(), dtype=inner.dtype)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError


def leaf() -> Tensor:
    return torch.zeros(3, 4, requires_grad=True)


def inference() -> Tensor:
    with torch.inference_mode():
        return torch.zeros(3, 4)


def complex_() -> Tensor:
    return torch.zeros(3, 4, dtype=torch.complex64)


# Each makes a tensor whose facts differ from those of every other.
MAKE: dict[str, Callable[[], Any]] = {
    "plain": lambda: torch.zeros(3, 4),
    "transposed": lambda: torch.zeros(4, 3).t(),
    "strided": lambda: torch.zeros(3, 12)[:, ::3],
    "other shape": lambda: torch.zeros(4, 4),
    "0-d": lambda: torch.zeros(()),
    "1-d": lambda: torch.zeros(3),
    "empty": lambda: torch.zeros(0, 4),
    "expanded": lambda: torch.zeros(1).expand(3, 4),
    "5-d": lambda: torch.zeros(1, 2, 3, 4, 5),
    "6-d": lambda: torch.zeros(1, 2, 3, 4, 5, 6),
    "6-d transposed": lambda: torch.zeros(1, 2, 3, 6, 5, 4).transpose(3, 5),
    "9-d": lambda: torch.zeros(1, 2, 1, 2, 1, 2, 1, 2, 3),
    "leaf": leaf,
    "parameter": lambda: Parameter(torch.zeros(3, 4)),
    "frozen parameter": lambda: Parameter(torch.zeros(3, 4), requires_grad=False),
    "subclass": lambda: torch.zeros(3, 4).as_subclass(Sub),
    "wrapper": lambda: Wrapped(torch.zeros(3, 4)),
    "complex": complex_,
    "conj": lambda: complex_().conj(),
    "neg": lambda: complex_().conj().imag,
    "not neg": lambda: complex_().imag,
    "inference": inference,
    "coo": lambda: torch.zeros(3, 4).to_sparse(),
    "csr": lambda: torch.ones(3, 4).to_sparse_csr(),
    "meta": lambda: torch.zeros(3, 4, device="meta"),
    "bf16": lambda: torch.zeros(3, 4, dtype=torch.bfloat16),
    "f16": lambda: torch.zeros(3, 4, dtype=torch.float16),
    "f8": lambda: torch.zeros(3, 4, dtype=torch.float8_e4m3fn),
    "u16": lambda: torch.zeros(3, 4, dtype=torch.uint16),
    "bool": lambda: torch.zeros(3, 4, dtype=torch.bool),
    "i64": lambda: torch.zeros(3, 4, dtype=torch.int64),
}

# Pairs that look the same although they were made differently.
SAME: dict[str, tuple[Callable[[], Tensor], Callable[[], Tensor]]] = {
    "leaf and result": (leaf, lambda: leaf() * 2),
    "leaf and view of a result": (leaf, lambda: torch.cat([leaf(), leaf()])[:3]),
    "plain and detached": (MAKE["plain"], lambda: leaf().detach()),
    "plain and no-grad view": (MAKE["plain"], lambda: torch.zeros(6, 4)[3:]),
    "plain and switched off": (MAKE["plain"], lambda: leaf().requires_grad_(False)),
    "plain and data": (MAKE["plain"], lambda: leaf().data),
    "plain and no_grad result": (MAKE["plain"], torch.no_grad()(lambda: leaf() * 2)),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("name", MAKE)
def test_every_other_kind_is_refused(name: str) -> None:
    facts = _C.TensorFacts(MAKE[name]())
    assert facts.raw is (name not in {"wrapper", "coo", "csr"})
    guards = leaf_on_input("tensor", facts)
    for other, make in MAKE.items():
        tensor = make()
        assert facts.check(tensor) is (other == name), other
        assert bool(facts.why(tensor)) is (other != name), other
        assert guards.check((tensor,)) is (other == name), other
        assert (guards.explain((tensor,)) is None) is (other == name)


@pytest.mark.parametrize("name", SAME)
def test_how_it_was_made_does_not_matter(name: str) -> None:
    a, b = (make() for make in SAME[name])
    for x, y in ((a, b), (b, a)):
        facts = _C.TensorFacts(x)
        assert facts.check(y), facts.why(y)
        assert facts.why(y) == ""


def test_things_that_are_no_tensors() -> None:
    facts = _C.TensorFacts(torch.zeros(2))
    assert not any(facts.check(o) for o in (None, 1, "x", [torch.zeros(2)], Tensor, object()))
    assert facts.why(3) == "type: expected Tensor, got int"
    with pytest.raises(TypeError, match="expected a tensor, not int"):
        _C.TensorFacts(3)


def test_the_same_tensor_changing_in_place() -> None:
    t = torch.zeros(3, 4)
    facts = _C.TensorFacts(t)
    assert facts.check(t)
    t.requires_grad_()
    assert facts.why(t) == "requires_grad: expected False, got True"
    assert not facts.check(t)
    t.requires_grad_(False)
    assert facts.check(t)
    t.resize_(4, 4)
    assert facts.why(t) == "size at dim 0: expected 3, got 4"
    assert not facts.check(t)
    t.set_(torch.zeros(3, 4))
    assert facts.check(t)
    t.data = torch.zeros(3, 4, dtype=torch.float64)
    assert facts.why(t) == "dtype: expected torch.float32, got torch.float64"
    assert not facts.check(t)
    view = torch.zeros(3, 4)[0]
    facts = _C.TensorFacts(view)
    base = view._base if view._base is not None else view
    base.mul_(leaf()[0] if base.dim() == 1 else leaf())
    assert facts.check(view) is (not view.requires_grad)


@pytest.mark.parametrize("ndim", [3, 7])
def test_dims(ndim: int) -> None:
    t = torch.zeros(*range(2, 2 + ndim))
    facts = _C.TensorFacts(t, tuple(i != 1 for i in range(ndim)))
    other = t.transpose(0, 1).contiguous().transpose(0, 1)
    assert facts.check(t)
    wider = torch.empty_strided([7 if i == 1 else s for i, s in enumerate(t.shape)], [1 if i == 1 else s for i, s in enumerate(t.stride())])
    assert facts.check(wider)
    assert facts.why(wider) == ""
    assert not facts.check(other)
    assert facts.why(other).startswith("stride at dim 0")
    assert not facts.check(t[0])
    assert facts.why(t[0]) == f"rank: expected {ndim}, got {ndim - 1}"
    for bad in ((True,), [True] * ndim, (True,) * (ndim + 1)):
        with pytest.raises(ValueError, match="a tuple of"):
            _C.TensorFacts(t, bad)


def test_agrees_with_the_attributes() -> None:
    """All pairs of a family of small tensors: check() says what comparing the attributes says."""

    def facts_of(t: Tensor) -> object:
        return (type(t), t.dtype, t.device, t.shape, t.stride(), t.requires_grad, t.is_conj(), t.is_neg(), t.is_inference())

    base = torch.zeros(2, 3, 2)
    family = [
        base,
        base.transpose(0, 2),
        base[:, 0],
        base.flatten(),
        base.unsqueeze(0),
        base.permute(2, 1, 0),
        base.double(),
        base.clone().requires_grad_(),
    ]
    family += [t.detach() for t in family] + [t.unsqueeze(-1) for t in family]
    for a in family:
        facts = _C.TensorFacts(a)
        for b in family:
            assert facts.check(b) is (facts_of(a) == facts_of(b))


def test_facts_do_not_keep_the_tensor() -> None:
    t = torch.zeros(3)
    facts = _C.TensorFacts(t)
    gone = weakref.ref(t)
    del t
    gc.collect()
    assert gone() is None
    assert facts.check(torch.zeros(3))


def test_torch_function_is_not_asked() -> None:
    class Loud(Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError(func)

    with torch._C.DisableTorchFunctionSubclass():
        t = torch.zeros(3).as_subclass(Loud)
    facts = _C.TensorFacts(t)
    assert facts.check(t)
    assert facts.why(t) == ""
    with torch.device("meta"):
        assert facts.check(t)


FIRST_USE = """
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from dynamo import _C

class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))

def inside(x):
    first.append(_C.TensorFacts(plain))
    return x

plain, first = torch.zeros(3), []
%s
assert [facts.raw for facts in first] == [%s], first
assert first[0].check(plain) and not first[0].check(torch.zeros(4))
assert _C.layout_report()["tensor"] == "raw", _C.layout_report()
assert _C.TensorFacts(plain).raw
"""


@pytest.mark.parametrize(
    ("first_use", "raw"),
    [
        ("with Mode(): inside(plain)", False),
        ("torch.vmap(inside)(torch.zeros(2))", False),
        ("torch.func.grad(lambda x: inside(x).sum())(plain)", False),
        ("with torch.inference_mode(): inside(plain)", True),
        ("with torch.no_grad(), torch.device('meta'), torch.autocast('cpu'): inside(plain)", True),
    ],
    ids=["dispatch mode", "vmap", "grad", "inference", "others"],
)
def test_first_use_inside_a_mode(first_use: str, raw: bool) -> None:
    code = FIRST_USE % (first_use, raw)
    done = subprocess.run([sys.executable, "-W", "error::RuntimeWarning", "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.gpu
def test_cuda() -> None:
    t = torch.zeros(3, 4, device="cuda")
    facts = _C.TensorFacts(t)
    assert facts.raw
    assert facts.check(torch.ones(3, 4, device="cuda"))
    assert not facts.check(torch.zeros(3, 4))
    assert facts.why(torch.zeros(3, 4)) == "device: expected cuda:0, got cpu"
    assert not _C.TensorFacts(torch.zeros(3, 4)).check(t)
    if torch.cuda.device_count() > 1:
        assert not facts.check(torch.zeros(3, 4, device="cuda:1"))


def test_layout_report_of_this_torch() -> None:
    report = _C.layout_report()
    assert report["tensor"] == "raw", report
    assert report["state"] == "raw", report
    words = "TensorFacts(Tensor, dtype=torch.float32, device=cpu, shape=(2,), stride=(1,), requires_grad=False)"
    assert repr(_C.TensorFacts(torch.zeros(2))) == words
