"""The capture test language: program text in; graphs, breaks, guards and compiles out, side by side.

    check(
        '''
        def f(x, xs):
            xs.append(x.sin())
            return xs[0] + x
        ''',
        inputs=["t(3), [t(3)]", "t(4), [t(4)]"],
        graphs=["sin add"],
        compiles=2,
    )

The program is executed twice, in two namespaces. On every input set, `f` of the first runs eagerly and `f` of the second
compiled; results, exceptions, printed text, arguments, globals, gradients and torch's global modes must then be equal.

inputs    argument lists as text, at least two. `t(2, 3)` is a random float tensor, the same in both runs, different in
          each place; `t(3, grad=True)`, `t(3, dtype=torch.int64)`. Names of the program can be used.
graphs    operator names of every graph in order of capture; a graph captured again with the same operators is listed
          once, a graph without operators not at all. `add|iadd` accepts either name. A number instead of a list is the number of graphs.
breaks    `ID:line` in order, each once; line 1 is the first line of the program. With `*:line` only the lines count.
guards    texts that must occur in a guard (`source check`); `no_guards`: texts that must not.
compiles  number of compiles after all inputs, so that compiling too often and too rarely both show. 1 unless the case
          has breaks, where None (the default there) does not count.
fullgraph True unless the case has breaks. False without breaks: whether there are any does not matter here.
prelude   definitions shared by several cases, put before the program.
"""

from __future__ import annotations

import ast
import contextlib
import io
import itertools
import linecache
import sys
import textwrap
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

import dynamo
from dynamo.trace import session
from dynamo.trace.events import CompileStarted, GraphBroke, GuardInstalled
from tests.capture.same import Different, same

T = TypeVar("T")
Engine = Callable[[Callable[..., Any], Callable[..., Any], bool], Callable[..., Any]]
_numbers = itertools.count(1)
_modules: list[types.ModuleType] = []  # a module clears its namespace when it is collected


@dataclass(frozen=True)
class Case:
    """One row of a test table. Field order is the order rows are read in: what runs, on what, and what is expected."""

    name: str
    program: str
    inputs: Sequence[str] = ("t(3)", "t(3)")
    graphs: Sequence[str] | int | None = None
    breaks: Sequence[str] = ()
    guards: Sequence[str] = ()
    no_guards: Sequence[str] = ()
    compiles: int | None = -1
    fullgraph: bool | None = None
    prelude: str = ""

    def check(self) -> None:
        check(
            textwrap.dedent(self.prelude).lstrip("\n") + textwrap.dedent(self.program).lstrip("\n"),
            inputs=self.inputs,
            graphs=self.graphs,
            breaks=self.breaks,
            guards=self.guards,
            no_guards=self.no_guards,
            compiles=self.compiles,
            fullgraph=self.fullgraph,
        )


def since(version: tuple[int, int], new: T, old: T) -> T:
    """An expectation that depends on the Python version: what holds since `version`, and what held before."""
    return new if sys.version_info >= version else old


def parsed_here(cases: Sequence[Case]) -> list[Case]:
    """The cases whose syntax the running Python knows. The others don't exist for it: they are not collected, so nothing is skipped."""
    return [case for case in cases if _parses(textwrap.dedent(case.program))]


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


@dataclass
class Observed:
    """What happened when a program ran compiled on all its inputs."""

    graphs: list[str] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)
    guards: list[str] = field(default_factory=list)
    compiles: int = 0
    differences: list[str] = field(default_factory=list)


