"""The oracle for graphs, in the child: eager first, which must work, then compiled, which may not."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import fx

from dynamo import config
from dynamo.backends.registry import lookup_backend
from dynamo.peer import patient
from minifier.engine import Kind, Outcome, Signature, Verdict
from minifier.graph import refusals, warming
from minifier.graph.compare import Difference, difference
from minifier.graph.fx import bind, execute, to_fx
from minifier.graph.ir import Graph, load
from minifier.graph.names import Unsupported, resolve
from minifier.graph.values import inputs_of
from minifier.isolation import LocalTransport
from minifier.isolation.child import failure, stage
from minifier.state import State, applied


@dataclass(frozen=True)
class Setting:
    """How a graph is judged.

    `after` is `dynamo` (a captured graph goes to a backend) or `aot` (an ATen graph goes to the compiler of ATen graphs, which is then
    `backend`). Backends are names or `module:function`. Results count as a failure only with `accuracy`. `backward` runs gradients too;
    `is_backward`: the graph is itself a backward one. `engine` `torch`: torch's compiler is the one that is judged. It gets `arguments`
    with the graph, and has `options` set; `without` `part/n` leaves out all but the first n steps of a part (`patient.PARTS`).
    `state` is what everything runs under; None: without gradients, or with them for `backward`.
    """

    backend: str = "inductor"
    after: str = "dynamo"
    accuracy: bool = False
    backward: bool = False
    seed: int = 0
    threads: int = 1
    store: str = ""
    engine: str = "dynamo"
    is_backward: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    state: State | None = None
    without: str = ""

    @property
    def under(self) -> State:
        """The state that everything runs under."""
        return self.state or State(grad=self.backward, seed=self.seed, threads=self.threads)

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` gives the setting back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Setting:
        """What `data` does not have is as by default. Raises TypeError, ValueError or KeyError for data that `to_json` did not make."""
        state = data.get("state")
        return cls(**{**data, "state": None if state is None else State.from_json(state)})

    @classmethod
    def from_environment(cls) -> Setting:
        return cls.from_json(json.loads(os.environ[warming.VARIABLE]))


def warm() -> dict[str, str]:
    """Compile a small graph with the backend of the setting, on one thread: teams of threads don't survive a fork."""
    torch.set_num_threads(1)
    setting = Setting.from_environment()
    tells_kind = (setting.engine, setting.backend) == ("torch", "inductor")
    name, count = ("exp", 64) if tells_kind else ("neg", 3)  # few failures are about `neg`; 64 is enough for any instructions
    graph = fx.Graph()
    x = graph.placeholder("x")
    target = getattr(torch.ops.aten, name).default if setting.after == "aot" else getattr(torch, name)
    graph.output((graph.call_function(target, (x,)),))
    value = torch.ones(count)

    def small() -> None:
        compiled(fx.GraphModule(torch.nn.Module(), graph), [value], setting)(value)

    if tells_kind:
        refusals.keep(Path(os.environ["TORCHINDUCTOR_CACHE_DIR"], "refused"))
        return patient.know_first_kind(small)
    with contextlib.suppress(Exception):  # a backend that fails on this is for the oracle to judge
        small()
    return {}


def known(setting: Setting, transport: LocalTransport) -> dict[str, str]:
    """Variables for another process under a setting: what the warmed one has found out, if that holds there. Raises IsolationError."""
    return {} if patient.is_of_another_kind(setting.options) else transport.found()


def ask(path: Path) -> Outcome:
    """Judge the candidate at `path`."""
    setting = Setting.from_environment()
    stage("build", counts=False)
    return judge(load(path.read_bytes()), setting)


def judge(graph: Graph, setting: Setting) -> Outcome:
    """Eager, then compiled, on the same values and random numbers, under the state of the setting."""
    with applied(setting.under), aloud():
        return _judged(graph, setting)


