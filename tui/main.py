"""The command `dynamo-debug`."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from dynamo.trace.record import is_record
from tui.commands.unread import UNREAD
from tui.console import PROGRAM, open_closed_streams, put, say
from tui.errors import CliError
from tui.exits import EXIT_HELP, Exit
from tui.options import SCRIPT_CONTEXT, SCRIPT_LAST
from tui.stops import Stopped, stops_raised
from tui.tracebacks import way_through_ours

_UsageError: Any = typer.BadParameter.__base__  # Typer names it nowhere else


class _Group(typer.core.TyperGroup):
    """Ends what the option parser refuses with the id of that error."""

    def make_context(self, *args: Any, **given: Any) -> Any:
        with _named():
            return super().make_context(*args, **given)

    def invoke(self, ctx: Any) -> Any:
        with _named():
            return super().invoke(ctx)


@contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except _UsageError as e:
        if type(e).show is not _UsageError.show:  # help, where there are no arguments
            raise
        raise _UsageError(f"{e.format_message()} [CL034]", ctx=e.ctx) from e


@dataclass(frozen=True)
class Command:
    """One row of `dynamo-debug --help`: the function of that name in `tui/commands/MODULE.py`, a module of the same name by default.

    Its docstring is its help text, its parameters are its options. A command loads its own module alone: what each costs before it
    begins is part of what `explain` adds to a run.
    """

    name: str
    context: dict[str, Any] = field(default_factory=dict)
    module: str = ""

    @property
    def run(self) -> Callable[..., int]:
        found: Callable[..., int] = getattr(importlib.import_module(f"tui.commands.{self.module or self.name}"), self.name)
        return found


COMMANDS = (
    Command("explain", SCRIPT_LAST),
    *(Command(name, SCRIPT_LAST, "views") for name in UNREAD),
    Command("compare", module="views"),
    Command("trace", SCRIPT_LAST),
    Command("tui", SCRIPT_LAST, "view"),
    Command("minify", SCRIPT_CONTEXT),
    Command("bisect", SCRIPT_CONTEXT),
    Command("sanitize", SCRIPT_LAST),
    Command("fuzz"),
    Command("profile", SCRIPT_CONTEXT),
    Command("run"),
    Command("record", SCRIPT_CONTEXT, "replay"),
    Command("replay"),
    Command("export", module="trace"),
    Command("cache"),
    Command("corpus"),
    Command("doctor"),
    Command("verify"),
)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point. Always ends with SystemExit."""
    open_closed_streams()
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    command = _command(arguments)
    if command is not None and _needs_no_parser(command, arguments[1:]):
        sys.exit(_end(command.run, script=arguments[1], args=arguments[2:]))
    app = build(arguments[0] if arguments else "")
    try:
        arranged = _arranged(_with_code_value(arguments), app)
    except CliError as e:
        sys.exit(_said(e))
    app(args=arranged, prog_name=PROGRAM)
    sys.exit(Exit.OK)


def build(asked: str = "") -> typer.Typer:
    """The Typer application: the command that is asked for, or where none has that name one per row of COMMANDS."""
    app = typer.Typer(
        cls=_Group,
        no_args_is_help=True,
        add_completion=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog=EXIT_HELP,
    )
    app.callback()(_options)
    for command in [c for c in COMMANDS if c.name == asked] or COMMANDS:
        run = command.run
        text, line = _help(run), _line(run)
        app.command(command.name, help=text, short_help=line, context_settings=command.context, epilog=EXIT_HELP)(_ending(run))
    return app


def _line(run: Callable[..., int]) -> str:
    """What the command does, in the list of all."""
    first = inspect.cleandoc(run.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
    return first.partition(". ")[0].removesuffix(".")


def _help(run: Callable[..., int]) -> str:
    """The docstring with its example first: what most readers of `--help` look for."""
    paragraphs = inspect.cleandoc(run.__doc__ or "").split("\n\n")
    examples = [p for p in paragraphs if p.startswith("Example:")]
    return "\n\n".join([*examples, *(p for p in paragraphs if p not in examples)])


def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=lambda v: _version(v))] = False,
) -> None:
    """See what a compiler makes of a PyTorch script: graphs, breaks, guards, recompiles.

    Start with: dynamo-debug explain SCRIPT
    """


def _version(wanted: bool) -> None:
    if wanted:
        put(f"{PROGRAM} {own_version()}\n")
        raise typer.Exit(Exit.OK)


