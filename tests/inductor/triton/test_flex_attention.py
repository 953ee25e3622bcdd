"""`flex_attention` in kernels that keep no scores: values, gradients and what becomes of the program's functions, beside eager's."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.attention.flex_attention as flex
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, create_block_mask, flex_attention

import dynamo
from dynamo.public import api
from dynamo.symbolic.torch import attention
from dynamo.trace import session
from dynamo.trace.events import CodeGenerated, GraphBroke, Note
from inductor.targets.triton.library import module_of
from tests.inductor.triton.pretend import on_cuda
from tests.inductor.triton.seam import compiled_for, function_text, interpreted, registers_and_spills

GOLDEN = Path(__file__).parent / "golden"
Score = Callable[..., torch.Tensor]


@pytest.fixture(autouse=True)
def _captured_on_processors(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What kernels of GPUs have is asked of processors, on which torch's own has no gradients and a warning."""
    monkeypatch.setattr(attention, "DEVICES", {"cpu", "cuda"})
    monkeypatch.setattr(flex, "_validate_device", lambda *_: None)
    monkeypatch.setattr(flex, "_warn_once", lambda *_, **__: None)
    dynamo.reset()
    yield
    dynamo.reset()


def causal(b: Any, h: Any, q: Any, kv: Any) -> Any:
    return q >= kv


def window(b: Any, h: Any, q: Any, kv: Any) -> Any:
    return (q >= kv) & (q - kv <= 20)


def from_row_fifty(b: Any, h: Any, q: Any, kv: Any) -> Any:
    return (q >= 50) & (kv < 70)


def by_head_and_batch(b: Any, h: Any, q: Any, kv: Any) -> Any:
    return (q >= kv) | ((h == 1) & (b == 1))


IDS = torch.tensor([0] * 33 + [1] * 20 + [2] * 47)
SLOPES = torch.rand(4, generator=torch.Generator().manual_seed(1))
BIAS = torch.randn(4, 200, generator=torch.Generator().manual_seed(2))
TABLE = torch.randn(200, 4, generator=torch.Generator().manual_seed(3)).t()


def documents(b: Any, h: Any, q: Any, kv: Any) -> Any:
    return (IDS[q] == IDS[kv]) & (q >= kv)


def alibi(s: Any, b: Any, h: Any, q: Any, kv: Any) -> Any:
    return s + SLOPES[h] * (kv - q)


def relative(s: Any, b: Any, h: Any, q: Any, kv: Any) -> Any:
    return s + BIAS[h, q - kv + 100] + TABLE[h][q - kv]