def _judged(graph: Graph, setting: Setting) -> Outcome:
    store = Path(setting.store) if setting.store else None
    stage("eager", counts=False)
    try:
        expected = _run(lambda values: execute(graph, values), graph, store, setting)
        module = to_fx(graph)
        first = inputs_of(graph, store)
        given = bind(module, graph, first)
        compiler = compiler_of(setting)
    except Exception as e:  # noqa: BLE001  # a program that doesn't work in eager tells nothing
        return Outcome(Verdict.INVALID, failure(e, "eager"), detail=str(e)[:2000])
    doing = "compile"
    stage(doing, counts=True)
    try:
        call = compiler(module, given)
        doing = "run"
        stage(doing, counts=True)
        arguments = [i.id for i in graph.inputs if not i.is_attribute]
        held = {i.id: first[i.id] for i in graph.inputs if i.is_attribute}  # compiled code knows them by identity
        found = _run(lambda values: list(call(*(values[a] for a in arguments))), graph, store, setting, held)
    except Exception as e:  # noqa: BLE001  # this is what is looked for
        return Outcome(Verdict.INTERESTING, failure(e, doing), detail=f"{type(e).__name__}: {e}"[:2000])
    if not setting.accuracy:
        return Outcome(Verdict.BORING)
    stage("compare", counts=False)

    def again(change: Callable[[Any], Any], mode: AbstractContextManager[Any]) -> list[Any]:
        return _run(lambda values: execute(graph, values), graph, store, setting, change=change, mode=mode)

    wrong = difference(found, expected, again)
    return Outcome(Verdict.BORING) if wrong is None else Outcome(Verdict.INTERESTING, signature_of(wrong), detail=wrong.text)


def signature_of(wrong: Difference) -> Signature:
    """The signature of a wrong result: its class alone, since numbers differ from one candidate to the next."""
    return Signature(Kind.ACCURACY, accuracy=wrong.kind)


def difference_of(
    module: Callable[[], torch.nn.Module], results: Callable[..., list[Any]], found: Sequence[Any], expected: Sequence[Any]
) -> tuple[str, str] | None:
    """For repros: class and text of the difference. `results(call, module, change, mode)` runs a module as `compare.evidence.Run` does."""

    def again(change: Callable[[Any], Any], mode: AbstractContextManager[Any]) -> list[Any]:
        made = module()._apply(change)
        return results(fx.symbolic_trace(made), made, change, mode)

    wrong = difference(found, expected, again)
    return None if wrong is None else (wrong.kind, wrong.text)


Compiler = Callable[[fx.GraphModule, Sequence[torch.Tensor]], Callable[..., Any]]


def compiled(module: fx.GraphModule, inputs: Sequence[torch.Tensor], setting: Setting) -> Callable[..., Any]:
    """What the backend makes of a graph, called with its inputs one by one. Raises whatever the compiler does, which may be at the call."""
    with aloud():
        made = compiler_of(setting)(module, inputs)

    def call(*values: torch.Tensor) -> Any:
        with aloud():
            return made(*values)

    return call


def aloud() -> AbstractContextManager[None]:
    """A graph that can't be built raises; elsewhere it would run in eager, with a warning."""
    return config.patch(suppress_errors=False)


def compiler_of(setting: Setting) -> Compiler:
    """The compiler of a setting, with its options set. Raises Unsupported or UnknownBackend where there is none of that name, ConfigError
    or AttributeError where it has no such option: no fault of a compiler."""
    return _torchs(setting) if setting.engine == "torch" else _ours(setting)


def _torchs(setting: Setting) -> Compiler:
    patient.set_options(setting.options)
    if setting.without:
        part, _, most = setting.without.partition("/")
        patient.leave_out(setting.backend, part, int(most))
    backend = _resolved(setting)
    return lambda module, inputs: patient.compiled(module, backend, setting.arguments)