def own_version() -> str:
    from importlib import metadata  # noqa: PLC0415  # its parsers of mail take longer to load than the rest of this command

    try:
        return metadata.version(PROGRAM)
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _ending(run: Callable[..., int]) -> Callable[..., None]:
    """The command with its result as exit code, and its errors as one line."""

    @functools.wraps(run)
    def ended(**given: Any) -> None:
        raise typer.Exit(_end(run, **given))

    return ended


def _end(run: Callable[..., int], **given: Any) -> int:
    try:
        with stops_raised():
            return int(run(**given))
    except CliError as e:
        return _said(e)
    except Stopped as e:
        say(f"{e.what} (exit code {e.code})")
        return e.code
    except KeyboardInterrupt:
        say(f"interrupted (exit code {Exit.INTERRUPTED.value})")
        return int(Exit.INTERRUPTED)
    except Exception as e:  # noqa: BLE001  # whatever it is: Python would end with 1, which says that something was found in the script
        return _said(CliError("CL036", way_through_ours(e)))


def _said(error: CliError) -> int:
    print(error.line(), file=sys.stderr, flush=True)
    return int(error.row.exit)


def _command(arguments: Sequence[str]) -> Command | None:
    return next((c for c in COMMANDS if arguments and c.name == arguments[0]), None)


def _needs_no_parser(command: Command, behind: Sequence[str]) -> bool:
    """Whether it is SCRIPT and what belongs to that: the option parser, with the library that it loads for values, takes 0.1 s."""
    return command.context is SCRIPT_LAST and bool(behind) and not behind[0].startswith("-") and not is_record(Path(behind[0]))


def _arranged(arguments: list[str], app: typer.Typer) -> list[str]:
    """What option parsers do not know: `-m`, `-c` and `-` stand for SCRIPT as under Python itself, and what stands behind a record is ours,
    as it takes no arguments."""
    command = _command(arguments)
    if command is None or command.context is not SCRIPT_LAST:
        return arguments
    valued = _valued(app, command)
    arguments = _with_python_options(arguments, valued)
    for position, argument in enumerate(arguments[1:], 1):
        if argument in ("-m", "-c", "-"):
            return [*arguments[:position], "--", *arguments[position:]]
        if argument.startswith("-") or arguments[position - 1] in valued:
            continue
        if is_record(Path(argument)):
            behind = arguments[position + 1 :]
            extra = [word for before, word in pairwise([argument, *behind]) if not word.startswith("-") and before not in valued]
            if extra:
                raise CliError("CL008", f"{extra[0]}: a record takes no arguments; leave it out, or name it alone to run it")
            return [*arguments[:position], *behind, argument]
        break
    return arguments


# Options of Python itself that mean something for a script that is run to its end.
_PYTHON_FLAGS = re.compile(r"-[bBdEIOPqsuv]+")
_PYTHON_VALUE = re.compile(r"(-[bBdEIOPqsuv]*[WX])(.*)", re.DOTALL)


def _with_python_options(arguments: list[str], valued: set[str]) -> list[str]:
    """Options of Python in front of SCRIPT, as values of `--python`: option parsers do not know how they are run together."""
    out, rest = arguments[:1], arguments[1:]
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c", "-", "--"):
        words = [rest.pop(0)]
        value = _PYTHON_VALUE.fullmatch(words[0])
        is_pythons = value is not None or _PYTHON_FLAGS.fullmatch(words[0]) is not None
        takes_next = words[0] in valued if value is None else not value[2]
        if takes_next:
            if not rest and is_pythons:
                raise CliError("CL034", f"{words[0]}: takes a value, as for python {words[0]}")
            words += rest[:1]
            del rest[:1]
        out += [f"--python={word}" for word in words] if is_pythons else words
    return out + rest


def _valued(app: typer.Typer, command: Command) -> set[str]:
    """Options of the command whose value is the next argument."""
    group: Any = typer.main.get_command(app)
    options = [p for p in group.commands[command.name].params if p.param_type_name == "option" and not p.is_flag]
    return {name for option in options for name in option.opts}


def _with_code_value(arguments: list[str]) -> list[str]:
    """`--code` may stand without a value, which option parsers do not know."""
    out = []
    for position, argument in enumerate(arguments):
        following = arguments[position + 1] if position + 1 < len(arguments) else "-"
        bare = argument == "--code" and following.startswith("-") and "--" not in arguments[:position]
        out.append("--code=" if bare else argument)
    return out


if __name__ == "__main__":
    sys.exit(main())
