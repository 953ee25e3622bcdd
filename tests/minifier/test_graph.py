"""Graphs as plain data: the way from and to torch, and that whatever is cut out is a graph."""

from __future__ import annotations

import operator
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import fx

from dynamo.aot.branches import RUN_BRANCH
from minifier.engine import Status
from minifier.graph import edits
from minifier.graph.fx import bind, execute, from_fx, to_fx
from minifier.graph.ir import Graph, GraphError, Tensor, canonical, check, dump, load
from minifier.graph.names import Unsupported, name_of, resolve
from minifier.graph.problem import GraphProblem
from minifier.graph.values import inputs_of
from tests.minifier.graphs import chain, dag, inputs_for, marks_alive, reduced

aten = torch.ops.aten


def program(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a, b = torch.split(x @ w, 2, dim=-1)
    c = torch.nn.functional.layer_norm(a.to(torch.float64), (2,), eps=1e-3)
    d = torch.cat([b, b[:, 0:1]], dim=1).sum(dim=-1, keepdim=True)
    e = aten.add.Tensor(c, d, alpha=2).view(-1)
    y = torch.zeros(4, device="cpu").add_(x.shape[0])
    return e, y, torch.full_like(e, 1.5).mul(e).clamp(min=0)


def program_graph() -> Graph:
    return from_fx(fx.symbolic_trace(program), [torch.randn(4, 3), torch.randn(3, 4, requires_grad=True)])


def small_dag(count: int) -> Graph:
    module = dag(count, min(count, 3))
    return from_fx(module, inputs_for(module))


def test_graph_computes_what_the_module_did(tmp_path: Path) -> None:
    module, inputs = fx.symbolic_trace(program), [torch.randn(4, 3), torch.randn(3, 4)]
    graph = from_fx(module, inputs, tmp_path)
    made = to_fx(graph)
    made.graph.lint()
    plain = execute(graph, inputs_of(graph, tmp_path))
    again = made(*bind(made, graph, inputs_of(graph, tmp_path)))

    for expected, one, two in zip(module(*inputs), plain, again, strict=True):
        assert torch.equal(one, expected)
        assert torch.equal(two, expected)


def test_operator_that_calls_graphs_of_this_process_has_no_name() -> None:
    with pytest.raises(Unsupported, match="other processes don't have"):
        name_of(RUN_BRANCH)


def test_what_cannot_be_written_down_is_left_out(tmp_path: Path) -> None:
    made = fx.Graph()
    x = made.placeholder("x")
    pair = made.call_function(lambda x: (x.sin(), [x.cos()]), (x,))
    sine, rest = (made.call_function(operator.getitem, (pair, i)) for i in range(2))
    cosine = made.call_function(operator.getitem, (rest, 0))
    made.output((made.call_method("mul_", (sine, x)), made.call_method("exp", (cosine,)), sine))
    module, left_out = fx.GraphModule(torch.nn.Module(), made), list[str]()
    with pytest.raises(Unsupported):
        from_fx(module, [torch.rand(3)], tmp_path)

    graph = from_fx(module, [given := torch.rand(3)], tmp_path, left_out)

    assert len(left_out) == 1
    assert [(len(graph.inputs), [n.target for n in graph.nodes])] == [(3, ["mul_", "exp"])]
    for one, other in zip(execute(graph, inputs_of(graph, tmp_path)), (given.sin() * given, given.cos().exp()), strict=True):
        assert torch.equal(one, other)


def test_what_goes_to_what_is_left_out_is_a_result(tmp_path: Path) -> None:
    made = fx.Graph()
    x = made.placeholder("x")
    sine = made.call_method("sin", (x,))
    outside = made.call_function(lambda x: x + 1, (sine,))
    made.output(made.call_method("exp", (outside,)))

    graph = from_fx(fx.GraphModule(torch.nn.Module(), made), [given := torch.rand(3)], tmp_path, [])

    sent, left = execute(graph, inputs_of(graph, tmp_path))
    assert torch.equal(sent, given.sin())
    assert torch.equal(left, (given.sin() + 1).exp())


def test_written_and_read_back() -> None:
    for graph in (program_graph(), small_dag(30)):
        assert load(dump(graph)) == graph
        assert canonical(load(dump(graph))) == canonical(graph)


@settings(max_examples=40)
@given(data=st.data())
def test_damaged_graphs_are_refused(data: st.DataObject) -> None:
    whole = dump(small_dag(4))
    at, end = sorted((data.draw(st.integers(0, len(whole))), data.draw(st.integers(0, len(whole)))))
    broken = whole[:at] + data.draw(st.binary(max_size=6)) + whole[end:]
    try:
        check(load(broken))
    except GraphError:
        return


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "null", '{"inputs": [[1]], "nodes": [], "outputs": []}', '{"inputs": [], "nodes": [], "outputs": [3]}', "9" * 5000],
)
def test_what_is_no_graph_is_refused(text: str) -> None:
    with pytest.raises(GraphError):
        load(text.encode())


def test_deep_nesting_is_refused() -> None:
    deep = '{"tuple": [' * 5000 + "0" + "]}" * 5000
    row = f'[1, "n", "function", "f", {deep}, {{"tuple": []}}, ["other", ""], {{}}, 0, ""]'
    with pytest.raises(GraphError):
        load(f'{{"inputs": [], "nodes": [{row}], "outputs": []}}'.encode())


EDITS = {"cut": edits.cut, "bypass": edits.bypass}