def _ours(setting: Setting) -> Compiler:
    for name, value in setting.options.items():
        setattr(config, name, value)
    if setting.after == "aot":
        takes_list = setting.backend == "inductor"  # a backend of the program's makes what is called with its inputs one by one
        name = "inductor.compile:compile_graph" if takes_list else setting.backend
        compiler = resolve(name.replace(":", "."))
        if "is_backward" in inspect.signature(compiler).parameters:
            compiler = functools.partial(compiler, is_backward=setting.is_backward)
        return functools.partial(_aten_compiled, compiler, "backward" if setting.is_backward else "forward", takes_list)
    backend = _resolved(setting)
    if isinstance(backend, str):
        backend = lookup_backend(backend)[1]

    return lambda module, inputs: _callable(backend(module, list(inputs), **setting.arguments))


def _callable(made: object) -> Callable[..., Any]:
    """What a backend gave, which the compiler refuses unless it can be called."""
    if not callable(made):
        raise TypeError(f"returned {type(made).__name__}, which can't be called")
    return made


def _resolved(setting: Setting) -> Any:
    """The function of `module:function`; any other name is the engine's to find. Modules of the script lie beside its stored values."""
    if ":" not in setting.backend:
        return setting.backend
    beside = str(Path(setting.store).absolute().parent)
    if setting.store and beside not in sys.path:
        sys.path.append(beside)
    try:
        return resolve(setting.backend.replace(":", "."))
    except Unsupported as e:
        way_out = "define it and what it needs outside of functions, in a module"
        raise Unsupported(f"no other process finds the backend {setting.backend}; {way_out}") from e


def _aten_compiled(
    compiler: Callable[..., Any], phase: str, takes_list: bool, module: fx.GraphModule, inputs: Sequence[torch.Tensor]
) -> Callable[..., Any]:
    """An ATen graph under a compiler of ATen graphs, which reads from `meta` what values look like and of which pass (`forward`,
    `backward`) a node is."""
    from dynamo.fake import FakeMode  # noqa: PLC0415  # of our compiler, which a backend of the user's does not need

    with FakeMode() as mode, torch.no_grad():
        fakes = [mode.from_real(i) for i in inputs]
        _Described(module, phase).run(*fakes)
    made = compiler(module, fakes)
    return (lambda *args: made(list(args))) if takes_list else made or module.forward


class _Described(fx.Interpreter):
    """Writes the value of each node and the pass it is of into its `meta`."""

    def __init__(self, module: fx.GraphModule, phase: str) -> None:
        super().__init__(module)
        self.phase = phase

    def run_node(self, n: fx.Node) -> Any:
        n.meta |= {"val": super().run_node(n), "phase": self.phase}
        return n.meta["val"]


Values = dict[int, torch.Tensor]


def _run(
    call: Callable[[Values], list[Any]],
    graph: Graph,
    store: Path | None,
    setting: Setting,
    held: Values | None = None,
    change: Callable[[Any], Any] = lambda value: value,
    mode: AbstractContextManager[Any] | None = None,
) -> list[Any]:
    """Results on fresh values of the inputs, each made by `change`, but for `held`; then gradients, if wanted; then inputs, which may have
    been written to: those of a backward graph are its own to write to. `mode` sees the run, and not how the inputs are made."""
    values = {k: change(v) for k, v in inputs_of(graph, store).items()} | (held or {})
    torch.manual_seed(setting.under.seed)
    needs = [v for v in values.values() if v.requires_grad] if setting.backward else []
    with mode or contextlib.nullcontext():
        found = call(values)
        roots = [f for f in found if isinstance(f, torch.Tensor) and f.requires_grad]
        grads: Sequence[Any] = ()
        if needs and roots:
            grads = torch.autograd.grad(roots, needs, [torch.ones_like(r) for r in roots], allow_unused=True)
    return [_kept(v) for v in (*found, *grads, *(() if setting.is_backward else values.values()))]


def _kept(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value
