"""Compiled code keeps nothing of the program alive, and leaves nothing behind: models, classes, closures, threads, forks, memory."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynamo
from dynamo.trace import session
from dynamo.trace.events import CompileStarted

BACKENDS = ("eager", "aot_eager", "inductor")


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = torch.nn.Linear(4, 4)
        self.b = torch.nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.a(x).relu()) * self.scale


class Breaking(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.a(x)
        os.getpid()  # a break
        dynamo.graph_break()
        return self.helper(x)

    def helper(self, x: torch.Tensor) -> torch.Tensor:
        dynamo.graph_break()
        return self.b(x) * self.scale


def _refs(net: torch.nn.Module) -> list[weakref.ref[Any]]:
    return [weakref.ref(x) for x in (net, *net.parameters(), *net.buffers(), *net.modules())]


def as_module(net: torch.nn.Module, compile: Callable[..., Any], x: torch.Tensor) -> Any:
    made = compile(net)
    made(x)
    return made


def trained(net: torch.nn.Module, compile: Callable[..., Any], x: torch.Tensor) -> Any:
    made = compile(net)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(2):
        made(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return made


def closed_over(net: torch.nn.Module, compile: Callable[..., Any], x: torch.Tensor) -> Any:
    @compile
    def f(x: torch.Tensor) -> Any:
        return net(x) + 1

    f(x)
    return f


def as_argument(net: torch.nn.Module, compile: Callable[..., Any], x: torch.Tensor) -> Any:
    @compile
    def f(net: torch.nn.Module, x: torch.Tensor) -> Any:
        return net(x) + 1

    f(net, x)
    return f


def in_containers(net: torch.nn.Module, compile: Callable[..., Any], x: torch.Tensor) -> Any:
    @compile
    def f(nets: Any, x: torch.Tensor) -> Any:
        return nets[0]["net"](x) + 1

    f([{"net": net}], x)
    return f


def bound_method(net: torch.nn.Module, compile: Callable[..., Any], x: torch.Tensor) -> Any:
    made = compile(net.forward)
    made(x)
    return made


def below_a_break(net: torch.nn.Module, compile: Callable[..., Any], x: torch.Tensor) -> Any:
    def inner(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = net(x)
        return result

    @compile
    def f(x: torch.Tensor) -> Any:
        dynamo.graph_break()
        y = inner(x)
        dynamo.graph_break()
        return y + inner(x)

    f(x)
    return f


def in_an_object(net: torch.nn.Module, compile: Callable[..., Any], x: torch.Tensor) -> Any:
    class Holder:
        def __init__(self) -> None:
            self.net = net

        def __call__(self, x: torch.Tensor) -> Any:
            return self.net(x)

    made = compile(Holder())
    made(x)
    return made


def in_place(net: torch.nn.Module, compile: Callable[..., Any], x: torch.Tensor) -> Any:
    net.forward = compile(net.forward)  # type: ignore[method-assign]  # as programs do
    net(x)
    return None


def in_a_thread(net: torch.nn.Module, compile: Callable[..., Any], x: torch.Tensor) -> Any:
    made = compile(net)
    thread = threading.Thread(target=made, args=(x,))
    thread.start()
    thread.join()
    return made


def several_shapes(net: torch.nn.Module, compile: Callable[..., Any], x: torch.Tensor) -> Any:
    made = compile(net)
    for n in range(1, 4):
        made(torch.ones(n, 4))
    return made


def copied(net: torch.nn.Module, compile: Callable[..., Any], x: torch.Tensor) -> Any:
    made = compile(net)
    made(x)
    other = copy.deepcopy(made)
    other(x)
    return made, other


USES = (
    as_module, trained, closed_over, as_argument, in_containers, bound_method, below_a_break, in_an_object, in_place, in_a_thread,
    several_shapes, copied,
)  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cls", [Net, Breaking])
@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_a_dropped_model_is_freed(use: Callable[..., Any], cls: type[torch.nn.Module], backend: str) -> None:
    net = cls()
    made = use(net, lambda f: dynamo.compile(f, backend=backend), torch.ones(2, 4))
    refs = _refs(net)
    del net, made
    gc.collect()  # programs make cycles through the model,
    gc.collect()  # and what is compiled goes after the model
    assert [r() for r in refs if r() is not None] == []


def test_a_dropped_closure_class_and_tensor_are_freed() -> None:
    class Local:
        def __init__(self, k: torch.Tensor) -> None:
            self.k = k

        def double(self) -> torch.Tensor:
            return self.k * 2

    def helper(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    held = torch.ones(3)

    @dynamo.compile(backend="eager")
    def f(x: torch.Tensor) -> Any:
        made = Local(x)
        dynamo.graph_break()
        return helper(made.double()) * held, made

    f(torch.ones(3))
    refs = [weakref.ref(x) for x in (Local, helper, held, f.fn)]
    Local = helper = held = f = None  # type: ignore[assignment,misc]  # dropped
    gc.collect()
    assert [r() for r in refs if r() is not None] == []


def test_replaced_parameters_are_freed() -> None:
    net = Net()
    made = dynamo.compile(net, backend="eager")
    made(torch.ones(2, 4))
    old = weakref.ref(net.a.weight)
    net.a.weight = torch.nn.Parameter(torch.zeros(4, 4))
    assert torch.equal(made(torch.ones(2, 4)), net(torch.ones(2, 4)))
    gc.collect()
    assert old() is None


def test_a_module_that_is_compiled_again_and_again_is_compiled_once() -> None:
    net = Net()
    for _ in range(3):
        dynamo.compile(net, backend="eager")(torch.ones(2, 4))
    assert len(dynamo.entries(dynamo.compile(net, backend="eager"))) == 1


def test_functions_of_one_text_share_their_code() -> None:
    def make() -> Any:
        @dynamo.compile(backend="eager")
        def f(x: torch.Tensor) -> torch.Tensor:
            return x + 1

        return f

    for _ in range(3):
        make()(torch.ones(3))
        gc.collect()
    assert len(dynamo.entries(make())) == 1


def test_deep_copies_share_compiled_code() -> None:
    net = dynamo.compile(Net(), backend="eager")
    x = torch.ones(2, 4)
    net(x)
    copies = [copy.deepcopy(net) for _ in range(4)]
    assert all(type(c) is type(net) for c in copies)
    with torch.no_grad():
        for i, c in enumerate(copies):
            c.a.weight.fill_(float(i))
    for c in copies:
        assert torch.equal(c(x), c._orig_mod(x))
    assert len(dynamo.entries(net)) <= 2
    assert dynamo.entries(copies[0]) == dynamo.entries(net)


@pytest.mark.parametrize("cls", [Net, Breaking])
def test_shallow_copies_compile_nothing(cls: type[torch.nn.Module]) -> None:
    net = dynamo.compile(cls(), backend="eager")
    x = torch.ones(2, 4)
    expected = net(x)
    with session() as store:
        other = copy.copy(net)
        assert torch.equal(other(x), expected)
    assert store.of(CompileStarted) == []
    assert type(other) is type(net) and other._orig_mod is not net._orig_mod
    assert all(p is q for p, q in zip(net.parameters(), other.parameters(), strict=True))


def test_deep_copies_of_copies_compile_nothing_more() -> None:
    net = dynamo.compile(Net(), backend="eager")
    x = torch.ones(2, 4)
    net(x)
    first = copy.deepcopy(net)
    first(x)
    with session() as store:
        for other in (copy.deepcopy(net), copy.deepcopy(first), copy.copy(first)):
            with torch.no_grad():
                other.a.weight.fill_(2.0)
            assert torch.equal(other(x), getattr(other, "_orig_mod", other)(x))
    assert store.of(CompileStarted) == []


def test_a_pickled_module_is_compiled_where_it_is_loaded_and_once() -> None:
    net = dynamo.compile(Net(), backend="eager")
    x = torch.ones(2, 4)
    net(x)
    other = pickle.loads(pickle.dumps(net))
    assert isinstance(other, type(net)) and list(other.state_dict()) == list(net.state_dict())
    with torch.no_grad():
        other.a.weight.fill_(2.0)
    with session() as store:
        for _ in range(2):
            assert torch.equal(other(x), other._orig_mod(x))
    assert len(store.of(CompileStarted)) == 1


ROUNDS = """
    import gc, resource, torch, dynamo
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(64, 64)
        def forward(self, x):
            y = self.a(x).relu()
            {middle}
            return self.a(y) * 2
    def memory():
        gc.collect()
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * 4
    def count():
        return sum(type(o).__module__ != "dynamo.trace.events" and type(o) is not dict for o in gc.get_objects())
    def round():
        {body}
    torch.set_num_threads(1)
    for i in range({warm}):
        round()
    start, objects = memory(), count()
    for i in range({rounds}):
        round()
    end, after = memory(), count()
    print(end - start, after - objects)
