"""Torch's own compiler as the one that is debugged, through its public interface: backends see graphs, `torch.compile` compiles them."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from dynamo.peer.script_adapter import AfterImport

_CONFIGS = ("torch._dynamo.config", "torch._inductor.config", "torch._functorch.config")
# Of instructions: those that are taken in place of the first, and what is told instead of trying them.
_WIDTH, _OK = "torch._inductor.config.cpp.simdlen", "torch._inductor.config.cpp.vec_isa_ok"
_FRAMES = "torch._dynamo.convert_frame"
_CAPABILITY = "ATEN_CPU_CAPABILITY"
_TAKEN = {"TORCHINDUCTOR_VEC_ISA_OK": "1"}
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')

Run = Callable[..., Any]
# (id, backend that was asked for, options of the call, graph, is it a backward graph) -> what runs in the place of the compiled graph
Take = Callable[[str, str | Run, dict[str, Any], Any, bool], Run]


def stand_between_when_torch_loads(take: Callable[[], Take], after: str, backend: str = "") -> None:
    """Hand every graph of `torch.compile` to a function instead of its backend, as soon as the program imports torch.

    `after` is `dynamo` (graphs as captured) or `aot` (ATen graphs, forward and backward). `backend` replaces the one it asks for.
    """
    if "torch" in sys.modules:
        stand_between(take(), after, backend)
    else:
        sys.meta_path.insert(0, AfterImport("torch", lambda: stand_between(take(), after, backend)))


def stand_between(take: Take, after: str, backend: str = "") -> None:
    """The same, now."""
    torch = sys.modules["torch"]
    original = torch.compile

    @functools.wraps(original)
    def watched(model: Any = None, **asked: Any) -> Any:
        if model is None:
            return functools.partial(watched, **asked)
        wanted = backend or asked.get("backend") or "inductor"
        asked.pop("backend", None)
        options = {k: asked.pop(k) for k in ("mode", "options") if asked.get(k) is not None}
        between = functools.partial(_captured if after == "dynamo" else _ahead_of_time, take, wanted, options)
        return original(model, backend=between, **asked)

    vars(torch)["compile"] = watched


def _captured(take: Take, wanted: str | Run, options: dict[str, Any], gm: Any, inputs: Sequence[Any]) -> Run:
    _note_sources(gm)
    return take(_graph_id(), wanted, options, gm, False)


def _ahead_of_time(take: Take, wanted: str | Run, options: dict[str, Any], gm: Any, inputs: Sequence[Any]) -> Run:
    graph_id = _graph_id()

    def one(is_backward: bool, gm: Any, inputs: Sequence[Any]) -> Run:
        _note_sources(gm)
        return take(graph_id, wanted, options, gm, is_backward)

    return _of("torch._dynamo.backends.common").aot_autograd(
        fw_compiler=functools.partial(one, False),
        bw_compiler=functools.partial(one, True),
        inference_compiler=functools.partial(one, False),
        decompositions=_of("torch._inductor.decomposition").select_decomp_table,
        partition_fn=_of("torch._functorch.partitioners").min_cut_rematerialization_partition,
    )(gm, inputs)


def _of(name: str) -> Any:
    """A module of torch's compiler, which is loaded when it is at work and not before."""
    return importlib.import_module(name)


def _graph_id() -> str:
    found = _of("torch._guards").CompileContext.current_compile_id()
    return "" if found is None else f"{found.frame_id}/{found.frame_compile_id}"


def _note_sources(gm: Any) -> None:
    """The user's line of a node, where our own graphs have it."""
    for node in gm.graph.nodes:
        places = _FRAME.findall(str(node.meta.get("stack_trace") or ""))
        if places and "source" not in node.meta:
            node.meta["source"] = (places[-1][0], int(places[-1][1]))


def compiled(module: Any, backend: str, options: dict[str, Any]) -> Run:
    """`torch.compile` of a module, with nothing left of what was compiled before. It compiles when it is first called."""
    torch = sys.modules["torch"]
    torch.compiler.reset()
    return inspect.unwrap(torch.compile)(module, backend=backend, dynamic=False, **options)


