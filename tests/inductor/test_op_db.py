"""Every operator of torch's own test database, compiled and compared with eager; and lowered and interpreted.

`test_op_db` goes through the public API and checks the rows of `docs/op_db.md`. The interpreter runs what lowering made, so it
tells a wrong row of the lowering table from a wrong kernel. `test_fused_op_db` compiles many operators as one graph.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_unflatten

from inductor.compile import compile_graph
from inductor.errors import Unsupported
from inductor.ir import interp
from inductor.lowering import registry
from inductor.lowering.graph import lower_graph
from tests.inductor import op_table
from tests.inductor.sweep import DTYPES, WITH_GRADIENTS, name_of, sweep
from tests.samples import draw

CHUNKS = 64  # operators are dealt out to this many tests, for xdist to share
MADE_OF_LOOPS = 330  # operators without an ATen call; the floor of the project's acceptance


def row_of(op: Any) -> op_table.Row:
    outcomes = {dtype: sweep(op, dtype) for dtype in DTYPES if op.supports_dtype(dtype, "cpu")}
    found = {str(dtype).removeprefix("torch."): outcome.forward for dtype, outcome in outcomes.items()}
    found["gradient"] = next((outcomes[d].backward for d in WITH_GRADIENTS if d in outcomes), "")
    wrong = "; ".join(f"{dtype}: {outcome.wrong}" for dtype, outcome in outcomes.items() if outcome.wrong)
    found["result"] = wrong.replace("|", "/") or "equal"
    return (f"`{name_of(op)}`", *(found.get(title, "") for title in op_table.HEAD[1:]))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_op_db(chunk: int) -> None:
    """No wrong answer and no crash, and the table says how each operator was compiled."""
    rows = {row[0]: row for row in map(row_of, op_db[chunk::CHUNKS])}
    if os.environ.get("ACCEPT_GOLDEN"):
        op_table.accept(rows, {f"`{name_of(op)}`" for op in op_db})
    assert [op_table.line_of(row) for row in rows.values() if row[-1] != "equal"] == []
    if op_table.is_comparable():
        recorded = op_table.read()
        assert [op_table.line_of(row) for name, row in rows.items() if recorded.get(name) != row] == []
    else:
        warnings.warn("docs/op_db.md is about another torch: its rows were not compared", stacklevel=1)


def test_every_row_names_an_operator_of_torch() -> None:
    """Of an older torch the rows that it has no operator for are left out."""
    if torch.__version__ >= (2, 13):
        assert registry.MISSING == []


def test_op_table_is_whole() -> None:
    rows = op_table.read()
    if op_table.is_comparable():
        assert set(rows) == {f"`{name_of(op)}`" for op in op_db}
        assert op_table.PATH.read_text(encoding="utf-8") == op_table.text_of(rows)
    found = op_table.counts(rows)
    assert found["native"] + found["decomposed"] >= MADE_OF_LOOPS


RANDOM = ("rand", "dropout", "bernoulli", "normal", "uniform", "multinomial", "cauchy", "exponential", "geometric", "lowrank", "rrelu")
UNDEFINED = ("empty", "to_sparse", "resize", "jiterator", "embedding_bag")  # contents or layouts that cannot be compared
DROPOUT_INSIDE = ("fractional", "scaled_dot_product_attention", "multi_head_attention_forward")
TOLERANCE = {
    torch.float32: {"rtol": 1e-4, "atol": 1e-5},
    torch.bfloat16: {"rtol": 3e-2, "atol": 3e-2},
    torch.float64: {"rtol": 1e-7, "atol": 1e-7},
}


def cases(op: Any, dtype: torch.dtype) -> Iterator[tuple[Callable[..., Any], list[torch.Tensor]]]:
    """(function of tensors, tensors) for the first three samples."""
    for sample in draw(op, dtype, 3):
        leaves, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
        positions = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided]

        def fn(*tensors, leaves=leaves, spec=spec, positions=positions):
            filled = list(leaves)
            for i, t in zip(positions, tensors, strict=True):
                filled[i] = t
            first, args, kwargs = tree_unflatten(filled, spec)
            return [r for r in tree_flatten(op.op(first, *args, **kwargs))[0] if isinstance(r, torch.Tensor)]

        yield fn, [leaves[i].detach() for i in positions]


def traced(fn: Callable[..., Any], tensors: list[torch.Tensor]) -> tuple[list[torch.Tensor], Any] | None:
    """Eager results and the ATen graph, or None for calls that cannot be traced at all."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = [r.clone() for r in fn(*[t.clone() for t in tensors])]
            return expected, make_fx(fn, tracing_mode="fake")(*[t.clone() for t in tensors])
        except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError, AttributeError):
            return None


