"""The public functions of `dynamo`: what they accept, return, refuse and report."""

from __future__ import annotations

import functools
import gc
import importlib
import threading
import traceback
import warnings
import weakref

import pytest
import torch
from torch import nn

import dynamo
from dynamo.trace import events, session


@pytest.fixture(autouse=True)
def no_options():
    yield
    dynamo.config.reset()


def recorder():
    graphs = []

    def backend(gm, example_inputs):
        graphs.append([n.name for n in gm.graph.nodes if n.op.startswith("call_")])
        return gm.forward

    backend.graphs = graphs
    return backend


def double_sin(x):
    return torch.sin(x) * 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 3)

    def forward(self, x):
        return torch.relu(self.lin(x))


# ---- what can be compiled -----------------------------------------------------------------------------------


def test_function_keeps_its_identity_as_a_function():
    fast = dynamo.compile(double_sin, backend="eager")

    assert fast.__name__ == "double_sin"
    assert fast.__wrapped__ is double_sin
    x = torch.randn(3)
    torch.testing.assert_close(fast(x), double_sin(x))


def test_decorator_with_and_without_arguments():
    @dynamo.compile(backend="eager")
    def f(x):
        return x + 1

    @dynamo.optimize("eager")
    def g(x):
        return x + 1

    x = torch.zeros(2)
    assert f(x).tolist() == g(x).tolist() == [1, 1]


def test_module_keeps_attributes_parameters_and_modes():
    net = Net()
    fast = dynamo.compile(net, backend="eager")
    x = torch.randn(2, 4)

    torch.testing.assert_close(fast(x), net(x))
    assert isinstance(fast, nn.Module)
    assert fast.lin is net.lin
    assert repr(fast).splitlines()[:2] == ["OptimizedModule(", "  (_orig_mod): Net("]
    assert [id(p) for p in fast.parameters()] == [id(p) for p in net.parameters()]
    fast.eval()
    assert not net.training
    fast.extra = 3
    assert net.extra == 3


def test_replicas_of_a_compiled_module_run_with_their_own_parameters(monkeypatch):
    replication = importlib.import_module("torch.nn.parallel.replicate")  # of that name the package has the function

    def scaled(tensors, devices, detach=False):
        return [[t * (k + 1.0) if t.is_floating_point() else t.clone() for t in tensors] for k in range(len(devices))]

    monkeypatch.setattr(replication, "_broadcast_coalesced_reshape", scaled)  # torch's copies to devices, and here there is one
    net, backend = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU()), recorder()
    fast = dynamo.compile(net, backend=backend)
    before, x = set(vars(net)), torch.randn(5, 4)

    for _ in range(3):
        plain, compiled = replication.replicate(net, [0, 1]), replication.replicate(fast, [0, 1])
        for expected, replica in zip(plain, compiled, strict=True):
            torch.testing.assert_close(replica(x), expected(x))
            ours = torch.autograd.grad(replica(x).sum(), net.parameters())
            torch.testing.assert_close(ours, torch.autograd.grad(expected(x).sum(), net.parameters()))

    assert len(backend.graphs) <= 2
    assert set(vars(net)) == before and list(fast._modules) == ["_orig_mod"] and fast._orig_mod is net
    torch.testing.assert_close(fast(x), net(x))


def test_bound_method_and_method_decorator():
    class A:
        scale = 3

        def f(self, x):
            return x * self.scale

        @dynamo.compile(backend="eager")
        def g(self, x):
            return x * self.scale

    a = A()
    x = torch.ones(2)
    assert dynamo.compile(a.f, backend="eager")(x).tolist() == [3, 3]
    assert a.g(x).tolist() == [3, 3]


def test_callable_object_and_c_function():
    class Twice:
        def __call__(self, x):
            return x + x

    x = torch.ones(2)
    assert dynamo.compile(Twice(), backend="eager")(x).tolist() == [2, 2]
    torch.testing.assert_close(dynamo.compile(torch.sin, backend="eager")(x), torch.sin(x))


def test_what_is_compiled_through_a_partial_or_an_object_has_the_names_and_lines_of_the_program():
    def scaled(x, by):
        return x * by

    class Twice:
        def __call__(self, x):
            return x + x

    def seen(target):
        with session() as store:
            dynamo.compile(target, backend="eager")(torch.ones(2))
        return [(e.name, e.line) for e in store.events if isinstance(e, events.CompileStarted)]

    def place(fn):
        return fn.__qualname__, fn.__code__.co_firstlineno

    assert seen(functools.partial(scaled, by=2)) == [place(scaled)]
    assert seen(Twice()) == [place(Twice.__call__)]
    assert [name for name, _ in seen(torch.sin)] == ["sin"]


