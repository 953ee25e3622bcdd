"""AOT beyond small programs: checkpoint regions, randomness, fuel, errors, caching of saved values, the record."""

from __future__ import annotations

import gc
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.fx import Graph, GraphModule

import dynamo
from dynamo.aot import aot_eager, aot_module, branches, interpret
from dynamo.aot.decompose import select
from dynamo.aot.flow import INFINITE, Network
from dynamo.aot.gradients import cumprod_gradient
from dynamo.aot.joint import trace_joint
from dynamo.aot.partition import partition
from dynamo.decisions import limited
from dynamo.graph import helpers as graph_helpers
from dynamo.trace import events, session
from tests.aot.cases import CASES, leaf
from tests.aot.compare import check, copy_inputs, graph_of

aten = torch.ops.aten


def targets(gm: GraphModule) -> list[Any]:
    return [n.target for n in gm.graph.nodes if n.op == "call_function"]


def mlp(x: Any, w: Any, v: Any) -> Any:
    return (F.gelu(x @ w) @ v).sum()


def checkpointed(body: Callable[..., Any], *shapes: tuple[int, ...]) -> GraphModule:
    inner = graph_of(body, len(shapes))
    graph = Graph()
    inputs = [graph.placeholder(f"a{i}") for i in range(len(shapes))]
    held = graph.get_attr("body")
    out = graph.call_function(graph_helpers.checkpoint, (held, {"use_reentrant": False}, len(shapes), *inputs))
    graph.output(graph.call_method("sin", (out,)))
    root = torch.nn.Module()
    root.body = inner
    return GraphModule(root, graph)


def test_checkpointed_values_are_not_saved() -> None:
    def body(x: Any, w: Any) -> Any:
        return F.dropout((x @ w).tanh().exp(), 0.5, True) @ w

    gm = checkpointed(body, (4, 4), (4, 4))
    args = (leaf(4, 4), leaf(4, 4))
    parts = partition(trace_joint(gm, args), "min_cut")
    assert parts.backward is not None
    assert targets(parts.backward).count(aten.mm.default) > targets(parts.forward).count(aten.mm.default)
    check(lambda x, w: body(x, w).sin(), *args, compiled=aot_eager(gm, copy_inputs(args)))


def test_branches_live_as_long_as_what_may_run_them() -> None:
    known = set(branches._called)

    def f(x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda a: a.sin() * 2, lambda a: a.cos(), (x,)) + 1

    with session() as record:
        compiled = dynamo.compile(f, backend="aot_eager", fullgraph=True)
        x = leaf(3)
        y = compiled(x)
    shown = [e.graph_id.partition(".")[2] for e in record.events if isinstance(e, events.GraphCaptured)]
    assert [name for name in shown if name.startswith("branch")] == ["branch0.true", "branch0.false", "branch1.true", "branch1.false"]
    assert len(set(branches._called) - known) == 2
    del compiled
    dynamo.reset()  # code that was compiled lives as long as the code object
    gc.collect()
    y.sum().backward()
    with torch.no_grad():
        assert torch.equal(x.grad, 2 * x.cos() if x.sum() > 0 else -x.sin())
    del y
    gc.collect()
    assert not set(branches._called) - known


def test_min_cut_saves_less_than_save_all() -> None:
    def chain(x: Any) -> Any:
        return (x.sin().cos().exp() * x.tanh()).sigmoid().sum()

    joint = trace_joint(graph_of(chain, 1), (leaf(8, 8),))
    assert partition(joint, "min_cut").saved_values < partition(joint, "save_all").saved_values
    check(chain, leaf(8, 8))


def test_matmuls_are_not_recomputed() -> None:
    joint = trace_joint(graph_of(mlp, 3), (leaf(4, 5), leaf(5, 6), leaf(6, 7)))
    parts = partition(joint, "min_cut")
    assert parts.backward is not None
    assert targets(parts.forward).count(aten.mm.default) == 2
    assert targets(parts.backward).count(aten.mm.default) == 4