def usable(op: Any, dtype: torch.dtype) -> bool:
    return op.supports_dtype(dtype, "cpu") and not any(word in op.name for word in RANDOM + UNDEFINED + DROPOUT_INSIDE)


OPS = [op for op in op_db if any(usable(op, d) for d in (torch.float32, torch.int64, torch.bool))]


SLOW_DTYPES = (torch.bfloat16, torch.int64, torch.bool, torch.float64)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("dtype", [torch.float32, *(pytest.param(d, marks=pytest.mark.slow) for d in SLOW_DTYPES)], ids=str)
def test_lowered_op_db(dtype: torch.dtype) -> None:
    wrong, right = [], 0
    for op in OPS:
        if not usable(op, dtype):
            continue
        for fn, tensors in cases(op, dtype):
            found = traced(fn, tensors)
            if found is None:
                continue
            expected, gm = found
            try:
                program, _ = lower_graph(gm)
            except Unsupported:
                continue
            outputs, _ = interp.run(program, tensors)
            try:
                for o, e in zip(outputs, expected, strict=True):
                    torch.testing.assert_close(o, e, equal_nan=True, check_stride=False, **TOLERANCE.get(dtype, {}))
                right += 1
            except AssertionError as error:
                wrong.append(f"{name_of(op)}: {str(error).splitlines()[0]}")
    assert not wrong, "\n".join(wrong)
    assert right > 800


JOINED = 24  # ops per joint graph: one compiler call each


def native_cases() -> list[tuple[str, Callable[..., Any], list[torch.Tensor], list[torch.Tensor]]]:
    out = []
    for op in op_db:
        if not usable(op, torch.float32):
            continue
        for fn, tensors in list(cases(op, torch.float32))[:2]:
            found = traced(fn, tensors)
            if found is None:
                continue
            try:
                _, how = lower_graph(found[1])
            except Unsupported:
                continue
            if "extern" not in how.values():
                out.append((name_of(op), fn, tensors, found[0]))
    return out


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_fused_op_db() -> None:
    """All native ops through the C compiler, many to a graph, so that they are also fused with strangers."""
    everything, wrong = native_cases(), []
    for start in range(0, len(everything), JOINED):
        group = everything[start : start + JOINED]
        counts = [len(tensors) for _, _, tensors, _ in group]

        def joint(*tensors, group=group, counts=counts):
            results, at = [], 0
            for (_, fn, _, _), count in zip(group, counts, strict=True):
                results.append(fn(*tensors[at : at + count]))
                at += count
            return [r for part in results for r in part]

        # clones, as `traced` had them: a sample may be a view of memory whose other parts it reads
        args = [t.clone() for _, _, tensors, _ in group for t in tensors]
        outputs = list(compile_graph(make_fx(joint, tracing_mode="fake")(*args), args)(args))
        for name, _, _, expected in group:
            mine, outputs = outputs[: len(expected)], outputs[len(expected) :]
            try:
                for o, e in zip(mine, expected, strict=True):
                    torch.testing.assert_close(o, e, equal_nan=True, check_stride=False, **TOLERANCE[torch.float32])
            except AssertionError as error:
                wrong.append(f"{name}: {str(error).splitlines()[0]}")
    assert not wrong, "\n".join(wrong)
    assert len(everything) > 500
