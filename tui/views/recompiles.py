"""Why functions were compiled again: one row per function and cause, with the values that changed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from dynamo.trace import events as ev
from dynamo.trace.model import Compile, Run, short
from tui.views import names, peer_says
from tui.views.page import Page

_SHOWN = 3  # values at the beginning of a long list
_FLAG = "True|False"
_NUMBER = r"-?\d[\w.+-]*|True|False|inf|nan"


@dataclass(frozen=True)
class Cause:
    """A kind of change: what a failed guard says of it (named groups `of`, `old`, `new`), how it is written, what to do."""

    kind: str
    pattern: re.Pattern[str]
    what: str
    fix: str


CAUSES = (
    Cause(
        "size",
        re.compile(
            r"(?:tensor )?'?(?P<of>.+?)'?:? size (?:mismatch )?at (?:dim|index) (?P<dim>\d+)[:.] "
            r"expected (?P<old>\S+?), (?:got|actual) (?P<new>\S+)"
        ),
        "{of}.size({dim})",
        "pad it to a few fixed sizes",
    ),
    Cause(
        "flag",
        re.compile(rf"(?P<of>[^()]+?): expected == (?P<old>{_FLAG}), got (?P<new>{_FLAG})$"),
        "{of}",
        "set it before the first call and keep it",
    ),
    Cause("number", re.compile(rf"(?P<of>.+?): expected == (?P<old>{_NUMBER}), got (?P<new>{_NUMBER})$"), "{of}", "make it a tensor"),
    Cause("number", re.compile(rf"(?P<of>L\[.+?) == (?P<old>{_NUMBER})(?P<new>)\s*(?:#.*)?$"), "{of}", "make it a tensor"),
    Cause(
        "value",
        re.compile(r"(?P<of>.+?): expected == (?P<old>.+?), got (?P<new>.+)$"),
        "{of}",
        "keep it fixed, or compile one function per value",
    ),
    Cause(
        "rank",
        re.compile(r"(?:tensor )?(?P<of>.+?): rank: expected (?P<old>\d+), got (?P<new>\d+)"),
        "{of}.dim()",
        "give it one number of dimensions",
    ),
    Cause(
        "dtype",
        re.compile(r"(?:tensor )?(?P<of>.+?): dtype: expected (?P<old>\S+?), got (?P<new>\S+)"),
        "{of}.dtype",
        "convert it to one dtype before the call",
    ),
    Cause(
        "layout",
        re.compile(r"(?:tensor )?(?P<of>.+?): (?:strides?|device|requires_grad)\b[^:]*: expected (?P<old>.+?), got (?P<new>.+)$"),
        "layout of {of}",
        "pass tensors of one layout, for example `.contiguous()`",
    ),
    Cause("length", re.compile(r"(?P<of>.+?): expected len == (?P<old>\d+), got (?P<new>\d+)"), "len({of})", "keep the length fixed"),
    Cause(
        "type",
        re.compile(r"___check_type_id\((?P<of>.+), \d+\), type=<class '(?P<old>[^']+)'>(?P<new>)"),
        "type of {of}",
        "pass one type",
    ),
    Cause(
        "object",
        re.compile(r"___check_obj_id\((?P<of>.+), \d+\)(?P<old>)(?P<new>)"),
        "{of}",
        "pass the same object, or compile one function per object",
    ),
    Cause("type", re.compile(r"(?P<of>.+?): expected type is (?P<old>.+?), got (?P<new>.+)$"), "type of {of}", "pass one type"),
    Cause(
        "global state",
        re.compile(r"global state(?: changed)?:? ?(?P<of>.*?):? ?expected (?P<old>.+?), got (?P<new>.+)$"),
        "{of}",
        "call it under one setting of grad mode, autocast and the like",
    ),
    Cause(
        "object",
        re.compile(r"(?P<of>.+?): expected (?:is )?(?P<old>.+?), got (?P<new>.+)$"),
        "{of}",
        "pass the same object, or compile one function per object",
    ),
    Cause("other", re.compile(r"(?P<of>.*?)(?P<old>)(?P<new>)$"), "{of}", ""),
)
_ENTRY = re.compile(r"^\d+/\d+: ")


@dataclass(frozen=True)
class Recompiles:
    """All recompiles of a run, by function and cause; `limits` are those that were reached, `frozen` calls that `run()` sent to eager."""

    count: int
    groups: tuple[Group, ...]
    limits: tuple[Limit, ...]
    frozen: tuple[str, ...]


@dataclass(frozen=True)
class Group:
    """Recompiles of one function with one cause. `count` is how many there were, `compiles` how often the function was compiled in all;
    `values` what the value was, in order; `parts` how many parts of the function after breaks followed suit. `beyond` says what calls
    past the limit do: "run in eager" or "raise", '' where it was not reached.
    """

    function: str
    file: str
    line: int
    cause: str
    what: str
    values: tuple[str, ...]
    count: int
    compiles: int
    parts: int
    fix: str
    limit: int
    peer: str
    ids: tuple[str, ...]
    beyond: str

    @property
    def at(self) -> str:
        return f"{short(self.file)}:{self.line}" if self.file else ""

    @property
    def changing(self) -> str:
        """`k = 0, 1, 2, ... 7`."""
        if not self.values:
            return self.what
        if len(self.values) <= _SHOWN + 3:
            return f"{self.what} = {', '.join(self.values)}"
        return f"{self.what} = {', '.join(self.values[:_SHOWN])}, ... {self.values[-1]}"


@dataclass(frozen=True)
class Limit:
    """A function that reached its limit: from then on calls that fit no entry run in eager, or raise under fullgraph."""

    function: str
    limit: int
    reason: str


@dataclass(frozen=True)
class _Change:
    """One failed guard, read."""

    kind: str
    what: str
    root: str
    old: str
    new: str
    fix: str


@dataclass
class _Gathered:
    """A group while it grows."""

    function: names.Function
    recompiles: list[ev.Recompiled] = field(default_factory=list)
    changes: list[_Change] = field(default_factory=list)


def view(run: Run) -> Recompiles:
    limits = tuple(_limit(run, x) for x in run.limits)
    frozen = tuple(f"{m.frame}: {names.value(m.reason)}" for m in run.frozen)
    return Recompiles(len(run.recompiles), _merged(_groups(run)), limits, frozen)


def _groups(run: Run) -> list[tuple[names.Function, Group]]:
    found: dict[tuple[str, str, str], _Gathered] = {}
    for r in run.recompiles:
        item = run.compiles[r.compile_id]
        change = read(r.reason, item)
        frame = r.compile_id.split("/")[0]
        aspect = "" if change.kind in ("number", "flag", "value") else f"{change.kind} {change.what}"
        group = found.setdefault((frame, change.root, aspect), _Gathered(names.function_of(run, item)))
        group.recompiles.append(r)
        group.changes += [read(line, item) for line in dict.fromkeys((r.reason, *r.failures))]
    for x in run.limits:
        _add_last(run, found, x)
    return [(gathered.function, _group(run, gathered)) for gathered in found.values()]


def _add_last(run: Run, found: dict[tuple[str, str, str], _Gathered], x: ev.LimitHit) -> None:
    """The value that met the limit belongs to the same row."""
    change = read(x.reason)
    for (_, root, _), gathered in found.items():
        if root == change.root and x.frame.startswith(gathered.recompiles[-1].frame):
            gathered.changes.append(change)


def read(reason: str, item: Compile | None = None) -> _Change:
    """What changed, of one line of a record; torch's own engine puts a stack behind it."""
    text = _ENTRY.sub("", reason.partition("\n")[0]).removeprefix("tensor ")
    for cause in CAUSES:
        m = cause.pattern.match(text)
        if m:
            groups = {k: v or "" for k, v in m.groupdict().items()}
            groups["of"] = names.value(m["of"], item)
            return _Change(cause.kind, cause.what.format(**groups), names.root(m["of"]), groups["old"], groups["new"], cause.fix)
    raise AssertionError(reason)  # the last row matches everything