def test_without_fuel_nothing_is_recomputed_and_the_answer_stays() -> None:
    def chain(x: Any) -> Any:
        return x.sin().exp().sum()

    with limited("0"):
        joint = trace_joint(graph_of(chain, 1), (leaf(4),), select())
        parts = partition(joint, "min_cut")
        assert parts.recomputed == 0
        check(chain, leaf(4), decompositions=select())


@pytest.mark.parametrize("name", CASES)
def test_decompositions_keep_the_answer(name: str) -> None:
    torch.manual_seed(1)
    fn, inputs = CASES[name]
    check(fn, *inputs(), decompositions=select())


def test_manual_seed_makes_runs_equal() -> None:
    def noisy(x: Any) -> Any:
        return F.dropout(x, 0.5, True) + torch.rand_like(x)

    x = leaf(16)
    compiled = aot_eager(graph_of(noisy, 1), (x,))
    torch.manual_seed(5)
    first = compiled(x)
    second = compiled(x)
    torch.manual_seed(5)
    assert torch.equal(compiled(x), first) and not torch.equal(first, second)


def test_double_backward_runs_the_graph_again_in_eager() -> None:
    x = leaf(3)
    compiled = aot_eager(graph_of(lambda x: x.sin().exp(), 1), (x,))
    (grad,) = torch.autograd.grad(compiled(x).sum(), x, create_graph=True)
    torch.testing.assert_close(grad, x.sin().exp() * x.cos())
    (second,) = torch.autograd.grad(grad.sum(), x)
    torch.testing.assert_close(second, x.sin().exp() * (x.cos() ** 2 - x.sin()))


def _overwrites_large(x: Any, w: Any) -> Any:
    y = x.sin() * w.clone()
    w.mul_(2)
    return y[:3]


def _gives_history(x: Any, w: Any) -> Any:
    w.copy_(x.sin())
    return w * 2


def _writes_shared(x: Any, w: Any, v: Any) -> Any:
    w.mul_(2)
    return x.sin() * v


@pytest.mark.parametrize(
    "fn, sizes, reason",
    [
        (_overwrites_large, [20000], "it changes a large tensor after reading it"),
        (_gives_history, [3], "it changes a tensor that needs a gradient"),
    ],
)
def test_a_second_derivative_that_needs_what_was_overwritten_is_a_clear_error(fn: Any, sizes: list[int], reason: str) -> None:
    x, memory = leaf(sizes[0]), torch.randn(sum(sizes))
    args = (x, *(memory[:size] for size in sizes))
    compiled = aot_eager(graph_of(fn, len(args)), args)
    (grad,) = torch.autograd.grad(compiled(*args).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=f"{reason} \\[AOT003\\]"):
        grad.sum().backward()