"""

BODIES = {
    "module": "m = Net(); c = dynamo.compile(m, backend='eager'); c(torch.ones(2, 64))",
    "function": "ns = {}; exec('def f(x, k=2): return x * k + 1', ns); dynamo.compile(ns['f'], backend='eager')(torch.ones(3))",
    "closure": "m = Net(); f = lambda x: m(x) + 1; dynamo.compile(f, backend='eager')(torch.ones(2, 64))",
    "object": "m = Net(); dynamo.compile(m.forward, backend='eager')(torch.ones(2, 64))",
    "backend": "dynamo.compile(lambda x: x + 1, backend=lambda gm, inputs: gm.forward)(torch.ones(3))",
}


def _run(code: str, *args: str) -> str:
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    python = [sys.executable, "-W", "ignore:This process:DeprecationWarning"]  # from 3.12 on a fork beside threads is warned of
    done = subprocess.run([*python, "-c", textwrap.dedent(code), *args], capture_output=True, text=True, timeout=600, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("middle", ["pass", "dynamo.graph_break()"])
@pytest.mark.parametrize("body", BODIES)
def test_rounds_of_compile_and_drop_keep_memory_flat(body: str, middle: str) -> None:
    code = ROUNDS.format(body=BODIES[body], middle=middle, warm=200, rounds=100)  # by then the bounded store of events is full
    grown, objects = map(int, _run(code).split())
    assert objects < 100, f"{objects} objects more after 100 rounds"
    assert grown < 4000, f"{grown} KB more after 100 rounds"


EXITS = {
    "compiled in a thread": """
        import threading, torch, dynamo
        f = dynamo.compile(lambda x: x.sin() + 1, backend="BACKEND")
        threads = [threading.Thread(target=f, args=(torch.ones(i + 1),)) for i in range(3)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert threading.active_count() == 1, threading.enumerate()
    """,
    "fork after a compile": """
        import os, torch, dynamo
        f = dynamo.compile(lambda x: x.sin() + 1, backend="BACKEND")
        f(torch.ones(3))
        child = os.fork()
        assert torch.equal(f(torch.ones(3)), torch.ones(3).sin() + 1)
        assert f(torch.ones(5)).shape == (5,)
        if child:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    """,
    "fork while another thread compiles": """
        import os, threading, torch, dynamo
        inside, go = threading.Event(), threading.Event()
        def backend(gm, inputs):
            inside.set(); go.wait()
            return gm.forward
        f = dynamo.compile(lambda x: x.sin() + 1, backend=backend)
        g = dynamo.compile(lambda x: x.cos() + 1, backend="BACKEND")
        thread = threading.Thread(target=f, args=(torch.ones(3),))
        thread.start(); inside.wait()
        child = os.fork()
        if child == 0:
            go.set()
            g(torch.ones(3))
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        go.set(); thread.join()
    """,
    "functions at exit, registered after the import": """
        import atexit, torch, dynamo
        f = dynamo.compile(lambda x: x.sin() + 1, backend="BACKEND")
        f(torch.ones(3))
        net = torch.nn.Linear(3, 3)
        made = dynamo.compile(net, backend="BACKEND")
        def last():
            assert torch.equal(f(torch.ones(3)), torch.ones(3).sin() + 1)
            made(torch.ones(2, 3)).sum().backward()
            assert net.weight.grad is not None
        atexit.register(last)
    """,
    "functions at exit, registered before the import": """
        import atexit
        def last():
            assert torch.equal(f(torch.ones(3)), torch.ones(3).sin() + 1)
            assert torch.equal(f(torch.ones(5)), torch.ones(5).sin() + 1)
            y.sum().backward()
            assert torch.allclose(x.grad, torch.ones(3).cos())
        atexit.register(last)
        import torch, dynamo
        f = dynamo.compile(lambda x: x.sin() + 1, backend="BACKEND")
        f(torch.ones(3))
        x = torch.ones(3, requires_grad=True)
        y = f(x)
    """,
    "finalizers and __del__": """
        import torch, dynamo, weakref
        f = dynamo.compile(lambda x: x.sin() + 1, backend="BACKEND")
        f(torch.ones(3))
        class Last:
            def __init__(self):
                self.f, self.x = f, torch.ones(3)
            def __del__(self):
                self.f(self.x)
        one, other = Last(), Last()
        other.cycle = other
        weakref.finalize(one, lambda: f(torch.ones(4)))
    """,
    "forks while another thread compiles": """
        import os, threading, time, torch, dynamo
        stop = threading.Event()
        def run():
            n = 0
            while not stop.is_set():
                n += 1
                names = {}
                exec(f"def f(x): return x.sin() * {n} + 1", names)
                dynamo.compile(names["f"], backend="BACKEND")(torch.ones(3, requires_grad=True)).sum().backward()
        thread = threading.Thread(target=run)
        g = dynamo.compile(lambda x: x.cos() + 1, backend="BACKEND")
        thread.start()
        children = []
        for _ in range(6):
            time.sleep(0.1)
            child = os.fork()
            if child == 0:
                assert g(torch.ones(3, requires_grad=True)).shape == (3,)
                os._exit(0)
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        stop.set(); thread.join()
        assert codes == [0] * 6, codes
    """,
    "a fork while another thread compiles the same function": """
        import os, threading, torch, dynamo
        inside, go = threading.Event(), threading.Event()
        def slow(gm, inputs):
            inside.set(); go.wait()
            return gm.forward
        f = dynamo.compile(lambda x: x.sin() + 1, backend=slow)
        thread = threading.Thread(target=f, args=(torch.ones(3),))
        thread.start(); inside.wait()
        child = os.fork()
        if child == 0:
            go.set()
            assert torch.equal(f(torch.ones(3)), torch.ones(3).sin() + 1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        go.set(); thread.join()
    """,
    "a fork while another thread counts a decision, and writes an event": """
        import os, signal, threading, torch, dynamo
        from dynamo import decisions
        from dynamo.trace.events import Note
        from dynamo.trace.stream import StreamWriter
        f = dynamo.compile(lambda x: x.sin() + 1, backend="BACKEND")
        writer = StreamWriter(os.pipe()[1])
        held, go = threading.Event(), threading.Event()
        def hold():
            with decisions._fuel.lock, writer._lock:
                held.set(); go.wait()
        thread = threading.Thread(target=hold)
        thread.start(); held.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(200)
            f(torch.ones(3))
            writer(Note("DD000", "quiet"))
            writer.close()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        go.set(); thread.join()
    """,
    "models alive at the end": """
        import torch, dynamo
        net = torch.nn.Linear(3, 3)
        made = dynamo.compile(net, backend="BACKEND")
        made(torch.ones(2, 3)).sum().backward()
        cycle = [net, made]; cycle.append(cycle)
    """,
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", EXITS)
def test_nothing_is_left_at_the_end(name: str, backend: str) -> None:
    assert _run(EXITS[name].replace("BACKEND", backend)) == ""