def neighbourhoods(b: Any, h: Any, q: Any, kv: Any) -> Any:
    return (q // 10 - kv // 10).abs() + (q % 10 - kv % 10).abs() <= 2


def softcap(s: Any, b: Any, h: Any, q: Any, kv: Any) -> Any:
    return 3 * torch.tanh(s / 3)


def squared(s: Any, b: Any, h: Any, q: Any, kv: Any) -> Any:
    return torch.where(q % 3 == 0, s * s, s.sigmoid()) * (1 + b)


def half_minus_infinity(s: Any, b: Any, h: Any, q: Any, kv: Any) -> Any:
    return torch.where(q < 40, float("-inf"), s)


def regardless(s: Any, b: Any, h: Any, q: Any, kv: Any) -> Any:
    return s * 0 + 1.0 / (1 + kv + h)


def inputs(*, kv_heads: int = 4, rows: int = 100, columns: int = 100, width: int = 16, value_width: int = 16) -> list[torch.Tensor]:
    torch.manual_seed(0)
    shapes = [(2, 4, rows, width), (2, kv_heads, columns, width), (2, kv_heads, columns, value_width)]
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


def mask_of(fn: Any, rows: int = 100, columns: int = 100, *, block: Any = 32, batches: Any = None, heads: Any = None) -> BlockMask:
    return create_block_mask(fn, batches, heads, rows, columns, device="cpu", BLOCK_SIZE=block)


ROWS: dict[str, tuple[dict[str, Any], Callable[[], dict[str, Any]]]] = {
    "plain": ({}, dict),
    "a causal mask with full blocks": ({}, lambda: {"block_mask": mask_of(causal)}),
    "a window": ({}, lambda: {"block_mask": mask_of(window)}),
    "documents": ({}, lambda: {"block_mask": mask_of(documents, block=16)}),
    "rows without columns": ({}, lambda: {"block_mask": mask_of(from_row_fifty)}),
    "a mask for each head and batch": ({}, lambda: {"block_mask": mask_of(by_head_and_batch, batches=2, heads=4)}),
    "a mask of one block": ({}, lambda: {"block_mask": mask_of(causal, block=128)}),
    "neighbourhoods": ({}, lambda: {"block_mask": mask_of(neighbourhoods)}),
    "alibi": ({}, lambda: {"score_mod": alibi}),
    "a relative bias": ({}, lambda: {"score_mod": relative, "block_mask": mask_of(causal)}),
    "a soft limit": ({}, lambda: {"score_mod": softcap, "scale": 1.5}),
    "squares": ({}, lambda: {"score_mod": squared}),
    "scores of minus infinity": ({}, lambda: {"score_mod": half_minus_infinity}),
    "scores that are left out of account": ({}, lambda: {"score_mod": regardless}),
    "grouped heads": ({"kv_heads": 2}, lambda: {"score_mod": alibi, "block_mask": mask_of(causal), "enable_gqa": True}),
    "one head of keys": ({"kv_heads": 1}, lambda: {"score_mod": softcap, "enable_gqa": True}),
    "odd lengths": ({"rows": 77, "columns": 131}, lambda: {"score_mod": squared}),
    "odd lengths in blocks": ({"rows": 77, "columns": 131}, lambda: {"block_mask": mask_of(causal, 77, 131)}),
    "few rows": ({"rows": 3, "columns": 131}, lambda: {"score_mod": alibi}),
    "widths that are no powers of two": ({"width": 24, "value_width": 40}, lambda: {"block_mask": mask_of(causal)}),
    "blocks that differ": ({"rows": 96, "columns": 128}, lambda: {"block_mask": mask_of(causal, 96, 128, block=(32, 64))}),
}


def attend(options: dict[str, Any]) -> Callable[..., tuple[torch.Tensor, ...]]:
    def fn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        out, aux = flex_attention(q, k, v, return_aux=AuxRequest(lse=True), **options)
        return out * 2, aux.lse

    return fn


def results(fn: Callable[..., Any], given: list[torch.Tensor]) -> list[torch.Tensor]:
    """Results and gradients."""
    out, sums = fn(*given)
    weights = torch.linspace(-1, 1, out.numel()).view(out.shape)
    total = (out.float() * weights).sum() + sums.masked_fill(sums == float("-inf"), 0.0).square().sum() * 0.01
    return [out, sums, *torch.autograd.grad(total, given)]


def kernel_texts(store: Any) -> list[str]:
    return [e.code for e in store.of(CodeGenerated) if e.stage == "kernels" and ": attention, " in e.code.partition("\n")[0]]


def check(fn: Callable[..., Any], given: list[torch.Tensor], *, tolerance: float = 1e-4) -> None:
    expected = results(fn, given)
    with interpreted(), session() as store:
        found = results(dynamo.compile(fn, fullgraph=True), given)
    assert len(kernel_texts(store)) == 3
    assert [n.message for n in store.of(Note)] == []
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
    assert found[0].stride() == expected[0].stride()


@pytest.mark.parametrize("name", ROWS)
def test_values_and_gradients(name: str) -> None:
    shapes, options = ROWS[name]
    check(attend(options()), inputs(**shapes))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["a causal mask with full blocks", "a relative bias", "a soft limit"])
def test_halves(name: str, dtype: torch.dtype) -> None:
    given = [t.detach().to(dtype).requires_grad_() for t in inputs()]
    check(attend(ROWS[name][1]()), given, tolerance=4e-3 if dtype == torch.float16 else 2e-2)


def test_tensors_in_any_layout() -> None:
    q, k, v = inputs()
    base = torch.randn(2, 100, 3, 4, 16, requires_grad=True)
    fn = attend({"block_mask": mask_of(causal)})

    def packed(x: torch.Tensor) -> Any:
        return fn(*(x[:, :, i].transpose(1, 2) for i in range(3)))

    check(lambda q, k, v: fn(q.transpose(2, 3).contiguous().transpose(2, 3), k[:, :, :].flip(2), v * 2), [q, k, v])
    check(packed, [base])