@pytest.mark.parametrize("start", [0, 2, 3])
def test_a_second_derivative_beside_a_write_to_the_same_memory(start: int) -> None:
    """Apart from what is written, in part the same, and the same."""
    found = []
    for compiles in (False, True):
        x, memory = torch.arange(3.0, requires_grad=True), torch.arange(6.0)
        args = (x, memory[3:], memory[start : start + 3])
        call = aot_eager(graph_of(_writes_shared, 3), args) if compiles else _writes_shared
        (grad,) = torch.autograd.grad(call(*args).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(grad.sum(), x)
        found.append([grad.tolist(), second.tolist(), memory.tolist()])
    assert found[0] == found[1]


def test_retain_graph_and_freed_graph() -> None:
    x = leaf(3)
    out = aot_eager(graph_of(lambda x: x.sin().exp(), 1), (x,))(x).sum()
    out.backward(retain_graph=True)
    out.backward()
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()


def test_writing_to_a_saved_value_is_noticed() -> None:
    x, y = leaf(3), torch.randn(3)
    out = aot_eager(graph_of(lambda x, y: x * y, 2), (x, y))(x, y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_writing_to_a_returned_view_of_a_saved_value_is_noticed() -> None:
    x = leaf(4)
    out = aot_eager(graph_of(lambda x: x.exp().view(2, 2), 1), (x,), partition="save_all")(x)
    out.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_an_error_eager_finds_in_backward_waits_for_backward() -> None:
    def wrong(x: Any) -> Any:
        y = x.exp()
        z = y * 2
        y.add_(1)
        return z + y

    x = leaf(3)
    out = aot_eager(graph_of(wrong, 1), (x,))(x)
    torch.testing.assert_close(out.detach(), wrong(x).detach())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_gradients_with_other_strides() -> None:
    x = leaf(3, 4)
    compiled = aot_eager(graph_of(lambda x: x * 2, 1), (x,))
    (grad,) = torch.autograd.grad(compiled(x), x, torch.randn(4, 3).t())
    assert grad.shape == (3, 4)


def test_custom_function_and_custom_op() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0]

    check(lambda x: Double.apply(x.sin()) + 1, leaf(3))
    with torch.library._scoped_library("aot_test", "FRAGMENT") as lib:
        lib.define("accumulate(Tensor(a!) x, Tensor y) -> Tensor")

        def accumulate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            x.add_(y)
            return y * 2

        lib.impl("accumulate", accumulate, "CPU")
        torch.library.register_fake("aot_test::accumulate", lambda x, y: torch.empty_like(y), lib=lib)
        check(lambda x, y: (torch.ops.aot_test.accumulate(x, y), x + 1), torch.randn(3), torch.randn(3))


def test_a_part_of_a_result_that_is_returned_twice() -> None:
    def part(x: Any) -> Any:
        return (x * 2)[1:]

    for grads in (True, False):
        gm = graph_of(part, 1)
        output = next(n for n in gm.graph.nodes if n.op == "output")
        output.args = ((output.args[0], output.args[0]),)
        gm.recompile()
        x = leaf(4, 5).requires_grad_(grads)
        first, second = aot_eager(gm, [x])(x)
        assert first is second or first.shape == second.shape == (3, 5)
        assert torch.equal(first, x[1:] * 2) and torch.equal(second, first)


@pytest.mark.parametrize("zeros", [0, 1, 2, 5])
@pytest.mark.parametrize("shape, dim", [((7,), 0), ((4, 6), 1), ((4, 6), 0), ((3, 5, 2), -2), ((2,), 0)])
def test_the_gradient_of_running_products_is_that_of_autograd(shape: tuple[int, ...], dim: int, zeros: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape)
    x.view(-1)[torch.randperm(x.numel())[:zeros]] = 0
    y, grad = x.requires_grad_().cumprod(dim), torch.randn(shape)
    with torch.no_grad():
        assert torch.equal(cumprod_gradient(grad, x, y, dim), torch.autograd.grad(y, x, grad)[0])


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: torch.cumprod(x, 0),
        lambda x: x.cumprod(dim=-1),
        lambda x: x.cumprod(0, dtype=torch.float64),
        lambda x: x[0].cumprod(0),
    ],
)
def test_the_gradient_of_a_running_product_is_no_loop_over_elements(fn: Any) -> None:
    gm = torch.fx.symbolic_trace(fn)
    parts = partition(trace_joint(gm, [leaf(40, 40)]), "save_all")
    assert parts.backward is not None
    assert len(targets(parts.backward)) < 40
    x = leaf(40, 40)
    check(fn, x, compiled=aot_eager(gm, copy_inputs([x])))


@pytest.mark.parametrize("shape, dim", [((8, 1), 1), ((1, 8), 0), ((2, 1, 4), -2)])
def test_the_gradient_of_products_of_one_element_is_what_arrives(shape: tuple[int, ...], dim: int) -> None:
    values = [math.inf, -math.inf, 0.0, 1e-40, 1e30, math.nan, -2.0, 3.0]
    x, gm = torch.tensor(values).view(shape).requires_grad_(), torch.fx.symbolic_trace(lambda x: x.cumprod(dim))
    grad = torch.randn(shape)
    aot_eager(gm, [x])(x).backward(grad)
    assert torch.equal(x.grad, grad)


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_gradient_of_mish_is_one_operator(dtype: torch.dtype, inplace: bool) -> None:
    def fn(x: Any) -> Any:
        return F.mish(x * 1, inplace=inplace)

    x, gm = torch.linspace(-9, 9, 4000, dtype=dtype).requires_grad_(), torch.fx.symbolic_trace(fn)
    grad = torch.full((4000,), 0.3, dtype=dtype)
    expected = torch.autograd.grad(fn(x), x, grad)[0]
    assert torch.equal(torch.autograd.grad(aot_eager(gm, [x])(x), x, grad)[0], expected)