@pytest.mark.parametrize("edit", EDITS)
@settings(max_examples=30)
@given(data=st.data())
def test_any_part_of_a_graph_is_a_graph(edit: str, data: st.DataObject) -> None:
    graph = data.draw(st.sampled_from([program_graph(), small_dag(12)]))
    gone = [n.id for n in graph.nodes if data.draw(st.booleans())]
    smaller = EDITS[edit](graph, gone)
    if smaller is None:
        return
    check(smaller)
    to_fx(smaller).graph.lint()
    found = execute(smaller, inputs_of(smaller, None))

    assert {n.id for n in smaller.nodes} <= {n.id for n in graph.nodes} - set(gone)
    assert len(found) == len(smaller.outputs) > 0
    for output, value in zip(smaller.outputs, found):
        spec = smaller.specs[output]
        assert isinstance(spec, Tensor)
        assert (tuple(value.shape), str(value.dtype)) == (spec.shape, f"torch.{spec.dtype}")
    readers = smaller.users
    assert all(readers[n.id] or n.id in smaller.outputs or not graph.users[n.id] for n in smaller.nodes)
    assert all(readers[i.id] for i in smaller.inputs)


def test_bypass_goes_through_a_whole_layer() -> None:
    def layer(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        mean = y.mean(-1, keepdim=True)
        scale = torch.rsqrt((y - mean).pow(2).mean(-1, keepdim=True) + 1e-5)
        return torch.cos((y - mean) * scale)

    graph = from_fx(fx.symbolic_trace(layer), [torch.randn(2, 3)])
    smaller = edits.bypass(graph, [n.id for n in graph.nodes[1:-1]])

    assert smaller is not None
    assert [n.target for n in smaller.nodes] == ["torch.sin", "torch.cos"]
    assert smaller.nodes[1].reads == (smaller.nodes[0].id,)
    assert len(smaller.inputs) == 1


def test_number_that_is_cut_becomes_a_constant() -> None:
    graph = from_fx(fx.symbolic_trace(lambda x: x.sum(0) + x.size(0)), [torch.ones(5, 2)])
    number = next(n for n in graph.nodes if n.target == "size")
    smaller = edits.cut(graph, [number.id])

    assert smaller is not None
    assert execute(smaller, inputs_of(smaller, None))[0].shape == (2,)
    assert 5 in smaller.nodes[-1].args


@pytest.mark.parametrize(
    "make, count, marks, calls",
    [(chain, 100, 1, 14), (chain, 100, 5, 70), (chain, 300, 2, 42), (dag, 100, 2, 36), (dag, 100, 10, 120)],
)
def test_marked_operations_are_all_that_stays(make: object, count: int, marks: int, calls: int) -> None:
    assert make in (chain, dag)
    module = chain(count, marks) if make is chain else dag(count, marks)
    result = reduced(module, lambda graph: marks_alive(to_fx(graph), marks))

    assert result.status is Status.MINIMAL
    assert len(result.state.nodes) == marks
    assert len(result.state.inputs) == 1
    assert result.calls <= calls


@pytest.mark.parametrize("wanted, calls", [(("sigmoid",), 4), (("neg",), 14), (("sigmoid", "erf"), 40)])
def test_rare_operations_are_tried_alone_first(wanted: tuple[str, ...], calls: int) -> None:
    def holds(graph: Graph) -> bool:
        return {"sigmoid", "erf", "neg"} & {n.target.rpartition(".")[2] for n in graph.nodes} >= set(wanted)

    def f(x: torch.Tensor) -> torch.Tensor:
        for i in range(60):
            x = torch.sigmoid(x) if i == 20 else torch.erf(x) if i == 40 else torch.cos(x) if i % 2 else torch.neg(x)
        return x

    result = reduced(fx.symbolic_trace(f), holds)

    assert sorted(n.target.rpartition(".")[2] for n in result.state.nodes) == sorted(wanted)
    assert result.calls <= calls


def test_data_path_is_bypassed() -> None:
    def reaches(graph: Graph) -> bool:
        """Something of the first marked operation gets to the second."""
        found: set[int] = set()
        for n in graph.nodes:
            if n.target == "torch.sigmoid" or found & set(n.reads):
                found.add(n.id)
                if n.target.endswith("erf"):
                    return True
        return False

    result = reduced(chain(300, 2), reaches)

    assert [n.target.rpartition(".")[2] for n in result.state.nodes] == ["sigmoid", "erf"]
    assert result.calls <= 70


def test_two_results_are_reduced_to_what_is_needed() -> None:
    graph = small_dag(20)
    both = Graph(graph.inputs, graph.nodes, tuple(n.id for n in graph.nodes))
    result = reduced(both, lambda g: len(g.nodes) >= 3 and any(g.users[n.id] for n in g.nodes))

    assert len(result.state.nodes) == 3
    assert len(result.state.outputs) < 3


@pytest.mark.parametrize("target", [torch.relu, aten.add.Tensor, torch.ops.aten.sum, torch.nn.functional.gelu, torch.special.erf, getattr])
def test_functions_have_names(target: object) -> None:
    assert callable(target)
    assert resolve(name_of(target)) is target


def test_function_without_a_name_is_refused() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x

    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(inner, (x,)),))
    with pytest.raises(Unsupported, match="inner"):
        from_fx(fx.GraphModule(torch.nn.Module(), graph), [torch.ones(2)])


def test_order_prefers_fewer_nodes() -> None:
    small, large = small_dag(4), small_dag(9)

    assert GraphProblem().size(small) < GraphProblem().size(large)
