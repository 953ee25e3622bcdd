"""Typed events of the compile record.

An event is a frozen dataclass; `kind` (the class name in snake case) is its tag in `events.jsonl`. Fields hold JSON values
only: str, int, float, bool, None, and tuples or dicts of them. Long texts (graph code, generated code) are ordinary str
fields here; the writer moves them to content-addressed artifacts and the reader puts them back.
A field added later needs a default, so that old records still load. `SCHEMA` changes only when a field changes meaning.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field
from typing import Any, ClassVar, TypeVar, dataclass_transform

SCHEMA = 1

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def _row(cls: type[T]) -> type[T]:
    """A frozen dataclass whose methods are those of `_Row`: ones of its own, made from text, would be a tenth of what importing costs."""
    cls.__init__ = _Row.__init__  # type: ignore[method-assign, assignment]  # a class above may have its own by now
    return dataclass(init=False, eq=False, repr=False)(cls)


class _Row:
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init__(self, *values: object, **named: object) -> None:
        """Makes the class its own, which Python checks and binds faster: a process makes objects of a few classes, but of those many."""
        _give_init(type(self))
        type(self).__init__(self, *values, **named)

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def _values(self) -> list[object]:
        return [getattr(self, name) for name in self.__dataclass_fields__]

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if type(self) is type(other) and isinstance(other, _Row) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self._values()))

    def __repr__(self) -> str:
        shown = zip(self.__dataclass_fields__, self._values(), strict=True)
        return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in shown)})"


def _give_init(cls: type[_Row]) -> None:
    fields = sorted(cls.__dataclass_fields__.values(), key=lambda f: f.kw_only is True)
    defaults = {f"_{f.name}": f.default for f in fields if f.default is not MISSING}
    parameters = [f"{f.name}=_{f.name}" if f"_{f.name}" in defaults else f.name for f in fields]
    if named := sum(f.kw_only is True for f in fields):
        parameters.insert(len(fields) - named, "*")
    names: dict[str, Any] = {}
    own = ", ".join(f"{name!r}: {name}" for name in cls.__dataclass_fields__)
    exec(f"def __init__(self, {', '.join(parameters)}):\n self.__dict__.update({{{own}}})", defaults, names)
    names["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    cls.__init__ = names["__init__"]  # type: ignore[method-assign]  # the same parameters, by name


@_row
class Event(_Row):
    """Base of all events. `t` is seconds since the run began; the store fills it in when it is negative."""

    t: float = field(default=-1.0, kw_only=True)


@_row
class RunStarted(Event):
    """The first event of a run. `argv` begins with the script as it was named; `versions` by distribution, `python` among them;
    `module` is what followed `-m`."""

    argv: tuple[str, ...]
    cwd: str
    versions: dict[str, str]
    engine: str = "dynamo"
    module: str = ""


@_row
class RunEnded(Event):
    """exit: 0 ok, otherwise the script's own code; error: its last exception as one line, or '', raised at `file` and `line`."""

    exit: int
    error: str = ""
    file: str = ""
    line: int = 0


@_row
class ProcessStarted(Event):
    """A process that the script started, directly or not, has something to tell. rank: -1 without one.

    `key` is what its compile ids begin with in the record of the run, for example `r1.` or `p4711.`.
    """

    pid: int
    rank: int = -1
    argv: tuple[str, ...] = ()
    key: str = ""


@_row
class CompileStarted(Event):
    """`compile_id` reads `frame/recompile`, for example `2/1`. `parent` is the compile whose break led here ('' for a root).

    The rest of a function begins at line `resumes`; `stack` has the user's expression for each item of the stack it gets ('' unknown).
    """

    compile_id: str
    name: str
    file: str
    line: int
    parent: str = ""
    is_resume: bool = False
    resumes: int = 0
    stack: tuple[str, ...] = ()


@_row
class CompileEnded(Event):
    """outcome: ok (one graph, returns), break (ends in a graph break), empty (no tensor ops), skipped, error.

    After a break `detail` says at what, `id`, `file` and `line` why and where: also where the program raised, which is no graph break,
    and where `fullgraph=True` refused one, which is an error.
    """

    compile_id: str
    outcome: str
    detail: str = ""
    id: str = ""
    file: str = ""
    line: int = 0


@_row
class StageTimed(Event):
    """`start` and `seconds` of one stage of one compile; nested stages overlap their parents."""

    compile_id: str
    stage: str
    start: float
    seconds: float


@_row
class GraphNode(_Row):
    """One FX node. `file`/`line` is the user line it came from; `stack` the inlined call chain, outermost first, as `file:line name`.

    `inputs` are the names of the nodes it uses, in order. ATen nodes also have `phase` (input, forward, backward, tangent, write), the
    layout of their value, and for a constant its `value` as Python text (see `dynamo.trace.constants`).
    """

    name: str
    op: str
    target: str
    text: str
    shape: str
    file: str
    line: int
    stack: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    phase: str = ""
    dtype: str = ""
    size: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    device: str = ""
    value: str = ""


@_row
class GraphCaptured(Event):
    """`graph_id` is the compile id plus nothing else for dynamo's graphs; later stages add `.aot`, `.fw`, `.bw`, `.fw.passes`."""

    graph_id: str
    compile_id: str
    stage: str
    ops: int
    code: str
    nodes: tuple[GraphNode, ...]


@_row
class CodeGenerated(Event):
    """A text that a stage made: residual Python (`codegen`), loop IR (`lower`, `schedule`), kernels (`kernels`), the build command.

    `graph_id` is the graph it was made of, '' for the frame itself.
    """

    compile_id: str
    stage: str
    name: str
    language: str
    code: str
    graph_id: str = ""