class _Raising(nn.Module):
    """A module and a callable object that raise at their second line."""

    def forward(self, x):
        y = x * 2
        raise ValueError(y.shape)


class _Raises:
    def __call__(self, x):
        y = x * 2
        raise ValueError(y.shape)


@pytest.mark.parametrize(("target", "method"), [(_Raising(), _Raising.forward), (_Raises(), _Raises.__call__)])
def test_what_forwards_a_call_is_in_tracebacks_the_first_line_of_what_it_forwards_to(target, method):
    with pytest.raises(ValueError) as info:
        dynamo.compile(target, backend="eager")(torch.ones(2))

    code = method.__code__
    frames = [f for f in traceback.extract_tb(info.tb) if f.filename == code.co_filename and f.name in ("__call__", "forward")]
    assert [f.lineno for f in frames] == [code.co_firstlineno, code.co_firstlineno + 2]
    assert frames[0].line.startswith("def ")
    assert (frames[0].colno, frames[0].end_colno) == (None, None)


@pytest.mark.parametrize("bad", [3, "name", None.__class__])
def test_what_cannot_be_called_is_refused(bad):
    with pytest.raises(TypeError, match="can't compile"):
        dynamo.compile(bad, backend="eager")


def test_unknown_backend_names_the_nearest():
    with pytest.raises(RuntimeError, match="did you mean eager"):
        dynamo.compile(double_sin, backend="eagr")


def test_unknown_mode_and_option():
    with pytest.raises(RuntimeError, match="unknown mode"):
        dynamo.compile(double_sin, backend="eager", mode="fast")
    with pytest.raises(AttributeError, match="did you mean 'recompile_limit'"):
        dynamo.config.recompile_limits = 3


def test_compiling_one_module_twice_shares_what_is_compiled():
    backend = recorder()
    net, x = Net(), torch.randn(2, 4)
    dynamo.compile(net, backend=backend)(x)
    dynamo.compile(net, backend=backend)(x)

    assert len(backend.graphs) == 1


def test_modules_of_one_class_do_not_share_a_limit():
    backend = recorder()
    x = torch.randn(2, 4)
    with warnings.catch_warnings(record=True) as said:
        for _ in range(12):
            net = Net()
            torch.testing.assert_close(dynamo.compile(net, backend=backend)(x), net(x))
    assert not said
    assert len(backend.graphs) == 12


# ---- breaks -------------------------------------------------------------------------------------------------