def warm(backend: str) -> None:
    """Load what compiling with a backend loads, and compile a small function as far as no C++ is needed: the first one takes longest."""
    if backend in ("", "inductor"):
        know_machine()
    else:
        _compile_small("eager" if backend == "eager" else "aot_eager")


def _compile_small(backend: str) -> None:
    torch = importlib.import_module("torch")
    inner: Callable[[Any], Any] = lambda x: x + 1  # noqa: E731  # a call inside loads what inlined calls need, the largest part
    torch.compile(lambda x: inner(x), backend=backend)(torch.ones(2))
    torch.compiler.reset()


def loaded_by(backend: str) -> list[str]:
    """Modules that compiling with a backend loads and that take longest."""
    return ["torch._dynamo", *(["torch._inductor.compile_fx"] if backend == "inductor" else [])]


def know_machine() -> None:
    """Have it find out which instructions there are, the kinds side by side: each takes it one or two runs of a C++ compiler.

    A small function is compiled meanwhile, as far as no C++ is needed.
    """
    _tried(_kinds())


def know_first_kind(kernel: Callable[[], object]) -> dict[str, str]:
    """The same for the instructions that it takes unless told otherwise, in a process that sets options by `set_options` alone.

    It tries a kind by building a call of a function that torch's library has for these instructions. `kernel` compiles and runs one, with
    headers that are compiled already: where that works with what is taken untried, nothing else is built for it, and variables are given
    that have other processes take it too. Otherwise all kinds are tried.
    """
    kinds, options = _kinds(), _of("torch._inductor.config").cpp
    if kinds and options.vec_isa_ok is None and _CAPABILITY not in os.environ:
        options.vec_isa_ok = True
        _tried(kinds)  # for what some have beyond the others
        if _is_vectorised(kernel):
            return dict(_TAKEN)
        options.vec_isa_ok = None
        _forget(kinds)
    _tried(kinds)
    with contextlib.suppress(Exception):  # for oracles to judge
        kernel()
    return {}


def _is_vectorised(kernel: Callable[[], object]) -> bool:
    """Whether it works, and was generated with instructions for many numbers at once."""
    metrics = _of("torch._inductor.metrics")
    before = metrics.generated_cpp_vec_kernel_count
    try:
        kernel()
    except Exception:  # noqa: BLE001  # whatever is raised, it does not work
        return False
    return bool(metrics.generated_cpp_vec_kernel_count > before)


def _forget(kinds: Sequence[Any]) -> None:
    """What is known of them."""
    _of("torch._inductor.cpu_vec_isa").valid_vec_isa_list.cache_clear()
    for method in {vars(base).get("__bool__") for kind in kinds for base in type(kind).__mro__}:
        clear = getattr(method, "cache_clear", None)
        if clear is not None:
            clear()


def _kinds() -> list[Any]:
    """Those that the processor has, in the order in which they are taken."""
    _of("torch._inductor.compile_fx")  # whole before there are threads, none of which is then the first to import anything
    module = _of("torch._inductor.cpu_vec_isa")
    known = module.x86_isa_checker()
    return [kind for kind in module.supported_vec_isa_list if all(flag in known for flag in str(kind).split())]


def _tried(kinds: Sequence[Any]) -> None:
    with ThreadPoolExecutor(max(1, len(kinds))) as pool:
        found = [pool.submit(copy_context().run, bool, kind) for kind in kinds]  # torch's options are of a context
        _compile_small("aot_eager")
    for run in found:
        run.result()


def is_of_another_kind(options: Iterable[str]) -> bool:
    """Whether options, by full name, have it take other instructions than the first."""
    return _WIDTH in options


