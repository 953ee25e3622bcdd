"""`dynamo-debug minify`: the smallest graph of a script that still fails, as a script of its own."""

from __future__ import annotations

import atexit
import gc
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynamo.surroundings.collector import paused
from dynamo.trace.model import plural
from minifier import ahead
from minifier.engine import Decided, Event, JournalError, Keep, OtherFailure, Rule, Verdict
from minifier.isolation import IsolationError, Limits
from minifier.places import FILES, MADE, MARKS
from minifier.programs import program
from tui import options
from tui.checks import check_program
from tui.console import put, put_json, say
from tui.errors import CliError, check_free, check_output, nearest
from tui.exits import Exit
from tui.lookup import check_backend, home_of

if TYPE_CHECKING:
    from minifier.minify import Report

_STAGES = ["auto", "capture", "dynamo", "aot"]
_ENGINES = ["dynamo", "torch"]
LONGEST = Limits().timeout

After = Annotated[
    str,
    typer.Option(
        help="`auto` finds the stage that fails. `capture`: the source that can't be captured. `dynamo`: graphs as captured. "
        "`aot`: forward and backward ATen graphs."
    ),
]
Accuracy = Annotated[bool, typer.Option("--accuracy", help="Wrong numbers are failures too.")]
Jobs = Annotated[int, typer.Option(help="Candidates that run at a time.", min=1)]
Graph = Annotated[str, typer.Option(metavar="ID", help="Look at this graph only: 3/1, or 3/1.bw after aot.", show_default=False)]
Oracle = Annotated[
    str,
    typer.Option(
        metavar="CMD",
        help="Reduce the script under a command that gets its path: exit code 0 interesting, 125 invalid, 101 also interesting.",
        show_default=False,
    ),
]
Pytest = Annotated[bool, typer.Option("--pytest", help="Write test_repro.py too, which fails as long as the failure is there.")]
TimeLimit = Annotated[
    float, typer.Option(help="Seconds after which the best so far is taken; 0: none.", min=0.0, callback=options.a_number)
]
Timeout = Annotated[
    float,
    typer.Option(
        help="Seconds that a run may take at most; one that takes longer counts as one that never ends.", min=1.0, callback=options.a_number
    ),
]
KeepSignature = Annotated[str, typer.Option(help=f"How much of the failure must stay: {', '.join(k.value for k in Keep)}.")]
Folder = Annotated[Path, typer.Option("-o", "--output", help="Folder for the repro and everything else that is written.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the journal of an earlier run in the same folder.")]


def minify(
    script: options.Script,
    args: options.Args = None,
    module: options.AsModule = False,
    after: After = "auto",
    engine: options.Engine = "dynamo",
    backend: options.Backend = "",
    accuracy: Accuracy = False,
    jobs: Jobs = 2,
    graph: Graph = "",
    oracle: Oracle = "",
    time_limit: TimeLimit = 0.0,
    timeout: Timeout = LONGEST,
    keep_signature: KeepSignature = Keep.STANDARD.value,
    output: Folder = Path("minified"),
    resume: Resume = False,
    pytest: Pytest = False,
    as_json: options.AsJson = False,
) -> int:
    """Find what of SCRIPT fails first when it is compiled, make it as small as it gets, and write it as repro.py.

    Beside it: the exact inputs, an issue text (issue.md), and all of it as one file (repro.ddbg) for `dynamo-debug run`.

    Example: dynamo-debug minify train.py --accuracy
    """
    script, given = options.words(script, args, module)
    check_program(script, given)
    _check(after, engine, keep_signature)
    check_backend(backend, engine, home_of(script))
    check_output(output)
    command, limits = _command(oracle), Limits(timeout)
    if resume and not any(output.rglob("journal.sqlite")):
        say(f"--resume: {output} has no journal of an earlier run; this one begins anew")
    made = program(script, given)
    _check_place(output, made.path)
    ready = None if command else ahead.started(made, after, engine, backend, accuracy, output, jobs, limits)
    with paused():
        from minifier import minify as front  # noqa: PLC0415  # loads torch, while those processes do
    atexit.register(gc.freeze)  # nothing of a program's is in this process, and to look through torch for garbage takes its time

    plan = front.Plan(output, jobs, time_limit or None, resume, Rule(Keep(keep_signature)), limits)
    wish = front.Wish(script, given, after, backend, accuracy, graph, output, plan, engine, command, pytest)
    try:
        report = front.minify(wish, say, _narrate, ready)
    except front.ScriptFailed as e:
        raise CliError("CL018", f"{options.shown(script, given)}: does not run in eager either: {e}") from e
    except front.NoSuchGraph as e:
        known = ", ".join(e.names) or "none"
        raise CliError("CL006", f"--graph {graph}: no such graph{nearest(graph, e.names)}; graphs are {known}") from e
    except front.Undiscerning as e:
        raise CliError("CL020", f"--oracle {oracle}: {e}") from e
    except (IsolationError, JournalError) as e:
        raise CliError("CL019", str(e)) from e
    if report.status in ("nothing fails", "not looked at") and (graph or after in ("dynamo", "aot")):
        say("only graphs were looked at, each alone; --after auto looks at their ATen graphs and at the script too")
    if report.status == "not looked at" and accuracy:
        say("`dynamo-debug bisect` compares the numbers of these too")
    return _tell(report, accuracy or bool(oracle), as_json)


