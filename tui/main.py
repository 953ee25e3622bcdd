"""The command `dynamo-debug`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Annotated, Any, NoReturn

import typer

from tui.commands.cache import cache
from tui.commands.doctor import doctor
from tui.commands.explain import explain
from tui.commands.trace import export, trace
from tui.commands.verify import verify
from tui.commands.view import tui
from tui.console import PROGRAM, put, say
from tui.errors import CliError
from tui.exits import EXIT_HELP, Exit
from tui.options import SCRIPT_CONTEXT


@dataclass(frozen=True)
class Command:
    """One row of `dynamo-debug --help`. The docstring of `run` is its help text, its parameters are its options."""

    name: str
    run: Callable[..., int]
    context: dict[str, Any] = field(default_factory=dict)


COMMANDS = (
    Command("explain", explain, SCRIPT_CONTEXT),
    Command("trace", trace, SCRIPT_CONTEXT),
    Command("tui", tui, SCRIPT_CONTEXT),
    Command("export", export),
    Command("cache", cache),
    Command("doctor", doctor),
    Command("verify", verify),
)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point. Always ends with SystemExit."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    build()(args=_with_code_value(arguments), prog_name=PROGRAM)
    sys.exit(Exit.OK)


def build() -> typer.Typer:
    """The Typer application, one command per row of COMMANDS."""
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog=EXIT_HELP,
    )
    app.callback()(_options)
    for command in COMMANDS:
        app.command(command.name, context_settings=command.context, epilog=EXIT_HELP)(_ending(command.run))
    return app


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
    try:
        return metadata.version(PROGRAM)
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _ending(run: Callable[..., int]) -> Callable[..., None]:
    """The command with its result as exit code, and its errors as one line."""

    @functools.wraps(run)
    def ended(*args: Any, **kwargs: Any) -> None:
        try:
            code = run(*args, **kwargs)
        except CliError as e:
            print(e.line(), file=sys.stderr, flush=True)
            code = e.row.exit
        except KeyboardInterrupt:
            say(f"interrupted (exit code {Exit.INTERRUPTED.value})")
            code = Exit.INTERRUPTED
        raise typer.Exit(int(code))

    return ended


def _with_code_value(arguments: list[str]) -> list[str]:
    """`--code` may stand without a value, which option parsers do not know."""
    out = []
    for position, argument in enumerate(arguments):
        following = arguments[position + 1] if position + 1 < len(arguments) else "-"
        bare = argument == "--code" and following.startswith("-") and "--" not in arguments[:position]
        out.append("--code=" if bare else argument)
    return out