def test_what_cannot_be_functional_runs_as_it_is() -> None:
    def resizes(x: Any) -> Any:
        x.resize_(2)
        return x * 2

    with session() as store:
        check(resizes, torch.randn(4), calls=1)
    assert store.of(events.Note)


def test_global_modes_stay_changed() -> None:
    def leaves_off(x: Any) -> Any:
        torch._C._set_grad_enabled(False)
        return x * 2

    compiled = aot_eager(graph_of(leaves_off, 1), (leaf(2),))
    assert torch.is_grad_enabled()
    try:
        compiled(leaf(2))
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


def test_the_record_has_graphs_with_user_lines() -> None:
    with session() as store:
        args = (leaf(4, 5), leaf(5, 6), leaf(6, 7))
        aot_module(graph_of(mlp, 3), args, fw_compiler=interpret, bw_compiler=interpret, compile_id="1/0")
    graphs = {g.graph_id: g for g in store.of(events.GraphCaptured)}
    assert set(graphs) == {"1/0.aot", "1/0.fw", "1/0.bw"}
    assert all(n.file == __file__ for g in graphs.values() for n in g.nodes if n.op == "call_function")
    assert {t.stage for t in store.of(events.StageTimed)} == {"aot", "partition"}
    assert store.of(events.Decided)


def test_minimum_cut() -> None:
    network = Network(6)
    edges = "0-1 16, 0-2 13, 1-2 10, 2-1 4, 1-3 12, 3-2 9, 2-4 14, 4-3 7, 3-5 20, 4-5 4"
    for edge in edges.split(", "):
        ends, capacity = edge.split()
        a, b = map(int, ends.split("-"))
        network.connect(a, b, int(capacity))
    value, near = network.cut(0, 5)
    assert value == 23 and near == [True, True, True, False, True, False]
    unbounded = Network(2)
    unbounded.connect(0, 1, INFINITE)
    assert unbounded.cut(0, 1)[0] == INFINITE


PROGRAM = """
import sys, torch
import torch.nn.functional as F
import dynamo
from tests.aot.compare import graph_of
from dynamo.aot import aot_eager
from dynamo.aot.decompose import select

def step(x, w, b, t):
    h = F.layer_norm(F.gelu(F.linear(x, w, b)), (6,))
    h = F.dropout(h, 0.1) + h.view(-1).view(3, 6).pow(2).mean(-1, keepdim=True).rsqrt()
    return F.cross_entropy(h, t)

args = (torch.randn(3, 4), torch.randn(6, 4, requires_grad=True), torch.randn(6, requires_grad=True), torch.tensor([0, 1, 2]))
for table in (None, select()):
    aot_eager(graph_of(step, 4), args, decompositions=table)(*args).backward()

leaf_that_is_a_view = torch.ones(4).view(2, 2).requires_grad_()
first, second = dynamo.compile(lambda x: (y := x * 2, y.sin()), backend="aot_eager")(leaf_that_is_a_view)
first.register_hook(lambda grad: grad * 2)  # the backward runs the graph again
second.sum().backward()
dynamo.compile(torch.nn.Linear(2, 2, bias=False), backend="aot_eager")(torch.ones(2)).sum().backward()  # a view of what the graph computes
BAD = ("torch._dynamo", "torch._inductor", "torch._functorch.aot_autograd", "sympy", "networkx", "torch.fx.experimental.symbolic_shapes")
found = [m for m in BAD if m in sys.modules]
assert not found, found
"""


def test_neither_sympy_nor_the_peer_is_loaded() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr[-3000:]


def test_arguments_may_share_memory_later() -> None:
    def write(x: Any, y: Any) -> Any:
        x.add_(1)
        return y * 2

    compiled = aot_eager(graph_of(write, 2), (torch.ones(4), torch.ones(4)))
    base = torch.zeros(6)
    for x, y in ((torch.ones(4), torch.ones(4)), (base, base), (base[:4], base[2:])):
        expected = write(x.clone(), y.clone()) if x.untyped_storage()._cdata != y.untyped_storage()._cdata else None
        before = base.clone()
        actual = compiled(x, y)
        if expected is None:
            after = base.clone()
            base.copy_(before)
            expected = write(x, y)
            assert torch.equal(base, after)
        torch.testing.assert_close(actual, expected)


