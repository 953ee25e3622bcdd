"""`minify`: from a script to a repro that was seen to fail, as a list of steps."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dynamo.trace.model import plural
from minifier import ahead, culprits
from minifier.beside import copy_data, naming
from minifier.delivery import HANGING, Draft, Write, bounds_for, deliver
from minifier.doors import close
from minifier.engine import Candidate, Kind, Listener, Result, Signature, Status, Transport, Verdict
from minifier.graph.ir import Graph
from minifier.graph.oracle import Setting, known
from minifier.graph.reduce import Plan, reduce_graph
from minifier.graph.repro import first_lines, write_repro
from minifier.isolation import Limits, LocalTransport
from minifier.isolation.leftover import end_with_this_process
from minifier.ladder import Ended, Found, Ladder, Patience, Posed, ScriptFailed, recorded_run, run_compiled
from minifier.ladder.rungs import LAST
from minifier.places import REPRO, SHOWN, SOURCE
from minifier.programs import program
from minifier.recordings import VALUES, WITHOUT, Recorded
from minifier.scripts import ScriptSetting, reduce_source, reduce_under_command, spec_for
from minifier.scripts.repro import write_script
from minifier.scripts.shown import Shown
from minifier.source.state import Source
from minifier.verify import OF_FORKS, RUNS, Rate, environment
from minifier.warmed import Early, Warmed

__all__ = ["NoSuchGraph", "Plan", "Report", "ScriptFailed", "Undiscerning", "Wish", "minify"]

REPRODUCED, FLAKY, NOTHING, NOT_REPRODUCED = "reproduced", "flaky", "nothing fails", "not reproduced"
UNREAD = "not looked at"  # no graph fails, and one could not be looked at
STAGE_OF_SCRIPT = "script"  # the whole script fails, and no graph of it does alone
STAGE_OF_COMMAND = "oracle"
# Backends that stop short of code generation: a script that fails under one of them fails at that stage.
SHORTER = (("aot", "aot_eager"),)
STARTING, WATCHED = 10.0, 20.0  # seconds that a new interpreter may take, and that a repro which never ends is watched at least
SURE = 3  # tries at graphs before the script is taken for what fails
MORE = 4  # runs of a compiled script that failed once: of failures that come three times in ten, one in 400 passes for a steady one
UNSEEN = ": only Python programs that it starts are looked into, and standard input is empty unless it is a file (`< FILE`)"
KEYS = (
    "status",
    "stage",
    "graph",
    "repro",
    "bundle",
    "op_nodes",
    "inputs",
    "oracle_calls",
    "distinct_calls",
    "seconds",
    "signature",
    "reproduction_rate",
    "one_minimal",
    "other_failures",
)


class NoSuchGraph(ValueError):
    """The script has no graph of that name; `names` are those it has."""

    def __init__(self, wanted: str, names: list[str]) -> None:
        super().__init__(wanted)
        self.wanted, self.names = wanted, names


class Undiscerning(ValueError):
    """A command calls an empty script interesting too."""


@dataclass
class Wish:
    """What the user asks for.

    `script` is a file, or `-m` with the name of a module as first of `args`. `after` is `auto` (the ladder), `capture`, `dynamo` or `aot`;
    `engine` `dynamo` (this project's compiler) or `torch`. `backend` '' keeps the script's; `graph` picks one by its id, `3/1` or `3/1.bw`.
    `oracle` is a command that judges scripts. Files go below `folder`. Raises NoSuchModule.
    """

    script: str
    args: tuple[str, ...] = ()
    after: str = "auto"
    backend: str = ""
    accuracy: bool = False
    graph: str = ""
    folder: Path = Path("minified")
    plan: Plan = field(default_factory=lambda: Plan(Path("minified")))
    engine: str = "dynamo"
    oracle: tuple[str, ...] = ()
    pytest: bool = False

    def __post_init__(self) -> None:
        self.program = program(self.script, self.args)


@dataclass(frozen=True)
class Report:
    """What came of it. `status`: reproduced, flaky, nothing fails, not looked at, not reproduced.

    `stage` is the rung of the ladder: capture, aot, codegen, or `backend` for one of the user's. `culprit` is the part of torch's compiler
    that fails, '' for ours (`bisect` names its decisions). `problems` are graphs that could not be
    looked at, `tried` says what was done where nothing could be handed over.
    """

    status: str
    stage: str = ""
    culprit: str = ""
    graph: str | None = None
    repro: str = ""
    bundle: str = ""
    op_nodes: int = 0
    inputs: int = 0
    oracle_calls: int = 0
    distinct_calls: int = 0
    seconds: float = 0.0
    signature: dict[str, Any] | None = None
    reproduction_rate: float = 0.0
    one_minimal: bool = False
    other_failures: tuple[str, ...] = ()
    shown: str = ""
    problems: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()
    is_interrupted: bool = False

    def to_json(self) -> dict[str, Any]:
        """What `minify --json` prints."""
        return {key: getattr(self, key) for key in KEYS}


Tell = Callable[[str], None]


def minify(wish: Wish, tell: Tell, listener: Listener, ready: LocalTransport | None = None) -> Report:
    """Find what fails first, reduce it, write the repro and run that. Graphs are asked for in what `ahead.started` gave.

    A repro is handed over only if it fails in new interpreters as the reduction says. Raises ScriptFailed, NoSuchGraph, Undiscerning,
    SourceError, IsolationError, JournalError.
    """
    close()
    end_with_this_process()
    if wish.oracle:
        return _under_command(wish, tell, listener)
    level = ahead.level(wish.after)
    patience = Patience(_longest(wish), wish.script, wish.args, wish.engine, tell)
    with contextlib.closing(_ladder(wish, level, tell)) as ladder:
        ladder.transport = ready or ahead.started(
            wish.program, wish.after, wish.engine, wish.backend, wish.accuracy, wish.folder, wish.plan.jobs, wish.plan.limits
        )
        return _followed(wish, level, ladder, patience, listener)


def _followed(wish: Wish, level: str, ladder: Ladder, patience: Patience, listener: Listener) -> Report:
    """What the script fails with, from a run of it with its graphs in eager on."""
    ended, graphs = _record(wish, level, patience)
    patience.tell(f"{plural(len(graphs), 'graph')} recorded" + ("" if graphs else UNSEEN))
    programs = () if wish.graph else patience.programs(ended)
    if programs:
        return Report(UNREAD, problems=programs)
    is_asked = not ended.is_well and not wish.graph and (wish.after in ("auto", "capture") or not graphs)
    if is_asked and not _ends_so_itself(ended, graphs, patience):
        ladder.close()  # most likely it has nothing to do
        report = _capture_failure(wish, ended, graphs, patience, listener)
        if report is not None and report.status == NOT_REPRODUCED:  # the run may have met with an accident, which hid its graphs
            again, graphs = _record(wish, level, patience)
            report = None if again.is_well and graphs else report
        if report is not None:
            return report
    named = [g for g in graphs if g.answers_to(wish.graph)]
    if wish.graph and not named:
        raise NoSuchGraph(wish.graph, [g.name for g in graphs])
    if wish.after == "capture":
        return Report(NOTHING, tried=(f"the script with its graphs in eager: exit code {ended.code}",))
    return _graph_failure(wish, level, named, ladder, patience, listener)


def _record(wish: Wish, level: str, patience: Patience) -> tuple[Ended, list[Recorded]]:
    place = wish.folder / f"recorded-{level}"
    shutil.rmtree(place, ignore_errors=True)
    return recorded_run(place, wish.script, wish.args, wish.engine, level, wish.backend, patience.longest, patience.limit)


def _longest(wish: Wish) -> float:
    """Seconds that one run of the script may take at most; one that takes longer counts as a failure, as it may never end."""
    return max((wish.plan.limits or Limits()).timeout, wish.plan.seconds or 0.0)


UNHEEDED = (
    "capture fails in a process that the script starts and whose end it does not heed: {}; "
    "have the script end with the exit code of that process, or make what that runs a script of its own"
)
_ITSELF = "the script ends with {} without a compiler too; its graphs are looked at, each alone"


def _ends_so_itself(ended: Ended, graphs: list[Recorded], patience: Patience) -> bool:
    """Whether the script, which raised nothing, ends with the same code without a compiler."""
    if ended.error or ended.internal or ended.code <= 0 or not graphs or patience.eager().code != ended.code:
        return False
    patience.tell(_ITSELF.format(ended.code))
    return True


def _capture_failure(wish: Wish, ended: Ended, graphs: list[Recorded], patience: Patience, listener: Listener) -> Report | None:
    """The script fails with its graphs in eager. If it works without a compiler, that is a failure of capture; None: it is the script's."""
    setting = _setting(wish, "eager")
    with contextlib.closing(_asking(wish, setting)) as transport:
        whole = Candidate("script", wish.program.text().encode())
        if ended.timed_out or transport.submit(whole).result().verdict is not Verdict.INTERESTING:  # that includes a run in eager
            eager = patience.eager()
            if eager.code:
                if graphs:
                    patience.tell(_ITSELF.format(eager.code))
                    return None
                raise ScriptFailed(eager.error or eager.said[-2000:] or f"the script ended with {eager.code}")
            if ended.is_elsewhere and ended.code == 0:
                return Report(UNREAD, problems=(UNHEEDED.format("; ".join(ended.internal)),))
        why = ended.error or "; ".join(ended.internal) or f"exit code {ended.code}"
        patience.tell(f"capture fails: {why.splitlines()[0]}")
        needs = patience.needed() if ended.timed_out else 0.0
        return _reduced_script(wish, "capture", setting, transport, listener, needs, patience.tell)


def _setting(wish: Wish, backend: str) -> ScriptSetting:
    found = wish.program
    data = (wish.folder / SOURCE / "data").absolute()
    data.mkdir(parents=True, exist_ok=True)
    return ScriptSetting(str(found.path), str(found.folder), found.args, wish.engine, backend, data=str(data))


def _asking(wish: Wish, setting: ScriptSetting) -> LocalTransport:
    """What asks of scripts: of the whole one, of those of the reduction, of the part at fault. Copies of data are there first."""
    if not any(Path(setting.data).iterdir()):
        places = list(dict.fromkeys((Path.cwd(), Path(setting.folder))))
        copy_data(naming(wish.program.text(), wish.program.args), places, Path(setting.data))
    return LocalTransport(spec_for(setting), wish.folder / SOURCE, wish.plan.jobs, wish.plan.limits)


def _graph_failure(wish: Wish, level: str, graphs: list[Recorded], ladder: Ladder, patience: Patience, listener: Listener) -> Report:
    tell = patience.tell
    problems = tuple(f"graph {g.name}: {g.problem}" for g in graphs if g.problem)
    judged = [g for g in graphs if g.graph is not None]
    in_parts = [g for g in graphs if g.problem and g.backend in LAST and wish.after == "auto"]
    is_whole = wish.after == "auto" and not wish.graph and not wish.accuracy
    found = ladder.first_failure(judged, level, tries=1)
    patience.graphs = ladder.seconds
    if found is None and in_parts:
        deeper, problems = _deeper(wish, in_parts, ladder, patience, listener)
        if deeper is not None:
            return replace(deeper, problems=problems)
    script = _script_failure(wish, patience, must_be_sure=True) if found is None and is_whole else None
    if script is not None:  # a graph that fails in most runs may have worked in its only one
        found = ladder.first_failure(judged, level, tries=SURE)
        if found is None and script.may_be_a_check:
            tell("no graph fails alone, but the compiled script does: numbers are compared")
            wish = replace(wish, accuracy=True)
            ladder.compare_numbers()
            found = ladder.first_failure(judged, level, tries=1)
        report = _reduced_failure(wish, script, patience, listener) if found is None else None
        if report is not None and report.status != NOT_REPRODUCED:
            return replace(report, problems=(*problems, *ladder.problems))
    found = found or ladder.first_failure(judged, level)
    problems += tuple(ladder.problems)
    if found is not None:
        is_ours = wish.after == "auto" and found.stage == "codegen" and wish.engine == "dynamo"
        report = _deeper(wish, [found.recorded], ladder, patience, listener)[0] if is_ours else None
        return replace(report or _reduced_graph(wish, found, ladder, tell, listener), problems=problems)
    ladder.close()
    script = _script_failure(wish, patience) if is_whole else None
    report = None if script is None else _reduced_failure(wish, script, patience, listener)
    unread = [p for p in problems if wish.after != "auto" or not p.endswith(WITHOUT)]
    return report or Report(UNREAD if unread and not is_whole else NOTHING, problems=problems, tried=tuple(ladder.asked))


def _ladder(wish: Wish, level: str, tell: Tell) -> Ladder:
    store, folder = wish.folder / f"recorded-{level}" / VALUES, ahead.folder_of(wish.folder, level)
    return Ladder(wish.engine, wish.accuracy, store, folder, wish.plan.limits, wish.plan.jobs, tell=tell)


def _deeper(
    wish: Wish, captured: list[Recorded], ladder: Ladder, patience: Patience, listener: Listener
) -> tuple[Report | None, tuple[str, ...]]:
    """The first ATen graph of captured ones that fails alone, reduced, None where none does; and which could not be looked at. Asked in
    the processes of `ladder`."""
    tell = patience.tell
    _, graphs = _record(wish, "aot", patience)
    lower = _ladder(wish, "aot", tell)
    lower.transport, lower.early, ladder.transport, ladder.early = ladder.transport, ladder.early, None, None
    try:
        own = [g for g in graphs if any(g.answers_to(c.name) for c in captured)]
        read = [g for g in own if g.graph is not None]
        lower.needs = {g.name: n for g in read for c, n in ladder.needs.items() if g.answers_to(c)}
        deeper = lower.first_failure(read, "aot")
        report = None if deeper is None else _reduced_graph(wish, deeper, lower, tell, listener)
        return report, (*(f"graph {g.name}: {g.problem}" for g in own if g.problem), *lower.problems)
    finally:
        ladder.transport, ladder.early = lower.transport, lower.early


def _reduced_graph(wish: Wish, found: Found, ladder: Ladder, tell: Tell, listener: Listener) -> Report:
    graph, setting = found.recorded.graph, found.setting
    assert graph is not None
    tell(f"graph {found.recorded.name} of {plural(len(graph.nodes), 'operation')} fails at {found.stage}: {found.outcome.signature}")
    seen = () if found.needs else (found.outcome, *found.again)  # one that does not end is seen again before it is taken for one
    plan = replace(wish.plan, folder=wish.folder / f"graph-{found.recorded.name.replace('/', '-')}", needs=found.needs, seen=seen)
    assert ladder.transport is not None
    early, ladder.early = ladder.early, None  # it runs one repro
    with contextlib.ExitStack() as stack:
        if early is not None:
            stack.callback(early.close)
        warmed = _warmed(ladder.transport, found.outcome.signature, first_lines(setting), setting, early)
        if warmed is not None:
            stack.callback(warmed.close)
        return _reduced_under(wish, found, plan, ladder, warmed, listener)


def _reduced_under(wish: Wish, found: Found, plan: Plan, ladder: Ladder, warmed: Warmed | None, listener: Listener) -> Report:
    graph, setting = found.recorded.graph, found.setting
    assert graph is not None and ladder.transport is not None
    tried = tuple(ladder.asked)
    result = reduce_graph(graph, setting, plan, listener, Posed(ladder.transport, setting))
    report = _counted(Report(NOT_REPRODUCED, found.stage, graph=found.recorded.name, tried=tried), result)
    report = replace(report, op_nodes=len(result.state.nodes), inputs=len(result.state.inputs))
    if result.signature is None or result.status is Status.NOT_REPRODUCED:
        return replace(report, tried=(*tried, f"the same graph {result.runs} times more: no failure"))
    write = _graph_writer(result.state, setting, result.signature)
    asked = result.state, setting, result.signature, ladder.transport
    with ThreadPoolExecutor(1, thread_name_prefix="culprit") as pool:  # it is named while the repro is certified
        named = pool.submit(culprits.of_graph, *asked) if wish.engine == "torch" else None
        culprit = str if named is None else named.result
        return _handed_over(wish, report, result, write, setting.to_json(), culprit=culprit, warmed=warmed, needs=plan.needs)


def _warmed(
    transport: Transport, signature: Signature | None, lines: list[str], setting: Setting | None = None, early: Early | None = None
) -> Warmed | None:
    """What runs repros of this failure, where forks have none of their own. `setting` is that of a graph."""
    if not isinstance(transport, LocalTransport) or not transport.forks or signature is None or signature.kind not in OF_FORKS:
        return None
    more = {} if setting is None else known(setting, transport)
    return Warmed(transport, lines, {**environment(), **more}, early)


def _graph_writer(graph: Graph, setting: Setting, signature: Signature) -> Write:
    def write(folder: Path, remark: str) -> None:
        write_repro(graph, setting, signature, folder, remark=remark)

    return write


@dataclass(frozen=True)
class _Failing:
    """How the compiled script ends, and how under each of SHORTER, by stage. `programs`: see `Patience.programs`."""

    ended: Ended
    shorter: dict[str, Ended]
    programs: tuple[str, ...]

    @property
    def may_be_a_check(self) -> bool:
        """Whether it ends as after an exception, which may be that of a check of its own."""
        return self.ended.code == 1 and not self.ended.timed_out


def _script_failure(wish: Wish, patience: Patience, must_be_sure: bool = False) -> _Failing | None:
    """No graph fails alone; the script as a whole may. None: it doesn't, or `must_be_sure` and not every time."""
    if patience.fails_in_eager:
        return None
    given = wish.script, wish.args, wish.engine
    ended = run_compiled(*given, wish.backend, patience.longest, patience.limit)
    if ended.code == 0:
        return _Failing(ended, {}, patience.programs(ended)) if patience.programs(ended) else None
    most = ended.seconds if ended.timed_out else patience.longest
    with ThreadPoolExecutor(thread_name_prefix="script") as pool:
        more = [pool.submit(run_compiled, *given, wish.backend, most) for _ in range(MORE if must_be_sure else 0)]
        in_eager = pool.submit(patience.eager)
        shorter = {stage: pool.submit(run_compiled, *given, backend, most) for stage, backend in SHORTER}
    if in_eager.result().code or not all(run.result().code for run in more):
        return None
    return _Failing(ended, {stage: run.result() for stage, run in shorter.items()}, patience.programs(ended))


def _reduced_failure(wish: Wish, script: _Failing, patience: Patience, listener: Listener) -> Report:
    if script.programs:
        return Report(UNREAD, problems=script.programs)
    ended = script.ended
    how = "does not end" if ended.timed_out else f"ends with {ended.code}"
    patience.tell(f"no graph fails alone, but the compiled script {how}")
    needs = patience.needed() if ended.timed_out else 0.0
    for stage, backend in SHORTER:
        short = script.shorter[stage]
        if (short.code, short.timed_out) == (ended.code, ended.timed_out):
            report = _script_under(wish, stage, backend, listener, needs, patience.tell)
            if report.status != NOT_REPRODUCED:
                return report
    return _script_under(wish, STAGE_OF_SCRIPT, wish.backend, listener, needs, patience.tell)


def _script_under(wish: Wish, stage: str, backend: str, listener: Listener, needs: float, tell: Tell) -> Report:
    setting = _setting(wish, backend)
    with contextlib.closing(_asking(wish, setting)) as transport:
        return _reduced_script(wish, stage, setting, transport, listener, needs, tell)


def _reduced_script(
    wish: Wish, stage: str, setting: ScriptSetting, transport: LocalTransport, listener: Listener, needs: float, tell: Tell
) -> Report:
    """`needs`: see `Plan`. Where the smallest script fails only beside what the warmed process has loaded, it is looked for once more among
    those whose repros fail."""
    plan = replace(wish.plan, folder=wish.folder / SOURCE, needs=needs)
    if needs:
        transport.calibrated(needs)
    report, signature = _script_through(wish, stage, setting, transport, transport, plan, listener)
    if report.status != NOT_REPRODUCED or signature is None or signature.kind not in OF_FORKS:
        return report
    left = None if plan.seconds is None else plan.seconds - report.seconds
    if report.is_interrupted or (left is not None and left <= 0):
        return report
    tell("the smallest script works in a new interpreter; from now on only what fails in one counts")
    plan = replace(plan, folder=wish.folder / SHOWN, seconds=left)
    with contextlib.closing(Shown(transport, setting, plan.folder)) as shown:
        again, _ = _script_through(wish, stage, setting, transport, shown, plan, listener)
    calls, distinct = report.oracle_calls + again.oracle_calls, report.distinct_calls + again.distinct_calls
    again = replace(again, oracle_calls=calls, distinct_calls=distinct, seconds=round(report.seconds + again.seconds, 3))
    return replace(report, tried=(*report.tried, *again.tried)) if again.status == NOT_REPRODUCED else again


def _script_through(
    wish: Wish, stage: str, setting: ScriptSetting, transport: LocalTransport, asked: Transport, plan: Plan, listener: Listener
) -> tuple[Report, Signature | None]:
    """Reduce by what `asked` says, which runs scripts in `transport`, and hand over; with the failure, if there is one to follow."""
    result = reduce_source(wish.program.text(), setting, plan, listener, asked)
    report = _counted(Report(NOT_REPRODUCED, stage), result)
    signature = result.signature
    if signature is None or result.status in (Status.NOT_REPRODUCED, Status.UNDISCERNING):
        return replace(report, tried=(f"the script {result.runs} times, in eager and compiled: no failure to follow",)), None

    def write(folder: Path, remark: str) -> None:
        write_script(result.state.text, setting, signature, folder, remark=remark)

    with contextlib.ExitStack() as stack:
        warmed = _warmed(transport, signature, ["import torch"])
        if warmed is not None:
            stack.callback(warmed.close)
        pool = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="culprit"))
        named = pool.submit(culprits.of_script, result.state.text, setting, transport) if wish.engine == "torch" else None
        culprit = str if named is None else named.result
        data = Path(setting.data)
        return _handed_over(wish, report, result, write, culprit=culprit, warmed=warmed, needs=plan.needs, data=data), signature


