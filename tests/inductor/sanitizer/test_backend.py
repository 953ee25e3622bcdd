"""The backend `sanitizer`: a program gives what eager gives, and what a kernel does to memory is told with its place."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynamo
from dynamo import config
from dynamo.trace import session
from dynamo.trace.events import MemoryFault, Note
from inductor.sanitizer import backend, loops
from inductor.targets.triton import guarded, target
from inductor.targets.triton.guarded import Region
from inductor.targets.triton.library import module_of
from tests.inductor.sanitizer.subjects import MODELS, OPERATORS


def sanitized(fn: Any, given: list[torch.Tensor], kernels: str = "cuda") -> tuple[Any, list[MemoryFault]]:
    with session() as store, config.patch(sanitizer_kernels=kernels, suppress_errors=False):
        found = dynamo.compile(fn, backend="sanitizer")(*given)
        for end in found if isinstance(found, (tuple, list)) else [found]:
            if end.requires_grad:
                end.sum().backward()
    dynamo.reset()
    return found, store.of(MemoryFault)


@pytest.mark.parametrize("kernels", ["cuda", "cpu"])
@pytest.mark.parametrize("name", ["bias", "softmax", "column sum", "in place", "foreach"])
def test_a_program_gives_what_eager_gives(name: str, kernels: str) -> None:
    fn, given = OPERATORS[name]()
    found, faults = sanitized(fn, [g.clone() for g in given], kernels)
    assert faults == []
    torch.testing.assert_close(found, fn(*[g.clone() for g in given]))


def test_a_model_has_no_faults_and_gradients() -> None:
    make, inputs = MODELS["gates"]
    torch.manual_seed(0)
    model, given = make(), inputs()
    _, faults = sanitized(model, given)
    assert faults == []
    found = [p.grad for p in model.parameters()]
    model.zero_grad()
    model(*given).backward()
    torch.testing.assert_close(found, [p.grad for p in model.parameters()])


def test_a_fault_is_told_with_kernel_element_and_line(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = target.joined
    monkeypatch.setattr(target, "joined", lambda files: joined([f.replace("tl.load(in0 + x, x_in)", "tl.load(in0 + x)") for f in files]))
    with pytest.warns(UserWarning, match=r"out of bounds: kernel k0: .*element 1000 of a0, which has 1000, at program 7 .*DI024"):
        found, faults = sanitized(lambda x: x * 2 + 1, [torch.ones(1000)])
    (fault,) = faults
    assert (fault.found, fault.form, fault.kernel, fault.buffer, fault.index, fault.size) == (
        "out of bounds",
        "triton",
        "k0",
        "a0",
        1000,
        1000,
    )
    assert "tl.load(in0 + x)" in fault.access and any("test_backend.py" in line for line in fault.lines)
    assert torch.equal(found, torch.full((1000,), 3.0))


FENCED = """
import torch
import triton
import triton.language as tl

@triton.jit
def turned(in0, out0, out1):
    x = tl.arange(0, 64)
    tl.store(out0 + (x), tl.load(in0 + x) * 2)
    tl.debug_barrier()
    tl.store(out1 + (x), tl.load(out0 + (63 - x)))

KERNEL = turned
GRID = (1,)
OPTIONS = {"num_warps": 4}
TAKES_BAD = False
BUFFERS = [(64, torch.float32)] * 3
BLOCK = 64
ROWS = []
"""


@pytest.mark.parametrize("text, kinds", [(FENCED, []), (FENCED.replace("    tl.debug_barrier()\n", ""), ["race"])])
def test_what_a_program_stored_it_reads_behind_a_barrier(text: str, kinds: list[str]) -> None:
    module = module_of(text, interpreted=True)
    regions = [Region(k, torch.arange(64.0) if k == 0 else torch.zeros(64)) for k in range(3)]
    strays, is_whole = guarded.launch(module, str(module.__file__), regions, (), 1)
    assert [s.kind for s in strays] == kinds and is_whole
    assert torch.equal(regions[2].content, torch.arange(64.0).flip(0) * 2)


def test_an_index_out_of_range_is_told_and_raised() -> None:
    with pytest.raises(IndexError), pytest.warns(UserWarning, match="index 12 of 10"):
        sanitized(lambda w, i: torch.nn.functional.embedding(i, w) * 2, [torch.randn(10, 3), torch.tensor([3, 12])])


def test_large_loops_are_run_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "MOST_POINTS", 1000)
    x = torch.randn(50, 90)
    found, faults = sanitized(lambda x: torch.softmax(x, -1), [x], "cpu")
    assert faults == []
    torch.testing.assert_close(found, torch.softmax(x, -1))


def test_a_loop_that_is_too_large_is_said() -> None:
    with session() as store, pytest.MonkeyPatch.context() as patch, config.patch(suppress_errors=False):
        patch.setattr(loops, "MOST_POINTS", 100)
        found = dynamo.compile(lambda x: x.cumsum(0), backend="sanitizer")(torch.ones(5000))
    assert found[-1] == 5000
    assert [n.id for n in store.of(Note)] == [backend.UNCHECKED]


def test_a_kernel_that_has_its_buffers_addresses_from_a_table_is_watched() -> None:
    given = [torch.rand(5 + k // 3 % 7) for k in range(3 * 180)]  # more of them than one launch writes down

    def fn(*tensors: torch.Tensor) -> list[torch.Tensor]:
        a, b, c = (list(tensors[k::3]) for k in range(3))
        return list(torch._foreach_addcmul(a, b, c))

    found, faults = sanitized(fn, given)
    assert faults == []
    assert len(found) == 180