def _check(after: str, engine: str, keep_signature: str) -> None:
    if after not in _STAGES:
        raise CliError("CL013", f"--after {after}: unknown{nearest(after, _STAGES)}; stages are {', '.join(_STAGES)}")
    if engine not in _ENGINES:
        raise CliError("CL010", f"--engine {engine}: unknown{nearest(engine, _ENGINES)}; engines are {' and '.join(_ENGINES)}")
    levels = [k.value for k in Keep if k is not Keep.REGEX]
    if keep_signature not in levels:
        raise CliError("CL017", f"--keep-signature {keep_signature}: unknown{nearest(keep_signature, levels)}; it is {', '.join(levels)}")


def _check_place(output: Path, script: Path) -> None:
    check_free(output, MADE, MARKS)
    for name in MADE:
        place = output / name
        if place.exists() and place.samefile(script):
            raise CliError("CL032", f"{output}: {name} there is the script itself, and would be replaced; choose another folder with -o")
        if name in FILES and place.is_dir() and not place.is_symlink():
            raise CliError("CL032", f"{output}: {name} there is a folder; choose another folder with -o")


def _command(text: str) -> tuple[str, ...]:
    """The words of a command. It runs in other folders, so those that name files here are made absolute."""
    try:
        words = shlex.split(text)
    except ValueError as e:
        raise CliError("CL020", f"--oracle {text}: {e}") from e
    if words and shutil.which(words[0]) is None:
        raise CliError("CL020", f"--oracle {text}: there is no command {words[0]}")
    return tuple(str(Path(w).absolute()) if Path(w).exists() else w for w in words)


def _tell(report: Report, accuracy: bool, as_json: bool) -> int:
    for problem in report.problems:
        say(problem)
    if report.status in ("not looked at", "not reproduced"):
        for line in report.tried:
            say(f"tried: {line}")
    if as_json:
        put_json(report.to_json())
    elif report.repro:
        certified = "no single step makes it smaller" if report.one_minimal else "stopped before it was as small as it gets"
        size = f"{plural(report.op_nodes, 'operation')}, " if report.op_nodes else ""
        where = report.stage + (f", {report.culprit}" if report.culprit else "") + (f", graph {report.graph}" if report.graph else "")
        rate = f"seen in {report.reproduction_rate:.0%} of runs in new processes"
        put(f"{report.repro}: {size}{plural(report.oracle_calls, 'run')}; {certified}; {rate}\n{where}: {report.shown}\n")
    else:
        put(f"{report.status}\n")
    if report.status == "nothing fails":
        say(_FIRST_CALLS if accuracy else "numbers were not compared; with --accuracy wrong ones are failures too")
    return Exit.INTERRUPTED if report.is_interrupted else _EXITS[report.status]


_FIRST_CALLS = "numbers of the first call of each graph were compared; `dynamo-debug bisect` calls them again, with other values"
_EXITS = {
    "reproduced": Exit.FINDING,
    "flaky": Exit.FLAKY,
    "nothing fails": Exit.OK,
    "not looked at": Exit.NOT_REPRODUCED,
    "not reproduced": Exit.NOT_REPRODUCED,
}


def _narrate(event: Event) -> None:
    if isinstance(event, OtherFailure):
        say(f"another failure, kept and not followed: {event.signature}")
    elif isinstance(event, Decided) and event.verdict is Verdict.INTERESTING:
        left = "" if event.left is None else f", about {event.left:.0f} s left in this pass"
        say(f"size {event.size[0]} after {plural(event.calls, 'run')}, {event.seconds:.0f} s{left} ({event.pass_name})")