def _under_command(wish: Wish, tell: Tell, listener: Listener) -> Report:
    """A command says what is interesting; what is reduced is the script."""
    plan = replace(wish.plan, folder=wish.folder / SOURCE)
    result = reduce_under_command(wish.program.text(), wish.oracle, plan, listener)
    report = _counted(Report(NOT_REPRODUCED, STAGE_OF_COMMAND), result)
    if result.status is Status.UNDISCERNING:
        raise Undiscerning("the command calls an empty script interesting too, so every script would end at nothing")
    if result.status is Status.NOT_REPRODUCED:
        return replace(report, tried=(f"{' '.join(wish.oracle)} SCRIPT, {result.runs} times: never exit code 0",))
    limits = wish.plan.limits or Limits()

    def write(folder: Path, remark: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        note = f"# {remark} A run is one of `{' '.join(wish.oracle)}` with this file.\n" if remark else ""
        (folder / REPRO).write_text(note + result.state.text)

    def measure(repro: Path) -> Rate:
        ends = [_asked(wish.oracle, repro, limits.timeout) for _ in range(RUNS)]
        return Rate(ends.count(0), RUNS, tuple(f"exit code {e}" for e in dict.fromkeys(ends) if e))

    return _handed_over(wish, report, result, write, measure=measure)


def _asked(command: tuple[str, ...], repro: Path, seconds: float) -> int:
    try:
        done = subprocess.run(
            [*command, str(repro.absolute())], stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, env=environment()
        )
    except subprocess.TimeoutExpired:
        return -1
    return done.returncode


def _counted(report: Report, result: Result[Any]) -> Report:
    signature = result.signature
    return replace(
        report,
        oracle_calls=result.calls,
        distinct_calls=result.distinct,
        seconds=round(result.seconds, 3),
        one_minimal=result.certificate is not None,
        other_failures=tuple(str(s) for s in result.others),
        signature=None if signature is None else signature.to_json(),
        shown="" if signature is None else str(signature),
        is_interrupted=result.status is Status.INTERRUPTED,
    )


def _handed_over(
    wish: Wish,
    report: Report,
    result: Result[Graph] | Result[Source],
    write: Write,
    setting: dict[str, Any] | None = None,
    measure: Callable[[Path], Rate] | None = None,
    culprit: Callable[[], str] = str,
    warmed: Warmed | None = None,
    needs: float = 0.0,
    data: Path | None = None,
) -> Report:
    """Certify the repro, and say what was seen. `culprit`, `warmed`, `data`: see `Draft`; `needs`: see `Plan`."""
    signature = result.signature or Signature(Kind.PREDICATE)
    limits = wish.plan.limits or Limits()
    watched = min(limits.timeout, max(STARTING + 10 * needs, WATCHED) if needs else HANGING)
    bounds = bounds_for(signature, limits.memory, watched if signature.kind is Kind.HANG else None)
    seen = result.hits / result.runs if result.runs else 1.0
    backend = wish.backend if setting is None else str(setting["backend"])
    draft = Draft(write, signature, report.stage, report.graph or "", setting, seen, bounds, measure, culprit, warmed, data, backend)
    done = deliver(draft, wish.folder, wish.pytest)
    rate = round(done.rate.value, 4)
    report = replace(report, reproduction_rate=rate, repro=done.repro, bundle=done.bundle, culprit=culprit())
    if not done.rate.hits:
        tried = (*report.tried, f"{done.refused}/repro.py, {done.rate.runs} runs: {'; '.join(done.rate.ends)}")
        return replace(report, status=NOT_REPRODUCED, one_minimal=False, tried=tried)
    return replace(report, status=REPRODUCED if done.rate.hits == done.rate.runs else FLAKY)
