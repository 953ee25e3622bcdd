"""What is done to a graph once its nodes are few: sizes, layouts, values, operations, literals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import pytest
import torch
from torch import fx

from minifier.engine import Status
from minifier.graph.fx import execute, from_fx
from minifier.graph.inputs import propagated, strides_like
from minifier.graph.ir import Graph, Recipe, Tensor
from minifier.graph.problem import GraphProblem
from minifier.graph.values import inputs_of
from tests.minifier.graphs import reduced


def graph_of(program: Callable[..., object], *inputs: torch.Tensor) -> Graph:
    return from_fx(fx.symbolic_trace(program), inputs)


def minimal(program: Callable[..., object], holds: Callable[[Graph], bool], *inputs: torch.Tensor) -> Graph:
    """The end of a whole reduction; it runs in eager."""
    result = reduced(graph_of(program, *inputs), holds, GraphProblem().passes)
    assert result.status is Status.MINIMAL
    execute(result.state, inputs_of(result.state, None))
    return result.state


def shapes(graph: Graph) -> list[tuple[int, ...]]:
    return [i.spec.shape for i in graph.inputs]


def calls(name: str) -> Callable[[Graph], bool]:
    return lambda graph: any(n.target.rpartition(".")[2] == name for n in graph.nodes)


def test_nothing_special_ends_plain() -> None:
    graph = minimal(lambda x: torch.relu(x.t() @ x).sum(1), calls("relu"), torch.randn(64, 8, dtype=torch.float64))

    assert shapes(graph) == [()]
    assert [n.target for n in graph.nodes] == ["torch.relu"]
    assert graph.inputs[0].spec.dtype == "float32"
    assert graph.inputs[0].recipe == Recipe("zeros")


def test_threshold_of_elements_is_exact() -> None:
    def holds(graph: Graph) -> bool:
        return any(n.target == "torch.relu" and isinstance(n.spec, Tensor) and prod(n.spec.shape) > 1024 for n in graph.nodes)

    graph = minimal(lambda x, w: torch.relu(torch.sin(x) @ w) + 1, holds, torch.randn(64, 32), torch.randn(32, 128))

    assert shapes(graph) == [(1025,)]


def test_sizes_that_belong_together_stay_together() -> None:
    def both(graph: Graph) -> bool:
        return calls("matmul")(graph) and calls("softmax")(graph)

    graph = minimal(lambda x, w: (x @ w).view(6, 4, 5).softmax(-1), both, torch.randn(24, 7), torch.randn(7, 5))

    assert calls("matmul")(graph)
    assert all(n == 1 for shape in shapes(graph) for n in shape)


def test_dims_of_one_size_but_another_class_are_told_apart() -> None:
    def holds(graph: Graph) -> bool:
        return calls("matmul")(graph) and any(i.spec.shape[-1:] == (8,) for i in graph.inputs)

    graph = minimal(lambda x, w: x @ w, holds, torch.randn(8, 8), torch.randn(8, 8))

    assert sorted(n for shape in shapes(graph) for n in shape).count(8) <= 2
    assert prod(n for shape in shapes(graph) for n in shape) <= 64


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_dtype_that_is_needed_stays(dtype: torch.dtype) -> None:
    name = str(dtype).removeprefix("torch.")

    def holds(graph: Graph) -> bool:
        return calls("sin")(graph) and graph.inputs[0].spec.dtype == name

    graph = minimal(lambda x, y: torch.sin(x) * y, holds, *torch.randn(2, 4, 4, dtype=dtype))

    assert [(i.spec.dtype, i.spec.shape) for i in graph.inputs] == [(name, ())]


def test_stride_that_is_needed_stays() -> None:
    def holds(graph: Graph) -> bool:
        return calls("sin")(graph) and any(i.spec.stride and i.spec.stride[0] < i.spec.stride[-1] for i in graph.inputs)

    graph = minimal(lambda x: torch.sin(x) + 1, holds, torch.randn(16, 32).t())

    assert len(graph.inputs) == 1
    assert graph.inputs[0].spec.stride[0] < graph.inputs[0].spec.stride[-1]
    assert prod(graph.inputs[0].spec.shape) <= 2


def test_gradients_and_shared_memory_go_where_they_don_t_matter() -> None:
    base = torch.randn(8, requires_grad=True)
    start = graph_of(lambda x, y: torch.relu(x) + y.sum(), base, base.detach()[2:6])
    assert [i.base is not None for i in start.inputs] == [False, True]
    end = reduced(start, lambda g: calls("add")(g) and len(g.inputs) == 2, GraphProblem().passes).state

    assert [(i.base, i.requires_grad) for i in end.inputs] == [(None, False)] * 2


def test_shared_memory_that_is_needed_stays() -> None:
    def holds(graph: Graph) -> bool:
        values = inputs_of(graph, None).values()
        return len({v.untyped_storage().data_ptr() for v in values}) < len(values)

    base = torch.randn(8)
    start = graph_of(lambda x, y: torch.relu(x)[2:6] + y, base, base[2:6])
    end = reduced(start, lambda g: runs(g) and holds(g), GraphProblem().passes).state

    assert [(i.base is not None, i.spec.shape, i.offset) for i in end.inputs] == [(False, (), 0), (True, (), 0)]
    execute(end, inputs_of(end, None))


def runs(graph: Graph) -> bool:
    try:
        inputs_of(graph, None)
    except RuntimeError:
        return False
    return True


def test_values_that_are_needed_stay() -> None:
    def holds(graph: Graph) -> bool:
        values = inputs_of(graph, None)
        return calls("sin")(graph) and any(bool((v < 0).any()) for v in values.values())

    graph = minimal(lambda x: torch.sin(x) + 1, holds, torch.randn(4, 4))

    assert graph.inputs[0].recipe.kind == "randn"


def test_indices_stay_in_range() -> None:
    graph = minimal(
        lambda w, i: torch.nn.functional.embedding(i, w).sin(), calls("embedding"), torch.randn(100, 16), torch.randint(0, 100, (7,))
    )

    assert prod(n for shape in shapes(graph) for n in shape) == 1


def test_arguments_and_literals_become_plain() -> None:
    graph = minimal(lambda x: torch.addcmul(x, x, x, value=2.5).clamp(min=0.25, max=7.5), calls("clamp"), torch.randn(4, 4))

    assert len(graph.nodes) == 1
    assert [v for _, v in graph.nodes[0].kwargs] in ([0.0], [0])


def test_operation_becomes_the_plainest_that_fails() -> None:
    graph = minimal(lambda x: torch.erf(torch.tanh(x)) * 2, lambda g: len(g.nodes) >= 2, torch.randn(3, 3))

    assert {n.target for n in graph.nodes} == {"torch.neg"}


def test_propagation_agrees_with_eager() -> None:
    graph = graph_of(lambda x, w: torch.nn.functional.layer_norm((x @ w).relu(), (6,)).mean(0), torch.randn(4, 5), torch.randn(5, 6))
    plain = propagated(graph)

    assert plain is not None
    assert [n.spec for n in plain.nodes] == [n.spec for n in graph.nodes]


def test_what_can_t_run_is_no_candidate() -> None:
    graph = graph_of(lambda x, w: x @ w, torch.randn(4, 5), torch.randn(5, 6))
    wrong = replace(graph.inputs[0], spec=Tensor((4, 3), (3, 1), "float32"))

    assert propagated(replace(graph, inputs=(wrong, graph.inputs[1]))) is None


@pytest.mark.parametrize(
    "old, stride, shape, expected",
    [
        ((4, 8), (8, 1), (4, 2), (2, 1)),
        ((4, 8), (1, 4), (2, 8), (1, 2)),
        ((4, 8), (16, 2), (4, 3), (6, 2)),
        ((4, 8), (0, 1), (2, 3), (0, 1)),
        ((2, 3, 4), (12, 4, 1), (1, 1, 1), (1, 1, 1)),
    ],
)
def test_strides_keep_their_order(old: tuple[int, ...], stride: tuple[int, ...], shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert strides_like(Tensor(old, stride, "float32"), shape) == expected