def _group(run: Run, gathered: _Gathered) -> Group:
    last = gathered.recompiles[-1]
    main = _most_telling(gathered.changes)
    same = [c for c in gathered.changes if c.what == main.what]
    frame = run.frame_of(last.compile_id)
    hit = next((x for x in run.limits if x.frame.startswith(f"{last.frame} (")), None)
    limit, beyond = (hit.limit, "raise" if hit.raises else "run in eager") if hit is not None else (0, "")
    place = next(((r.file, r.line) for r in gathered.recompiles if r.file), (frame.file, frame.line))
    ids = tuple(r.compile_id for r in gathered.recompiles)
    peer = peer_says.RECOMPILES.get(main.kind, "") if run.engine == "dynamo" else ""
    counts = (len(ids), len(frame.compiles), 0)
    what = names.by_parameter(main.what, run, gathered.function)
    return Group(gathered.function.title, *place, main.kind, what, _values(same), *counts, main.fix, limit, peer, ids, beyond)


def _most_telling(changes: list[_Change]) -> _Change:
    """A value itself says more than what is computed of it; otherwise what changed most."""
    first = changes[0]
    same = [c for c in changes if c.root == first.root]
    plain = names.value(first.root)
    counts = {c.what: len(_values([d for d in same if d.what == c.what])) for c in same}
    return max(same, key=lambda c: (counts[c.what] > 2 and c.what == plain, counts[c.what]))