def tell_failures(told: Callable[[BaseException], object]) -> None:
    """Have failures of its own and of backends told before the program gets them, which may catch them: breaks of a graph that is to be
    whole, and limits that the program has set, are none. It is loaded when the program loads it."""
    if _FRAMES in sys.modules:
        _tell_failures(told)
    else:
        sys.meta_path.insert(0, AfterImport(_FRAMES, lambda: _tell_failures(told)))


def _tell_failures(told: Callable[[BaseException], object]) -> None:
    errors, owner = _of("torch._dynamo.exc"), sys.modules[_FRAMES].CatchErrorsWrapper
    own = (errors.InternalTorchDynamoError, errors.BackendCompilerFailed, AssertionError)
    original = owner.__call__

    @functools.wraps(original)
    def compile_frame(*given: Any) -> Any:
        try:
            return original(*given)
        except own as error:
            told(error)
            raise

    owner.__call__ = compile_frame


def note_failures() -> None:
    """Have them kept in `failures`, each as one line."""

    def note(error: BaseException) -> None:
        failures.append(f"{type(error).__name__}: {error}".splitlines()[0])

    tell_failures(note)


failures: list[str] = []


def switch_off() -> None:
    """Have `torch.compile` do nothing, also where it is loaded already and has read its environment."""
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    config: Any = sys.modules.get("torch._dynamo.config")
    if config is not None:
        config.disable = True


def compile_every_call() -> None:
    """Have compiled code forgotten before each call of what `torch.compile` gave, so that no guard decides anything."""
    torch = sys.modules["torch"]
    original = torch.compile

    @functools.wraps(original)
    def fresh(model: Any = None, **asked: Any) -> Any:
        if model is None:
            return functools.partial(fresh, **asked)
        made = original(model, **asked)
        if isinstance(made, torch.nn.Module):
            made.register_forward_pre_hook(lambda *given: torch.compiler.reset())
            return made

        @functools.wraps(made)
        def call(*args: Any, **kwargs: Any) -> Any:
            torch.compiler.reset()
            return made(*args, **kwargs)

        return call

    vars(torch)["compile"] = fresh


# Parts of torch's compiler that can be left out one by one, as its own bisector does: (backend, part), in the order in which they run.
PARTS = (
    ("aot_eager_decomp_partition", "decomposition"),
    *(("inductor", part) for part in ("pre_grad_passes", "joint_graph_passes", "post_grad_passes", "lowerings")),
)


def leave_out(backend: str, part: str, most: int) -> None:
    """Let a part of `PARTS` do its first `most` steps and no more, in this process."""
    bisector = _of("torch._inductor.compiler_bisector")
    os.environ |= {"TORCH_BISECT_BACKEND": backend, "TORCH_BISECT_SUBSYSTEM": part, "TORCH_BISECT_MAX": str(most - 1)}
    bisector.get_env_val.cache_clear()
    bisector.CompilerBisector.bisection_enabled = True


def changed_options() -> dict[str, Any]:
    """Options of torch's compiler that do not have their default, by full name; those that JSON can hold."""
    found = {}
    for name in _CONFIGS:
        module: Any = sys.modules.get(name)
        for key, value in module._get_dict(skip_default=True).items() if module is not None else ():
            # what torch has patched for a while counts as set, though it has its default again
            if isinstance(value, (bool, int, float, str)) and value != module._config[key].default:
                found[f"{name}.{key}"] = value
    return found


def set_options(options: dict[str, Any]) -> None:
    """Set what `changed_options` found. Raises AttributeError for an option that the installed torch does not have."""

    for path, value in options.items():
        home = next((c for c in _CONFIGS if path.startswith(c + ".")), "")
        if not home:
            raise AttributeError(f"no option of torch's compiler: {path}")
        owner = _of(home)
        *inner, last = path.removeprefix(home + ".").split(".")
        for part in inner:
            owner = getattr(owner, part)
        setattr(owner, last, value)
    if is_of_another_kind(options):
        _of("torch._inductor.config").cpp.vec_isa_ok = options.get(_OK)
        _of("torch._inductor.cpu_vec_isa").valid_vec_isa_list.cache_clear()
