"""The tables: points of the compiler where faults can be planted, and the faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Point:
    """A place in the compiler that lets a value pass through planted faults. `describe` makes a Subject of what the place is about."""

    name: str
    doc: str
    describe: str


@dataclass(frozen=True)
class Fault:
    """`acts`: what is done at which points. `where`: conditions and options unless others are given. `kind`: the class of defect.

    With `decides`, acting is a decision of its own; else the compiler's own decision beside it is the culprit. `stage` is a row of
    `dynamo/trace/stages.py`, or `run`.
    """

    name: str
    stage: str
    kind: str
    doc: str
    acts: Mapping[str, str] = field(default_factory=dict)
    where: tuple[str, ...] = ("op=sin",)
    decides: bool = True


_OURS, _THEIRS = "dynamo.faults.subjects", "inductor.faults.subjects"

POINTS: dict[str, Point] = {
    p.name: p
    for p in (
        Point("capture", "the function that a node of the captured graph calls", f"{_OURS}:of_call"),
        Point("shape", "the function that is run on fakes, to know what a node gives", f"{_OURS}:of_call"),
        Point("guard", "whether a fact about the inputs is guarded", f"{_OURS}:of_guard"),
        Point("trace", "the operator that a node of the ATen graph calls", f"{_OURS}:of_call"),
        Point("rewrite", "the rewrites that look at a node", f"{_OURS}:of_node"),
        Point("lower", "how a node is lowered, where not as its row says", f"{_OURS}:of_node"),
        Point("inline", "the expression that stands for a value read", f"{_THEIRS}:of_inlined"),
        Point("group", "a loop nest that is to be scheduled", f"{_THEIRS}:of_nest"),
        Point("local", "whether a value passed inside a kernel stays within one iteration", f"{_THEIRS}:of_nest"),
        Point("fuse", "the group that two groups become", f"{_THEIRS}:of_groups"),
        Point("overwrite", "whether a value is dead where a result is written over it", f"{_THEIRS}:of_kernel"),
        Point("check", "the check of the finished schedule", f"{_THEIRS}:of_plan"),
        Point("print", "the template of the C text of an operation", f"{_THEIRS}:of_expression"),
        Point("build", "the C source that is built", f"{_THEIRS}:of_source"),
    )
}

_CRASHES = {
    "error": ("compile error", "raises FaultError"),
    "internal": ("crash", "fails a check of the compiler's own"),
    "segfault": ("segfault", "reads address 0"),
    "abort": ("abort", "ends by SIGABRT"),
    "exit": ("exit", "ends the process with exit code 7"),
    "hang": ("hang", "never comes back"),
    "orphans": ("hang with grandchildren", "never comes back, and leaves processes behind"),
    "memory": ("out of memory", "fills the memory"),
}
# beginning of the name, stage, point
_PLACES = (
    ("capture", "capture", "capture"),
    ("guards", "guards", "guard"),
    ("aot", "aot", "trace"),
    ("passes", "passes", "rewrite"),
    ("lower", "lower", "lower"),
    ("schedule", "schedule", "group"),
    ("fusion", "schedule", "fuse"),
    ("kernels", "kernels", "print"),
    ("build", "build", "build"),
)
_ACT = {"exit": "leave"}


def _crashes() -> list[Fault]:
    """Every bad end at every stage, and while compiled code runs."""
    rows = []
    for name, (kind, doc) in _CRASHES.items():
        for place, stage, point in _PLACES:
            act = {point: f"dynamo.faults.crashes:{_ACT.get(name, name)}"}
            where = ("op=tensor",) if point == "guard" else ("op=sin",)
            rows.append(Fault(f"{place}-{name}", stage, kind, f"{doc} at the point `{point}`", act, where))
        running = {"lower": "inductor.faults.running:crash"}
        rows.append(Fault(f"run-{name}", "run", kind, f"{doc} in compiled code", running, ("op=sin", f"end={_ACT.get(name, name)}")))
    return rows


_WRONGS = (
    Fault("unsupported", "capture", "unsupported construct", "the tracer can't capture it", {"shape": "dynamo.faults.wrongs:unsupported"}),
    Fault(
        "wrong-capture",
        "capture",
        "wrong capture",
        "the function `as` is captured instead",
        {"capture": "dynamo.faults.wrongs:other_function"},
        ("op=sub", "as=add"),
    ),
    Fault("stale-guard", "guards", "stale guard", "the fact is not guarded", {"guard": "dynamo.faults.wrongs:no"}, ("op=eq",)),
    Fault(
        "wrong-operator",
        "aot",
        "wrong gradient",
        "the ATen operator `as` is traced instead",
        {"trace": "dynamo.faults.wrongs:other_operator"},
        ("op=cos", "as=sin", "backward=1"),
    ),
    Fault(
        "dropped-mask",
        "passes",
        "dropped mask",
        "`where(c, a, b)` is replaced by `a`",
        {"rewrite": "inductor.faults.rewrites:drop_mask"},
        ("op=where",),
        decides=False,
    ),
    Fault(
        "wrong-rewrite",
        "passes",
        "wrong rewrite",
        "the operator is replaced by its first operand",
        {"rewrite": "inductor.faults.rewrites:drop_operator"},
        ("op=abs",),
        decides=False,
    ),
    Fault(
        "wrong-lowering",
        "lower",
        "wrong lowering",
        "the operator is lowered as `as`",
        {"lower": "inductor.faults.lowerings:other"},
        ("op=sin", "as=cos"),
    ),
    Fault("nan", "lower", "NaN", "values above 0.5 become NaN", {"lower": "inductor.faults.lowerings:nan"}),
    Fault("truncated", "lower", "dtype truncation", "the result passes through int16", {"lower": "inductor.faults.lowerings:truncated"}),
    Fault("scaled", "lower", "wrong constant", "the result is a hundredth too large", {"lower": "inductor.faults.lowerings:scaled"}),
    Fault(
        "ignored-strides",
        "lower",
        "stride-dependent",
        "a strided operand is read as if it were contiguous",
        {"lower": "inductor.faults.lowerings:contiguous"},
        ("op=sin", "strided=1"),
    ),
    Fault(
        "bad-inline",
        "schedule",
        "wrong inlining",
        "an inlined value misses its last operation",
        {"inline": "inductor.faults.schedules:without_last"},
        decides=False,
    ),
    Fault(
        "bad-fusion",
        "schedule",
        "bad fusion order",
        "a value is read in the kernel before it is complete",
        {"local": "dynamo.faults.wrongs:yes", "check": "inductor.faults.schedules:blind"},
        decides=False,
    ),
    Fault(
        "alias-clobber",
        "schedule",
        "alias clobber",
        "a result is written over a value that is still read",
        {"overwrite": "dynamo.faults.wrongs:yes", "check": "inductor.faults.schedules:blind"},
        ("op=",),
        decides=False,
    ),
    Fault(
        "wrong-text",
        "kernels",
        "wrong codegen",
        "the operation is printed as `as`",
        {"print": "inductor.faults.prints:other"},
        ("op=sub", "as=add"),
    ),
    Fault("lost-bits", "kernels", "dtype truncation", "the printed value is an integer", {"print": "inductor.faults.prints:integer"}),
    Fault("bad-text", "kernels", "compile error", "what is printed is no C", {"print": "inductor.faults.prints:broken"}),
    Fault(
        "second-call",
        "run",
        "second-call-only",
        "from the second call on the result of the first is given",
        {"lower": "inductor.faults.running:remember"},
    ),
    Fault("extra-draw", "run", "RNG skew", "a random number more is drawn", {"lower": "inductor.faults.running:draw"}, ("op=bernoulli",)),
)

FAULTS: dict[str, Fault] = {f.name: f for f in (*_crashes(), *_WRONGS)}