def branchy(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def test_fullgraph_raises_the_break_with_id_line_and_way_out():
    with pytest.raises(dynamo.GraphBreakError, match=r"DD001") as e:
        dynamo.compile(branchy, backend="eager", fullgraph=True)(torch.ones(2))

    assert e.value.broke.span[1] == branchy.__code__.co_firstlineno + 1
    assert "torch.where" in str(e.value)


def test_optimize_assert_and_nopython():
    for wrap in (dynamo.optimize_assert("eager"), dynamo.optimize("eager", nopython=True)):
        with pytest.raises(dynamo.GraphBreakError):
            wrap(branchy)(torch.ones(2))


def test_graph_break_splits_and_is_nothing_in_eager():
    backend = recorder()

    def f(x):
        x = x.sin()
        dynamo.graph_break()
        return x.cos()

    x = torch.randn(3)
    torch.testing.assert_close(dynamo.compile(f, backend=backend)(x), f(x))
    assert backend.graphs == [["sin"], ["cos"]]


def test_disable_runs_all_below_in_eager():
    backend = recorder()

    def inner(x):
        return x * 3

    @dynamo.disable
    def outer(x):
        return inner(x) + 1

    def f(x):
        return outer(x.sin()).cos()

    x = torch.randn(3)
    torch.testing.assert_close(dynamo.compile(f, backend=backend)(x), f(x))
    assert backend.graphs == [["sin"], ["cos"]]


def test_disable_not_recursive_compiles_what_it_calls():
    backend = recorder()

    def inner(x):
        return x * 3

    @dynamo.disable(recursive=False)
    def outer(x):
        return inner(x) + 1

    def f(x):
        return outer(x.sin()).cos()

    x = torch.randn(3)
    torch.testing.assert_close(dynamo.compile(f, backend=backend)(x), f(x))
    assert sorted(backend.graphs) == [["cos"], ["mul"], ["sin"]]


def test_allow_and_disallow_in_graph():
    backend = recorder()

    @dynamo.allow_in_graph
    def opaque(x):
        return x.sin() if torch.is_tensor(x) else None

    def f(x):
        return opaque(x) + torch.cos(x)

    x = torch.randn(3)
    torch.testing.assert_close(dynamo.compile(f, backend=backend)(x), f(x))
    assert backend.graphs == [["opaque", "cos", "add"]]

    dynamo.disallow_in_graph(torch.tan)
    try:
        backend = recorder()
        dynamo.compile(lambda x: torch.tan(x.sin()), backend=backend)(x)
        assert backend.graphs == [["sin"]]
    finally:
        dynamo.allow_in_graph(torch.tan)


def test_assume_constant_result_calls_once():
    calls = []

    @dynamo.assume_constant_result
    def setting():
        calls.append(1)
        return 4

    def f(x):
        return x * setting()

    fast = dynamo.compile(f, backend="eager", fullgraph=True)
    x = torch.ones(2)
    assert fast(x).tolist() == [4, 4]
    n = len(calls)
    assert fast(x).tolist() == [4, 4]
    assert len(calls) == n


# ---- recompiles ---------------------------------------------------------------------------------------------


def test_same_facts_never_recompile_other_facts_never_reuse():
    backend = recorder()

    def f(x, n):
        return x * n

    fast = dynamo.compile(f, backend=backend)
    for x, n in [(torch.ones(2), 2), (torch.ones(2), 2), (torch.ones(3), 2), (torch.ones(3), 3), (torch.ones(2), 2)]:
        torch.testing.assert_close(fast(x, n), f(x, n))
    assert len(backend.graphs) == 3


def test_recompile_names_guard_and_values():
    with session() as store:
        fast = dynamo.compile(double_sin, backend="eager")
        fast(torch.ones(3))
        fast(torch.ones(4))

    (event,) = store.of(events.Recompiled)
    assert "L['x']" in event.reason
    assert "3" in event.reason
    assert "4" in event.reason


def test_limit_warns_once_and_keeps_the_cache():
    backend = recorder()

    def f(x, n):
        return x.expand(n, 2)

    fast = dynamo.compile(f, backend=backend)
    dynamo.config.cache_size_limit = 3
    x = torch.ones(2)
    with pytest.warns(UserWarning, match=r"recompile_limit \(3\).*L\['n'\]") as caught:
        for n in range(6):
            torch.testing.assert_close(fast(x, n), f(x, n))
    assert len([w for w in caught if "recompile_limit" in str(w.message)]) == 1
    assert len(backend.graphs) == 3
    torch.testing.assert_close(fast(x, 0), f(x, 0))
    assert len(backend.graphs) == 3


def test_reset_forgets():
    backend = recorder()
    fast = dynamo.compile(double_sin, backend=backend)
    fast(torch.ones(2))
    dynamo.reset()
    fast(torch.ones(2))
    assert len(backend.graphs) == 2


def test_ids_are_not_used_again_after_a_reset():
    fast = dynamo.compile(double_sin, backend="eager")
    with session() as store:
        fast(torch.ones(2))
        dynamo.reset()
        fast(torch.ones(2))

    assert len({e.compile_id for e in store.events if isinstance(e, events.CompileStarted)}) == 2


def test_a_break_tells_why_a_function_is_disabled():
    table = dynamo.disable(lambda x: x + 1, reason="calls a C library")
    with session() as store:
        dynamo.compile(lambda x: table(x * 2), backend="eager")(torch.ones(2))

    assert [e.reason.endswith("is disabled (calls a C library)") for e in store.events if isinstance(e, events.GraphBroke)] == [True]


def test_run_is_frozen_and_tells_what_it_missed():
    backend = recorder()
    fast = dynamo.compile(double_sin, backend=backend)
    fast(torch.ones(2))
    frozen = dynamo.run(fast)
    with warnings.catch_warnings(record=True) as said:
        frozen(torch.ones(2))
    assert not said
    with session() as store, pytest.warns(UserWarning, match="fits no compiled entry"):
        torch.testing.assert_close(frozen(torch.ones(5)), double_sin(torch.ones(5)))
    assert store.of(events.FrozenMiss)
    assert len(backend.graphs) == 1


# ---- explain and export -------------------------------------------------------------------------------------


def test_explain_counts_and_prints():
    output = dynamo.explain(branchy)(torch.ones(3))

    assert (output.graph_count, output.graph_break_count) == (2, 1)
    assert output.break_reasons[0].id == "DD001"
    text = str(output)
    assert "Graph Break Count: 1" in text
    assert "if x.sum() > 0:" in text
    assert "L['x']" in text


def test_classic_explain_is_a_six_tuple():
    explanation, guards, graphs, ops, reasons, verbose = dynamo.explain(branchy, torch.ones(3))

    assert explanation.startswith("Dynamo produced 2 graphs with 1 graph break")
    assert len(graphs) == len(ops) == 2
    assert len(reasons) == 1
    assert guards
    assert explanation in verbose


def test_export_gives_a_callable_graph():
    def f(x, d, *, k=2):
        return {"sum": x + d["y"], "parts": [x * k, (d["y"],)]}

    x, y = torch.randn(3), torch.randn(3)
    gm, guards = dynamo.export(f, x, {"y": y})
    torch.testing.assert_close(gm(x + 1, {"y": y}), f(x + 1, {"y": y}))
    assert guards

    with pytest.raises(dynamo.GraphBreakError):
        dynamo.export(branchy, x)


def test_export_refuses_side_effects():
    seen = []

    def f(x):
        seen.append(1)
        return x + 1

    with pytest.raises(dynamo.CompileError, match="side effects"):
        dynamo.export(f, torch.ones(2))
    assert seen == []


# ---- failures -----------------------------------------------------------------------------------------------


def test_backend_error_says_which_backend():
    def broken(gm, example_inputs):
        raise ValueError("no")

    with pytest.raises(dynamo.BackendError, match="'broken' failed: ValueError: no"):
        dynamo.compile(double_sin, backend=broken)(torch.ones(2))

    def wrong(gm, example_inputs):
        return 3

    with pytest.raises(dynamo.BackendError, match="can't be called"):
        dynamo.compile(double_sin, backend=wrong)(torch.ones(2))


def test_exception_of_the_program_is_its_own():
    def f(x):
        y = x + 1
        if len(x.shape) == 1:
            raise KeyError("one")
        return y

    for fullgraph in (False, True):
        with pytest.raises(KeyError, match="one"):
            dynamo.compile(f, backend="eager", fullgraph=fullgraph)(torch.ones(2))


def test_wrong_arguments_raise_as_python_does():
    fast = dynamo.compile(double_sin, backend="eager")
    with pytest.raises(TypeError, match=r"double_sin\(\) missing 1 required positional argument: 'x'"):
        fast()


# ---- threads and lifetime -----------------------------------------------------------------------------------


def test_threads_compile_once_and_agree():
    backend = recorder()
    fast = dynamo.compile(double_sin, backend=backend)
    inputs = [torch.randn(n % 3 + 1) for n in range(60)]
    wrong = []

    def work(part):
        for x in part:
            if not torch.equal(fast(x), double_sin(x)):
                wrong.append(x)

    threads = [threading.Thread(target=work, args=(inputs[i::4],)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert len(backend.graphs) == 3


def test_inputs_and_module_are_freed():
    net = Net()
    fast = dynamo.compile(net, backend="eager")
    x = torch.randn(2, 4)
    fast(x)
    seen_x, seen_net = weakref.ref(x), weakref.ref(net)
    del x
    gc.collect()
    assert seen_x() is None
    del fast, net
    dynamo.reset()
    gc.collect()
    assert seen_net() is None


def test_recursion_and_nested_compiled_functions():
    fast = dynamo.compile(double_sin, backend="eager")

    def f(x, n):
        return fast(x) if n == 0 else f(x, n - 1) + 1

    x = torch.randn(3)
    torch.testing.assert_close(dynamo.compile(f, backend="eager", fullgraph=True)(x, 3), double_sin(x) + 3)


def test_compile_times_lists_stages():
    with session():
        dynamo.compile(double_sin, backend="eager")(torch.ones(2))
        text = dynamo.utils.compile_times()
        headers, rows = dynamo.utils.compile_times(repr="csv", aggregate=True)
    assert "capture" in text
    assert "capture" in headers
    assert len(rows) == len(headers)
