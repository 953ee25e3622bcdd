"""Programs through Triton's interpreter equal eager, and every kernel has a Triton form."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import dynamo
from dynamo import config
from dynamo.trace import session
from dynamo.trace.events import CodeGenerated, Note
from inductor.compile import compile_graph
from inductor.ir.ops import OPS, REDUCTIONS
from inductor.ir.types import TYPES
from inductor.targets.triton.interpret import Interpreted
from inductor.targets.triton.library import Started, imported, module_of
from inductor.targets.triton.ops import TRITON_OPS, TRITON_TYPES
from inductor.targets.triton.reductions import reduction
from minifier.fuzz.draw.tensor_programs import Program, programs
from tests.generator.running import run_programs
from tests.inductor import test_golden, test_programs
from tests.inductor.helpers import assert_same, compiled, trace
from tests.inductor.program_check import check_program
from tests.inductor.triton.seam import interpreted, kernels_of, refusals

GOLDEN = {name: (fn, test_golden.inputs_of(shapes)) for name, (fn, shapes) in test_golden.PROGRAMS.items()}
GRAPHS = {name: (row[0], [torch.randn(shape) for shape in row[1]]) for name, row in test_programs.GRAPHS.items()}
SLOW = ("softmax_long", "gather_rows", "row_sum")  # thousands of programs, a millisecond each
PROGRAMS, PARTS = 300, 20  # random programs, and the tests that they are dealt out to


def test_triton_has_a_row_for_every_operation_type_and_reduction() -> None:
    assert TRITON_OPS.keys() == OPS.keys()
    assert TRITON_TYPES.keys() == TYPES.keys()
    assert all(len(reduction(kind, "f32").results) == outputs for kind, outputs in REDUCTIONS.items())


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in (*GOLDEN, *GRAPHS)])
def test_programs_in_the_interpreter(name: str) -> None:
    fn, given = {**GOLDEN, **GRAPHS}[name]
    with interpreted(), session() as store:
        run = compiled(fn, given)
        found = run(*given)
    assert_same(found, fn(*given), rtol=1e-5, atol=1e-4)
    assert {e.language for e in store.of(CodeGenerated) if e.stage == "kernels"} <= {"python"}
    assert refusals(store) == (["a loop without iterations"] if name == "a size of zero" else [])


def halves(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.gelu(x * 1.5 + 0.1).tanh() * torch.softmax(x, -1) + F.layer_norm(x, (x.shape[-1],), w)


ROWS = {
    "bfloat16": (halves, [torch.randn(9, 48).bfloat16(), torch.randn(48).bfloat16()]),
    "float16": (halves, [torch.randn(9, 48).half(), torch.randn(48).half()]),
    "float64": (halves, [torch.randn(9, 48).double(), torch.randn(48).double()]),
    "a looped softmax": (lambda x: (torch.softmax(x, -1), x.argmax(-1)), [torch.randn(3, 5001)]),
    "a looped softmax of infinities": (lambda x: torch.softmax(x, -1), [torch.full((2, 4100), -torch.inf)]),
    "a looped scan": (lambda x: x.cumsum(1) * 2, [torch.randn(2, 33000).double()]),
    "a transposition": (lambda x: x.t().contiguous() + 1, [torch.randn(70, 100)]),
    "filters": (
        lambda w, s: (w * s.view(-1, 1, 1, 1)).contiguous(memory_format=torch.channels_last),
        [torch.randn(6, 20, 3, 3), torch.randn(6)],
    ),
    "an odd length": (lambda x, y: x * y + 1, [torch.randn(300_001), torch.randn(300_001)]),
    "a function of a number that stands in all places": (lambda x: x.exp().sum(), [torch.randn(1).expand(2)]),
    "padded and picked numbers that stand in all places": (
        lambda x, i: (
            *(F.pad(x.expand(3, 3), (1, 1), mode=mode) for mode in ("replicate", "reflect", "circular")),
            *(x.expand(3, 3)[i], x.expand(5, 3).gather(0, i.view(1, 3)), x.expand(7).index_select(0, i) * x),
            *(x.expand(7).index_select(0, i[:2]).sum(), (x.expand(4, 8)[i] * 1.5).amax(1), x.expand(5)[i[:2]].softmax(0)),
        ),
        [torch.randn(()), torch.tensor([0, 2, 1])],
    ),
    "bytes": (lambda x: (x + 100, x.sum(), x.amax(), x > 3), [torch.randint(0, 200, (77,), dtype=torch.uint8)]),
    "integers": (lambda x: (x * 2**40, x.amin(0), (x > 0).any(1), x.argmin()), [torch.randint(-9, 9, (20, 30))]),
    "foreach": (lambda x, y, z: torch._foreach_add([x, y], [z, x]), [torch.randn(300), torch.randn(300), torch.randn(300)]),
}


@pytest.mark.parametrize("name", ROWS)
def test_kinds_of_kernels(name: str) -> None:
    fn, given = ROWS[name]
    with interpreted(), session() as store:
        found = compiled(fn, given)(*given)
    assert_same(found, fn(*given))
    assert refusals(store) == []


def test_sums_of_no_elements_beside_what_they_are_of() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return y, y.sum(), y.sum(0), y.sum(1) + 1, y.prod(0) * 3

    x = torch.randn(0, 3)
    with interpreted():
        assert_same(compiled(f, [x])(x), f(x))


def test_a_kernel_that_differs_in_its_comments_alone_is_read_from_the_file_that_is_there() -> None:
    """Triton finds a function by its lines, and the file of equal kernels has the comments of the first."""
    ((_, text),) = kernels_of(softmax, [torch.randn(4, 40)])
    for lines in ("", "# one line\n", "# two\n# lines\n"):
        imported.cache_clear()
        module = module_of(text.replace("import torch\n", f"{lines}import torch\n", 1), interpreted=True)
        tensors = module.samples("cpu")
        module.launch(*tensors)
        torch.testing.assert_close(tensors[1].view(4, 40), torch.softmax(tensors[0].view(4, 40), -1))


def overwritten_behind_a_sum(x: torch.Tensor) -> torch.Tensor:
    total = x.sum(0)
    x.copy_(x.flip(0))
    return -total


def test_an_input_is_overwritten_behind_the_reductions_that_read_it() -> None:
    """Of one element: the loops of the sum and of the copy are both none, but for the one that is summed."""
    given, expected = torch.ones(1) * 3, torch.ones(1) * 3
    with interpreted(), config.patch(suppress_errors=False):
        found = dynamo.compile(overwritten_behind_a_sum, backend="inductor", fullgraph=True)(given)
    assert_same([found, given], [overwritten_behind_a_sum(expected), expected])


def conjugate(x: torch.Tensor) -> torch.Tensor:
    total = x.sum((0, 1), keepdim=True)
    return torch.complex(total, total).conj().sum().imag


def test_results_of_calls_may_have_other_strides_where_there_is_one_element() -> None:
    """The gradient of the sum is one number in all places, which no tensor in these strides can be copied into."""
    x = torch.randn(2, 2, 2, requires_grad=True)
    with interpreted(), config.patch(suppress_errors=False):
        found = torch.autograd.grad(dynamo.compile(conjugate, backend="inductor", fullgraph=True)(x), x)
    assert_same(found, torch.autograd.grad(conjugate(x), x))


def test_an_index_out_of_range_is_refused() -> None:
    given = [torch.randn(4, 3), torch.tensor([1, 4])]
    with interpreted():
        run = compiled(lambda w, i: F.embedding(i, w) + 1, given)
        with pytest.raises(IndexError, match="out of range"):
            run(*given)
        torch.testing.assert_close(run(given[0], torch.tensor([1, 3]))[0], given[0][[1, 3]] + 1)


def over_values(x: torch.Tensor, y: torch.Tensor, m: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a, b = x @ y, m @ m.t()
    scale, weights = b / 0.5, torch.softmax(a + c, -1)
    return weights * scale, scale, weights, (weights * scale).view(4, 8, -1).sum(1)


def of_parts(x: torch.Tensor, y: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, ...]:
    weights = torch.softmax(x @ y + c, -1) * x[:, :, :1]
    return weights, weights.view(2, 2, 3, 4).mean(1)


def kernels_beside_eager(fn: Callable[..., Any], given: list[torch.Tensor]) -> str:
    with interpreted(), session() as store:
        found = compiled(fn, given)(*given)
    assert_same(found, fn(*given), rtol=1e-4, atol=1e-4)
    return "".join(e.code for e in store.of(CodeGenerated) if e.stage == "kernels")


def test_rows_that_are_walked_are_read_before_results_are_stored_over_them() -> None:
    text = kernels_beside_eager(over_values, [torch.randn(32, 4), torch.randn(4, 32), torch.randn(32, 4), torch.randn(32, 32)])
    assert ": walk, " in text
    assert ", over b" in text


def test_reductions_over_parts_of_rows_are_not_walked() -> None:
    assert ": walk, " not in kernels_beside_eager(of_parts, [torch.randn(4, 3, 2), torch.randn(4, 2, 4), torch.randn(3, 4)])


SUMS_OF_PARTS: dict[str, tuple[Callable[..., Any], bool]] = {  # and whether programs take rows in turns
    "all are summed": (lambda x: (x.sum(0), x - x.mean(1, keepdim=True)), True),
    "and also their own": (lambda x: (x.sum(0), x - x.mean(1, keepdim=True), (x * x).sum(0) + 1), True),
    "each is seen": (lambda x: (x.view(128, 64, 256).sum(1), x - x.mean(1, keepdim=True)), False),
    "each counts": (lambda x: (x.view(128, 64, 256).sum(1).amax(0), x - x.mean(1, keepdim=True)), False),
}


@pytest.mark.parametrize("name", SUMS_OF_PARTS)
def test_rows_are_walked_in_turns_where_parts_are_only_summed(name: str) -> None:
    fn, turns = SUMS_OF_PARTS[name]
    torch.manual_seed(0)
    text = kernels_beside_eager(fn, [torch.randn(8192, 256) / 16])
    assert ": walk, " in text
    assert ("x * 65536" in text) is turns  # 256 programs, rows of 256


def test_gradients_come_in_strides_of_their_own() -> None:
    x = torch.randn(5, 6, requires_grad=True)
    with interpreted():
        run = dynamo.compile(lambda x: x.sin() * x, backend="inductor", fullgraph=True)
        run(x).sum().backward()  # the gradient of a sum is one number in all places
    found, x.grad = x.grad, None
    (x.sin() * x).sum().backward()
    torch.testing.assert_close(found, x.grad)


def test_without_triton_a_graph_runs_uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    with interpreted(), pytest.warns(UserWarning, match="triton cannot be imported"):
        (found,) = compiled(lambda x: x + 1, [torch.zeros(2)])(torch.zeros(2))
    assert found.tolist() == [1, 1]


def test_a_kernel_that_triton_refuses_runs_as_aten_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Started) -> tuple[type[BaseException], ...]:
        return (KeyError,)

    monkeypatch.setattr(Started, "failures", refuse)
    given = [torch.randn(4, 40)]
    with interpreted(), session() as store:
        run = compile_graph(trace(softmax, given), given)
        monkeypatch.setattr(Interpreted, "__getitem__", lambda self, grid: {}[grid])
        for _ in range(2):
            assert_same(run(list(given)), [softmax(*given)])
    assert [r.partition(":")[0] for r in refusals(store)] == ["Triton refused it"]


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def test_what_has_no_atomic_addition_runs_as_aten_calls() -> None:
    given = [torch.randn(5).bfloat16(), torch.tensor([1, 1, 0]), torch.randn(3).bfloat16()]

    def fn(x: torch.Tensor, i: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.index_add(0, i, y)

    with interpreted(), session() as store:
        found = compiled(fn, given)(*given)
    assert_same(found, fn(*given), rtol=1e-2, atol=1e-2)
    assert refusals(store) == ["no atomic addition of torch.bfloat16"]


def put_into(x: torch.Tensor, dim: int, start: int, value: torch.Tensor) -> torch.Tensor:
    return torch.slice_scatter(torch.zeros_like(x), value.narrow(dim, start, x.shape[dim] - start), dim, start)


UNDER_CONDITIONS = {
    "a scan": lambda x: put_into(x, 1, 3, x.cumsum(1)),
    "rows of a scan": lambda x: put_into(x, 0, 3, x.cumsum(1)),
    "a softmax": lambda x: put_into(x, 1, 3, x.softmax(1)),
    "rows of a softmax": lambda x: (put_into(x, 0, 3, x.softmax(1)), x.softmax(1)),
    "a padded softmax": lambda x: F.pad(x.softmax(1)[:, 2:], (2, 0)),
    "a position": lambda x: put_into(x, 1, 7, x * x.argmax(1, keepdim=True)),
    "sums of columns": lambda x: put_into(x, 0, 4, x - x.sum(0)),
    "gradients of extremes": lambda x: torch.slice_scatter(x, (x[::7] == x[::7].amax(0)) / (x[::7] == x[::7].amax(0)).sum(0), 0, step=7),
}


@pytest.mark.parametrize("shape", [(8, 40), (5, 5001), (70, 33)])
@pytest.mark.parametrize("name", UNDER_CONDITIONS)
def test_what_is_reduced_is_not_what_a_condition_leaves(name: str, shape: tuple[int, int]) -> None:
    """Where a result is only taken at some places, it is still that of all elements."""
    fn, given = UNDER_CONDITIONS[name], [torch.randn(shape)]
    with interpreted(), session() as store:
        found = compiled(fn, given)(*given)
    assert_same(found, fn(*given), rtol=1e-4, atol=1e-4)
    assert refusals(store) == []


@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs(part: int) -> None:
    def check(program: Program) -> None:
        check_program(program, ["compiled", "interpreted"])

    with interpreted(), session() as store:
        run_programs(programs(), check, part, PROGRAMS // PARTS)
    assert [n.message for n in store.of(Note) if n.id == "DI001"] == []


def adam(*tensors: torch.Tensor) -> tuple[()]:
    """One step over parameters, gradients and both moments: a quarter of the tensors each."""
    quarter = len(tensors) // 4
    p, g, m, v = (list(tensors[k * quarter : (k + 1) * quarter]) for k in range(4))
    m2, v2 = torch._foreach_lerp(m, g, 0.1), torch._foreach_addcmul(torch._foreach_mul(v, 0.999), g, g, 0.001)
    p2 = torch._foreach_addcdiv(p, m2, torch._foreach_add(torch._foreach_sqrt(v2), 1e-8), -1e-3)
    for old, new in zip([*p, *m, *v], [*p2, *m2, *v2], strict=True):
        old.copy_(new)
    return ()


def tensors_of(sizes: list[int], start: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.rand(n + start)[start:] for _ in range(4) for n in sizes]


SIZES = {"few lengths": [768, 1001, 0, 4096, 5, 768, 513, 600, 512, 800] * 13, "each another": list(range(20, 1220, 10))}


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("start", [0, 1])
def test_many_tensors_are_one_launch(start: int, name: str) -> None:
    """Beside those that write the addresses down, some of which begin at no multiple of 16 bytes."""
    sizes = SIZES[name]
    ((kernel, _),) = kernels_of(adam, tensors_of(sizes, start))
    assert kernel.table is not None
    launches = kernel.table.launches({b: k for k, b in enumerate((*kernel.reads, *kernel.writes))})
    assert [grid for *_, grid in launches] == [(1,), (sum(-(-n // 512) for n in sizes),)]
    given, expected = tensors_of(sizes, start), tensors_of(sizes, start)
    with session() as store, interpreted():
        compiled(adam, given)(*given)
    assert refusals(store) == []
    adam(*expected)
    for found, right in zip(given, expected, strict=True):
        torch.testing.assert_close(found, right, rtol=0, atol=1e-7)


def test_tensors_without_dims_are_one_launch() -> None:
    given = [torch.tensor(float(k)) for k in range(9)]
    ((kernel, _),) = kernels_of(lambda *ts: torch._foreach_add(list(ts), 1), given)
    assert kernel.table is not None
    with interpreted():
        found = compiled(lambda *ts: torch._foreach_add(list(ts), 1), given)(*given)
    assert [t.item() for t in found] == [t.item() + 1 for t in given]


def test_what_a_program_reads_back_is_stored_before_it_overwrites_an_input() -> None:
    """Means of windows are read in other loops than they are made in, by the kernel that also writes the running statistics."""
    torch.manual_seed(0)
    eager, x = torch.nn.BatchNorm2d(4).train(), torch.randn(2, 4, 8, 8)
    norm = copy.deepcopy(eager)
    with interpreted(), session() as store:
        found = dynamo.compile(lambda x: norm(F.avg_pool2d(x, 2, 2)), backend="inductor")(x)
    assert refusals(store) == []
    assert_same(found, eager(F.avg_pool2d(x, 2, 2)), rtol=1e-5, atol=1e-5)
    assert_same(list(norm.buffers()), list(eager.buffers()), rtol=1e-5, atol=1e-5)