def test_one_result_and_no_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_is_called_whole", lambda fn: fn is flex_attention)
    q, k, v = (t.detach() for t in inputs())
    expected = flex_attention(q, k, v, score_mod=alibi)
    with interpreted(), session() as store, torch.no_grad():
        found = dynamo.compile(flex_attention, fullgraph=True)(q, k, v, score_mod=alibi)
    assert len(kernel_texts(store)) == 1
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_an_index_out_of_range_raises() -> None:
    q, k, v = (t.detach() for t in inputs())
    with interpreted(), pytest.raises(IndexError):
        dynamo.compile(lambda q, k, v: flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + IDS[i + 1]), fullgraph=True)(q, k, v)


def test_what_is_no_expression_runs_as_it_is_and_is_noted() -> None:
    q, k, v = (t.detach() for t in inputs())

    def fn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (SLOPES * 2).cumsum(0)[h])

    expected = fn(q, k, v)
    with interpreted(), session() as store:
        found = dynamo.compile(fn, fullgraph=True)(q, k, v)
    assert kernel_texts(store) == []
    assert [n.id for n in store.of(Note)] == ["DI023"]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


# tensors that a score function reads and that need gradients


class Reading:
    """Score functions by name, and the tensors that they read."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        generator = torch.Generator().manual_seed(4)

        def made(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=generator).to(dtype).requires_grad_()

        self.relative, self.slopes, self.factor, self.table, self.columns = made(4, 300), made(4), made(), made(15, 4), made(200)
        self.turned = made(200, 4).detach().t().requires_grad_()

    def by_distance(self, s: Any, b: Any, h: Any, q: Any, kv: Any) -> Any:
        return s + self.relative[h, q - kv + 140]

    def by_nearness(self, s: Any, b: Any, h: Any, q: Any, kv: Any) -> Any:
        return s + self.relative[h, kv - q + 140]

    def by_head(self, s: Any, b: Any, h: Any, q: Any, kv: Any) -> Any:
        return s + self.slopes[h] * (kv - q) * 0.1

    def by_number(self, s: Any, b: Any, h: Any, q: Any, kv: Any) -> Any:
        return s * self.factor

    def by_table(self, s: Any, b: Any, h: Any, q: Any, kv: Any) -> Any:
        return s + self.table[IDS[q % 100], h].tanh() * self.turned[h, kv]

    def by_all(self, s: Any, b: Any, h: Any, q: Any, kv: Any) -> Any:
        s = s * self.factor + self.relative[h, q - kv + 140] * self.slopes[h] - self.relative[h, kv]
        return s + self.table[IDS[q % 100], h] * torch.sin(s) + self.columns[kv] * SLOPES[h]

    def tensors(self, name: str) -> list[torch.Tensor]:
        used = {
            "by_distance": [self.relative],
            "by_nearness": [self.relative],
            "by_head": [self.slopes],
            "by_number": [self.factor],
            "by_table": [self.table, self.turned],
            "by_all": [self.factor, self.relative, self.slopes, self.table, self.columns],
        }
        return used[name]


def dense(score: Score, mask: Any, given: list[torch.Tensor]) -> torch.Tensor:
    """Attention with all scores at once: eager's has no gradients of some of these tensors."""
    q, k, v = given
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
    scores = q.float() @ k.float().transpose(-2, -1) / q.shape[-1] ** 0.5
    at = [torch.arange(n).view([-1 if i == k else 1 for k in range(4)]) for i, n in enumerate(scores.shape)]
    scores = score(scores, *at)
    if mask is not None:
        scores = scores.masked_fill(~mask(*at), float("-inf"))
    return scores.softmax(-1).to(q.dtype) @ v


LEARNED: dict[str, tuple[str, dict[str, Any], Any]] = {
    "a bias for each distance": ("by_distance", {}, None),
    "a bias for each distance under a mask": ("by_distance", {}, causal),
    "a bias for each distance in whole tiles": ("by_distance", {"rows": 128, "columns": 96}, None),
    "a bias for each distance in whole tiles under a mask": ("by_nearness", {"rows": 128, "columns": 128}, causal),
    "slopes": ("by_head", {"rows": 77, "columns": 131}, causal),
    "a number": ("by_number", {"kv_heads": 2}, None),
    "tables by computed indices": ("by_table", {"rows": 77, "columns": 131}, None),
    "all of them": ("by_all", {"kv_heads": 1}, window),
}