@_row
class GraphLowered(Event):
    """How the ATen operators of one graph become code: operator -> native, decomposed, view or extern (the least of its nodes)."""

    compile_id: str
    graph_id: str
    how: dict[str, str]


@_row
class CacheLooked(Event):
    """The cache on disk was asked for a graph. outcome: hit, miss or bypass (not asked); `reason` says why it was not a hit.

    After a hit, texts and decisions of the compile are those of the run that made the entry.
    """

    compile_id: str
    outcome: str
    key: str
    reason: str = ""


@_row
class GuardInstalled(Event):
    """`source` as Python text over the inputs (`L['x'].shape`), `check` in words (`size (3, 4)`), and the user line that read the value.

    `ns` is the mean time of one check in nanoseconds; -1.0 where it was not measured (option `guard_times`).
    """

    compile_id: str
    guard_id: int
    source: str
    check: str
    file: str
    line: int
    ns: float = -1.0


@_row
class GraphBroke(Event):
    """A graph break. `id` is the stable id (a row of dynamo/breaks.py); `stack` user frames, outermost first, `file:line name`."""

    compile_id: str
    id: str
    file: str
    line: int
    col: int
    end_line: int
    end_col: int
    reason: str
    explanation: str
    hint: str
    stack: tuple[str, ...] = ()


@_row
class Change(_Row):
    """One fact that a compiled entry relies on and a call had otherwise.

    `kind` is a row of dynamo/guards/kinds.py, or `gone`: the object itself has died, and its entry with it. `aspect` says which fact of the
    kind: of a tensor `dtype`, `size`, `stride`, `rank`, `requires_grad`, of the global state the name of the mode, else ''; `dim` goes with
    sizes and strides, else it is -1. `at` is the place of the value as a user writes it (`self.step`, `STEP`, `group['rate']`), and `root`
    where it begins: `argument`, `closure`, `global`, `object` or `mode`. `file` and `line` are the user line that read it.
    """

    guard_id: int
    kind: str
    aspect: str
    dim: int
    source: str
    at: str
    root: str
    expected: str
    seen: str
    file: str
    line: int


@_row
class Recompiled(Event):
    """A call that fitted no entry of an already compiled code. `failures` has one line per existing entry.

    `changes` is all that keeps the call from the entry it is nearest to, while somebody looks. `caller` and `caller_line` are the user line
    that made the call.
    """

    compile_id: str
    frame: str
    reason: str
    failures: tuple[str, ...] = ()
    guard_id: int = -1
    source: str = ""
    file: str = ""
    line: int = 0
    changes: tuple[Change, ...] = ()
    caller: str = ""
    caller_line: int = 0


@_row
class LimitHit(Event):
    """`recompile_limit` was reached: a call that fits no entry runs in eager now, or `raises` (under fullgraph)."""

    frame: str
    limit: int
    reason: str
    raises: bool = False


@_row
class FrameSkipped(Event):
    """A frame that is not captured at all, and why (a row id of dynamo/breaks.py)."""

    name: str
    file: str
    line: int
    id: str
    reason: str


@_row
class FrozenMiss(Event):
    """run(): a call that fitted no entry and went to eager."""

    frame: str
    reason: str


@_row
class Decided(Event):
    """One fuel-counted decision (`dynamo.decisions.decide`), or with number 0 a step that was refused before fuel was asked.

    `reason` says why; `graph_id` is the graph it was taken in.
    """

    compile_id: str
    number: int
    stage: str
    what: str
    taken: bool
    reason: str = ""
    graph_id: str = ""


@_row
class StepScheduled(Event):
    """One step of the program a graph became: a fused `kernel` or an `extern` call of an ATen operator.

    `ops` are the operators in it, `reads` and `writes` its buffers, `lines` the user lines as `file:line`.
    """

    compile_id: str
    graph_id: str
    name: str
    what: str
    ops: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    lines: tuple[str, ...] = ()


@_row
class KernelLoaded(Event):
    """A kernel of a graph was loaded onto a GPU, or for a capability (90 for 9.0) of one. `name` is that of its step.

    `registers` of each thread, `spills` bytes of each thread, `shared` bytes of each block; `programs`: blocks of its grid; `occupancy`:
    the share of a processor's threads that its blocks fill. `microseconds` of one launch and `copy`, bytes that a plain copy moves
    in a microsecond there, are 0.0 where nothing was measured (option `kernel_times`).
    """

    compile_id: str
    graph_id: str
    name: str
    function: str
    device: str
    capability: int
    registers: int
    spills: int
    shared: int
    threads: int
    programs: int
    occupancy: float
    microseconds: float = 0.0
    copy: float = 0.0


@_row
class Note(Event):
    """A warning or remark the user saw, with its stable id."""

    id: str
    message: str
    level: str = "warning"


@_row
class InternalError(Event):
    """A failure of the compiler's own: `error` is the type of the exception, `raised_at` its place in the code (`file:line function`),
    `where` what of the program was being compiled or run, which went on in eager."""

    id: str
    error: str
    message: str
    raised_at: str
    where: str
    compile_id: str = ""


@_row
class MemoryFault(Event):
    """An access of a kernel that memory does not allow, found by the backend `sanitizer`.

    `found`: out of bounds, race, never written, left out, out of place, index. `form`: in the kernel's `loops`, or in its text (`triton`).
    `index` is the element of the buffer, which has `size`; `place` says in which iterations or programs, `lines` are user lines.
    """

    compile_id: str
    graph_id: str
    found: str
    form: str
    kernel: str
    buffer: str
    access: str
    index: int
    size: int
    place: str
    lines: tuple[str, ...] = ()


@_row
class SourceRead(Event):
    """Text of a source file that other events point into, as it was when the run read it."""

    file: str
    text: str