def test_what_backward_cannot_trace_runs_as_it_is() -> None:
    def loss(x: Any) -> Any:
        return F.ctc_loss(x.log_softmax(-1), torch.tensor([[1, 2]]), torch.tensor([5]), torch.tensor([2]))

    with session() as store:
        check(loss, leaf(5, 1, 4), calls=1)
    assert store.of(events.Note)


def train_step(x: Any, p: Any, m: Any, v: Any, count: Any) -> Any:
    """Adam by torch's fused kernel, on a gradient computed inside."""
    grad = x * 2 - p
    with torch.no_grad():
        count.add_(1)
        torch._fused_adam_(
            [p], [grad.detach()], [m], [v], [], [count],
            lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip
    return grad.sum()


def test_fused_optimizer_step() -> None:
    check(train_step, torch.randn(4), torch.randn(4), torch.zeros(4), torch.zeros(4), torch.tensor(0.0))


def test_foreach_optimizer_step_on_parameters() -> None:
    def step(p: Any, q: Any, g: Any, h: Any) -> Any:
        with torch.no_grad():
            torch._foreach_mul_([p, q], 0.9)
            torch._foreach_add_([p, q], [g, h], alpha=-0.1)
        return (g * h).sum()

    check(step, leaf(4), leaf(4), torch.randn(4), torch.randn(4))


@pytest.mark.parametrize("ambient", [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu", torch.bfloat16)])
@pytest.mark.parametrize("name", ["linear", "attention", "alias outputs", "write through views", "input views", "dropout"])
def test_ambient_modes(name: str, ambient: Callable[[], Any]) -> None:
    torch.manual_seed(1)
    fn, inputs = CASES[name]
    args = inputs()
    with ambient():
        compiled = aot_eager(graph_of(fn, len(args)), args)
        torch.manual_seed(2)
        expected = fn(*args)
        torch.manual_seed(2)
        actual = compiled(*args)
    torch.testing.assert_close(actual, expected)
    flat = zip(torch.utils._pytree.tree_leaves(actual), torch.utils._pytree.tree_leaves(expected), strict=True)
    assert all(a.requires_grad == e.requires_grad and a.dtype is e.dtype for a, e in flat)


def test_saved_tensor_hooks_see_what_is_saved() -> None:
    packed: list[torch.Tensor] = []

    def pack(t: torch.Tensor) -> torch.Tensor:
        packed.append(t)
        return t

    compiled = aot_eager(graph_of(mlp, 3), (leaf(4, 5), leaf(5, 6), leaf(6, 7)))
    args = (leaf(4, 5), leaf(5, 6), leaf(6, 7))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        compiled(*args).backward()
    assert packed
    assert args[0].grad is not None


def test_draws_from_generators_of_the_program_are_part_of_the_graph() -> None:
    own = torch.Generator().manual_seed(3)

    def f(x: Any) -> Any:
        return x * torch.rand(3, generator=own) + torch.randn(3, generator=own, out=torch.empty(3)) + torch.empty(3).random_(2, 9)

    with session() as store:
        dynamo.compile(f, backend="aot_eager")(leaf(3))
    assert store.of(events.Note) == []


def test_anomaly_mode_is_not_asked_of_fakes() -> None:
    f = dynamo.compile(lambda x: (x.sqrt() * 0).sum(), backend="aot_eager")

    with session() as store, torch.autograd.set_detect_anomaly(True):
        f(torch.ones(3, requires_grad=True)).backward()
        with pytest.raises(RuntimeError, match="nan"), pytest.warns(UserWarning, match="Error detected"):
            f(torch.zeros(3, requires_grad=True)).backward()
        assert torch.is_anomaly_enabled()

    assert [e.stage for e in store.of(events.GraphCaptured) if e.stage != "capture"]
    assert not store.of(events.Note)