@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
@pytest.mark.parametrize("name", LEARNED)
def test_gradients_of_what_a_score_function_reads(name: str, backend: str) -> None:
    function, shapes, masked = LEARNED[name]
    reading, given = Reading(), inputs(**shapes)
    score, leaves = getattr(reading, function), [*given, *reading.tensors(function)]
    options = {"score_mod": score, "enable_gqa": "kv_heads" in shapes}
    if masked is not None:
        options["block_mask"] = mask_of(masked, given[0].shape[2], given[1].shape[2])

    def values(fn: Callable[..., torch.Tensor]) -> list[torch.Tensor]:
        out = fn(*given)
        return [out, *torch.autograd.grad((out * torch.linspace(-1, 1, out.numel()).view(out.shape)).sum(), leaves)]

    expected = values(lambda *t: dense(score, masked, list(t)))
    with interpreted(), session() as store:
        found = values(dynamo.compile(lambda *t: flex_attention(*t, **options), fullgraph=True, backend=backend))
    assert len(kernel_texts(store)) == (5 if backend == "inductor" else 0)
    assert [n.message for n in store.of(Note)] == []
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_gradients_of_halves_that_a_score_function_reads_alone() -> None:
    reading, given = Reading(torch.bfloat16), [t.detach().bfloat16() for t in inputs()]
    run = dynamo.compile(lambda *t: flex_attention(*t, score_mod=reading.by_distance), fullgraph=True)
    out = dense(reading.by_distance, None, given)
    (expected,) = torch.autograd.grad(out.float().square().sum(), reading.relative)
    with interpreted(), session() as store:
        (found,) = torch.autograd.grad(run(*given).float().square().sum(), reading.relative)
    assert len(kernel_texts(store)) == 5
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected.float(), rtol=5e-2, atol=5e-2)


def test_functions_that_read_more_than_elements_of_what_needs_gradients_are_left_to_eager() -> None:
    q, k, v = (t.detach() for t in inputs())
    slopes = SLOPES.clone().requires_grad_()

    def fn(q: torch.Tensor) -> torch.Tensor:
        return flex_attention(q * 2, k, v, score_mod=lambda s, b, h, i, j: s + (slopes * 2)[h] * j)

    with interpreted(), session() as store:
        found = dynamo.compile(fn)(q)
    assert any("more than elements" in e.reason for e in store.of(GraphBroke))
    torch.testing.assert_close(found, fn(q))