def _values(changes: Iterable[_Change]) -> tuple[str, ...]:
    """Old and new values in the order they came up, each once."""
    changes = list(changes)
    found = dict.fromkeys([*(c.old for c in changes[:1]), *(c.new for c in changes)])
    return tuple(v for v in found if v)


def _merged(groups: list[tuple[names.Function, Group]]) -> tuple[Group, ...]:
    """Parts of a function after its breaks follow what happens to its beginning: they are counted there, as is what other processes did.
    Functions of one name, as lambdas are, are told apart by where they are."""
    out: dict[tuple[object, ...], Group] = {}
    for function, group in groups:
        whole = function.name, function.file, function.line
        key = (*whole, group.cause, group.values) if group.values else (*whole, function.resumes, group.cause, group.what)
        first = out.get(key)
        if first is None:
            out[key] = group
        else:
            more = {"parts": first.parts + 1} if function.resumes else {"compiles": first.compiles + group.compiles}
            facts = {**vars(first), "count": first.count + group.count, "ids": first.ids + group.ids, **more}
            out[key] = Group(**facts)
    return tuple(out.values())


def _limit(run: Run, x: ev.LimitHit) -> Limit:
    name, _, _ = x.frame.partition(" (")
    frame = next((f for f in run.frames if f.name == name), None)
    return Limit(names.function_of(run, frame).title if frame is not None else name, x.limit, names.value(_ENTRY.sub("", x.reason)))


def short_lines(group: Group, page: Page) -> list[str]:
    parts = f" (and {group.parts} part{'s' * (group.parts != 1)} of it after breaks)" if group.parts else ""
    text = f"{group.function}: {group.compiles} compiles{parts}, {group.changing}"
    text += (f": {group.fix}" if group.fix else "") + (f"  ({group.at})" if group.at else "")
    out = Page(page.width - 2, full=page.full).wrap(text, most=2)
    if out[0].startswith(group.function):
        out[0] = page.paint(group.function, "yellow") + out[0].removeprefix(group.function)
    if group.limit:
        out.append(page.clip(f"  the limit of {group.limit} was reached: later calls that fit no entry {group.beyond}", 2))
    if group.peer:
        out.append(page.clip(f"  torch.compile {group.peer}", 2))
    return out


def lines(found: Recompiles, page: Page) -> list[str]:
    """Every group, with the compiles it consists of."""
    out = [page.paint(f"{found.count} recompile{'s' * (found.count != 1)}" if found.count else "no recompiles", "bold")]
    for group in found.groups:
        out += ["", *short_lines(group, page)]
        out += page.wrap(f"all values: {', '.join(group.values)}", "  ") if len(group.values) > _SHOWN + 3 else []
        out += page.wrap(f"compiles: {' '.join(group.ids)}", "  ")
    for limit in found.limits:
        out += ["", *page.wrap(f"{limit.function}: limit {limit.limit} reached, last change: {limit.reason}")]
    out += [page.clip(f"{miss}: frozen, ran without a compile") for miss in found.frozen]
    return out