def check(
    program: str,
    *,
    inputs: Sequence[str],
    graphs: Sequence[str] | int | None = None,
    breaks: Sequence[str] = (),
    guards: Sequence[str] = (),
    no_guards: Sequence[str] = (),
    compiles: int | None = -1,
    fullgraph: bool | None = None,
) -> None:
    """Run one case; on failure raise AssertionError with expectation and outcome side by side."""
    assert len(inputs) >= 2, "a case needs at least two input sets"
    if compiles == -1:
        compiles = None if breaks else 1
    any_breaks = fullgraph is False and not breaks
    if fullgraph is None:
        fullgraph = not breaks
    text = textwrap.dedent(program).strip("\n") + "\n"

    seen = observe(text, inputs, fullgraph)

    problems = list(seen.differences)
    if isinstance(graphs, int) and len(seen.graphs) != graphs:
        problems.append(_beside("graphs", [str(graphs)], [str(len(seen.graphs)), *seen.graphs]))
    elif graphs is not None and not isinstance(graphs, int) and not _fit(graphs, seen.graphs, _same_ops):
        problems.append(_beside("graphs", graphs, seen.graphs))
    if not any_breaks and not _same_breaks(breaks, seen.breaks):
        problems.append(_beside("breaks", breaks, seen.breaks))
    if compiles is not None and seen.compiles != compiles:
        problems.append(_beside("compiles", [str(compiles)], [str(seen.compiles)]))
    missing = [g for g in guards if not any(g in guard for guard in seen.guards)]
    unwanted = [g for g in no_guards if any(g in guard for guard in seen.guards)]
    if missing or unwanted:
        problems.append(_beside("guards", [*missing, *(f"no {g}" for g in unwanted)], seen.guards))
    if problems:
        numbered = "".join(f"{number:3} {line}\n" for number, line in enumerate(text.splitlines(), 1))
        raise AssertionError("\n" + numbered + "\n" + "\n".join(problems))


def compile_with_dynamo(fn: Callable[..., Any], backend: Callable[..., Any], fullgraph: bool) -> Callable[..., Any]:
    return dynamo.compile(fn, backend=backend, fullgraph=fullgraph)