@pytest.mark.parametrize("backend", ["inductor", "aot_eager", "eager"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_autocast(dtype: torch.dtype, backend: str) -> None:
    given = [inputs()[0].to(dtype).detach().requires_grad_(), *inputs()[1:]]

    def fn(*t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out, aux = flex_attention(*t, score_mod=alibi, return_aux=AuxRequest(lse=True))
        return out, aux.lse

    has_a_rule = torch._C.DispatchKey.AutocastCPU in flex.flex_attention_hop.py_kernels  # else its operators are cast one by one
    expected = results(fn, given)
    with interpreted(), session() as store:
        found = results(dynamo.compile(fn, fullgraph=has_a_rule, backend=backend), given)
    assert len(kernel_texts(store)) == (3 if backend == "inductor" and has_a_rule else 0)
    assert has_a_rule or store.of(GraphBroke)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a.float(), b.float(), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("backend", ["inductor", "aot_eager", "eager"])
def test_float64_has_all_scores_in_memory(backend: str) -> None:
    given = [t.detach().double().requires_grad_() for t in inputs(kv_heads=2)]
    slopes = SLOPES.double().requires_grad_()

    def fn(*t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        score = lambda s, b, h, q, kv: s + slopes[h] * (kv - q)  # noqa: E731
        out, aux = flex_attention(*t, score_mod=score, enable_gqa=True, return_aux=AuxRequest(lse=True))
        return out, aux.lse

    expected = results(fn, given)
    with interpreted(), session() as store:
        found = results(dynamo.compile(fn, fullgraph=True, backend=backend), given)
    assert kernel_texts(store) == []
    assert {n.id for n in store.of(Note)} == ({"DI023"} if backend == "inductor" else set())
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype == torch.float64
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_the_older_form_of_a_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[str, str, type[Warning]]] = []

    def warn_once(warning_id: str, message: str, category: type[Warning] = UserWarning) -> None:
        said.append((warning_id, message, category))

    def fn(*t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return flex_attention(*t, score_mod=alibi, return_lse=True)

    monkeypatch.setattr(flex, "_warn_once", warn_once)
    given = inputs()
    with interpreted():
        found = results(dynamo.compile(fn, fullgraph=True), given)
    for a, b in zip(found, results(fn, given), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    ours, eager = (row for row in said if row[0] == "deprecated_return_lse")
    assert ours[2] is eager[2] and "return_aux=AuxRequest(lse=True)" in ours[1] and "return_aux=AuxRequest(lse=True)" in eager[1]


def test_processors_have_it_from_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "DEVICES", {"cuda"})
    q, k, v = (t.detach() for t in inputs())
    with session() as store:
        found = dynamo.compile(lambda q, k, v: flex_attention(q * 2, k, v))(q, k, v)
    assert store.of(GraphBroke)
    torch.testing.assert_close(found, flex_attention(q * 2, k, v))


# what is printed


def files(options: dict[str, Any], shape: tuple[int, ...], *, wants_gradients: bool) -> list[str]:
    """The kernels of attention over bfloat16, for a GPU that isn't there."""
    given = [torch.empty(shape, dtype=torch.bfloat16, requires_grad=wants_gradients) for _ in range(3)]
    with on_cuda() as made:
        dynamo.compile(lambda q, k, v: flex_attention(q, k, v, **options), fullgraph=True)(*given)
    return [text for text in made.files if ": attention, " in text.partition("\n")[0]]


def long_options() -> dict[str, Any]:
    return {"score_mod": alibi, "block_mask": create_block_mask(causal, None, None, 1024, 1024, device="cpu")}


def test_text() -> None:
    path = GOLDEN / "flex_attention.py.txt"
    texts = map(function_text, files(long_options(), (2, 4, 1024, 64), wants_gradients=True))
    found = re.sub(r"(test_flex_attention\.py):\d+", r"\1:LINE", "\n".join(texts))
    if os.environ.get("ACCEPT_GOLDEN"):
        path.write_text(found)
    expected = path.read_text() if path.exists() else ""
    diff = "\n".join(difflib.unified_diff(expected.splitlines(), found.splitlines(), path.name, "now", lineterm="", n=3))
    assert not diff, f"{diff}\n\nwanted? make accept PYTEST_ARGS=tests/inductor/triton/test_flex_attention.py"


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("width", [64, 128])
def test_the_forward_compiles_without_spills(width: int, capability: int, tmp_path: Path) -> None:
    (text,) = files(long_options(), (2, 4, 1024, width), wants_gradients=False)
    kernel = compiled_for(text, capability, tmp_path)
    assert registers_and_spills(kernel)[1] == 0
    assert kernel.metadata.shared < 160 << 10


def test_the_file_of_each_kernel_equals_its_calls() -> None:
    shapes, options = ROWS["a relative bias"]
    given = inputs(**shapes)
    with interpreted(), session() as store:
        results(dynamo.compile(attend(options()), fullgraph=True), given)
    texts = kernel_texts(store)
    reading, mask = Reading(), mask_of(causal)
    with interpreted(), session() as store:
        run = dynamo.compile(lambda *t: flex_attention(*t, score_mod=reading.by_all, block_mask=mask), fullgraph=True)
        torch.autograd.grad(run(*given).sum(), reading.tensors("by_all"))
    assert len(texts) == 3 and len(kernel_texts(store)) == 5
    for text in [*texts, *kernel_texts(store)]:
        module = module_of(text, interpreted=True)
        torch.manual_seed(0)
        tensors = module.samples("cpu")
        others, bad = [t.clone() for t in tensors], [torch.zeros(1, dtype=torch.int32)] * module.TAKES_BAD
        module.launch(*tensors, bad=bad)
        module.reference(*others, *bad)
        for a, b in zip(tensors, others, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3, equal_nan=True)


def test_a_relative_bias_is_read_into_registers_and_added_up_along_diagonals(tmp_path: Path) -> None:
    bias = torch.zeros(4, 2048, requires_grad=True)
    options = {"score_mod": lambda s, b, h, q, kv: s + bias[h, q - kv + 1024], "block_mask": long_options()["block_mask"]}
    given = [torch.ones(2, 4, 1024, 64, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    with on_cuda() as made:
        out = dynamo.compile(lambda q, k, v: flex_attention(q, k, v, **options), fullgraph=True)(*given)
        torch.autograd.grad(out.sum(), [*given, bias])
    parts = {text.split(", ")[1]: text for text in made.files if ": attention, " in text.partition("\n")[0]}
    assert "tl.gather(" in parts["learned"]
    for part in ("forward", "rows", "columns", "learned"):
        assert "fetched(read0" in parts[part] and "tl.load(read0" not in parts[part]
        assert registers_and_spills(compiled_for(parts[part], 90, tmp_path))[1] == 0