def observe(text: str, inputs: Sequence[str], fullgraph: bool, engine: Engine = compile_with_dynamo, watched: bool = True) -> Observed:
    """Run a program eagerly and compiled on all inputs, and note what the compiler did, if it is `watched`."""
    file = f"case_{next(_numbers)}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    eager, compiled = _namespace(text, file), _namespace(text, file)
    observed = Observed()

    def backend(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        ops = _ops(graph_module)
        if ops and ops not in observed.graphs:
            observed.graphs.append(ops)
        return graph_module.forward

    dynamo.reset()
    with session() if watched else contextlib.nullcontext() as store:
        fn = engine(compiled["f"], backend, fullgraph)
        for number, arguments in enumerate(inputs):
            left = _run(eager, eager["f"], arguments, number)
            right = _run(compiled, fn, arguments, number)
            try:
                _compare(left, right)
            except Different as difference:
                observed.differences.append(f"input {number} ({arguments}): {difference}")
    if store is None:
        return observed
    observed.breaks = list(dict.fromkeys(f"{e.id}:{e.line if e.file == file else e.file}" for e in store.of(GraphBroke)))
    observed.guards = [f"{e.source} {e.check}" for e in store.of(GuardInstalled)]
    observed.compiles = len(store.of(CompileStarted))
    return observed


def _compare(left: dict[str, Any], right: dict[str, Any]) -> None:
    """Raise Different for two runs that are not the same, an exception on one side first."""
    if "exception" in right and "exception" not in left:
        raise Different(f"compiled code raised {type(right['exception']).__name__}: {right['exception']}")
    if "exception" in left and "exception" not in right:
        raise Different(f"eager raised {left['exception']!r}, compiled code returned {right['result']!r}")
    same(left, right, "")


def _namespace(text: str, file: str) -> dict[str, Any]:
    torch.utils.hooks.RemovableHandle.next_id = 0
    module = types.ModuleType("case")
    sys.modules["case"] = module  # dataclasses look up the module of the class they decorate
    namespace = module.__dict__
    torch.default_generator.manual_seed(0)  # `torch.manual_seed` walks the stack for each accelerator
    namespace.update(torch=torch, nn=torch.nn, F=torch.nn.functional)
    exec(compile(text, file, "exec"), namespace)
    _modules.append(module)
    return namespace


def _run(namespace: dict[str, Any], fn: Callable[..., Any], arguments: str, number: int) -> dict[str, Any]:
    """Call `fn` and return all that a caller can see of it."""
    seeds = itertools.count(1000 * number)

    def t(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> torch.Tensor:
        generator = torch.Generator().manual_seed(next(seeds))
        if dtype.is_floating_point or dtype.is_complex:
            return torch.randn(shape, generator=generator, dtype=dtype).requires_grad_(grad)
        return torch.randint(0, 2 if dtype == torch.bool else 10, shape, generator=generator).to(dtype)

    torch.default_generator.manual_seed(number)
    torch.utils.hooks.RemovableHandle.next_id = 1000 * number + 500  # hooks are stored under numbers that count up
    modes = _modes()
    args, kwargs = eval(f"_pack({arguments})", {**namespace, "t": t, "_pack": lambda *args, **kwargs: (args, kwargs)})
    seen: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            seen["result"] = fn(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  whatever eager raises, compiled code must raise too
            seen["exception"] = error
    seen["modes"] = _modes()
    _restore(modes)
    seen["printed"] = printed.getvalue()
    seen["random state"] = torch.get_rng_state().sum().item()
    if "result" in seen:
        _backward(seen["result"])
    seen["arguments"] = (args, kwargs)
    seen["globals"] = {name: value for name, value in namespace.items() if name[:2] != "__" and name != "f"}
    return seen


def _backward(result: Any) -> None:
    """Run the backward pass of every differentiable tensor in a result, so that gradients are compared as well."""
    leaves, _ = torch.utils._pytree.tree_flatten(result)
    roots = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.grad_fn is not None and not leaf.is_complex()]
    if roots:
        torch.autograd.backward([root.double().sum() for root in roots])


def _modes() -> dict[str, Any]:
    return {
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "autocast dtype": torch.get_autocast_dtype("cpu"),
        "default dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


def _restore(modes: dict[str, Any]) -> None:
    """A program that changes a mode for good is compared, then undone, so that the next run starts alike."""
    torch.set_grad_enabled(modes["grad"])
    torch.set_autocast_enabled("cpu", modes["autocast"])
    torch.set_default_dtype(modes["default dtype"])
    torch.use_deterministic_algorithms(modes["deterministic"])


def _ops(graph_module: torch.fx.GraphModule) -> str:
    """Operator names of a graph in order: `sin add` for `torch.sin(x) + y`."""
    names = []
    for node in graph_module.graph.nodes:
        if node.op == "call_function":
            names.append(node.target.__name__)
        elif node.op == "call_method":
            names.append(node.target)
        elif node.op == "call_module":
            names.append(type(graph_module.get_submodule(node.target)).__name__)
    return " ".join(names)


def _fit(expected: Sequence[str], actual: Sequence[str], equal: Callable[[str, str], bool]) -> bool:
    return len(expected) == len(actual) and all(map(equal, expected, actual))


def _same_ops(expected: str, actual: str) -> bool:
    words, names = expected.split(), actual.split()
    return len(words) == len(names) and all(name in word.split("|") for word, name in zip(words, names, strict=True))


def _same_breaks(expected: Sequence[str], actual: Sequence[str]) -> bool:
    if any(text.startswith("*:") for text in expected):
        return [_line(text) for text in expected] == list(dict.fromkeys(map(_line, actual)))
    return list(expected) == list(actual)


def _line(text: str) -> str:
    return text.partition(":")[2]


def _beside(title: str, expected: Sequence[str], actual: Sequence[str]) -> str:
    """Two columns, expected and actual, with a mark where they differ."""
    width = max([len("expected"), *map(len, expected)])
    lines = [f"{title}:", f"    {'expected':{width}} | actual"]
    for left, right in itertools.zip_longest(expected, actual, fillvalue=""):
        lines.append(f"  {' ' if left == right else '>'} {left:{width}} | {right}")
    return "\n".join(lines)
