"""Programs and backends named on the command line: a script, or `-m` and a module, as Python takes them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from dynamo.backends.registry import ROWS, list_backends
from dynamo.peer.located import MAIN, NoSuchModule, here, located
from minifier.programs import MODULE, program
from tui.applications import main_of
from tui.errors import CliError, check_code, check_script, nearest
from tui.lookup import refusal


def check_program(script: str, args: Sequence[str]) -> None:
    """Refuse, before anything runs, a script or, after `-m`, a module that Python could not run either."""
    with _missing_modules():
        check_script(script if script != MODULE else str(program(script, args).path))


def check_module(name: str) -> None:
    """Refuse what is missing before anything is imported, and what cannot be compiled. What is missing later is the program's to say."""
    with _missing_modules():
        try:
            spec = located(name)
        except NoSuchModule as e:
            if not e.after_imports:
                raise
            return
    get_source = getattr(spec.loader, "get_source", None)
    if get_source is not None:
        check_code(get_source(spec.name) or "", spec.origin or name)


@contextlib.contextmanager
def _missing_modules() -> Iterator[None]:
    try:
        yield
    except NoSuchModule as e:
        raise CliError("CL001", f"-m {e}") from e


def home_of(script: str) -> Path:
    """The folder in which a program's imports are looked up first."""
    if script in ("-m", "-c", "-"):
        return Path(here())
    return Path(script) if main_of(script) is not None else Path(script).resolve().parent


def check_backend(name: str, engine: str, folder: Path) -> None:
    """Refuse a backend that programs in `folder` don't find. Names without a module are torch's own under that engine."""
    module, colon, _ = name.partition(":")
    if colon and module != MAIN:
        reason = refusal(name, folder)
        if reason:
            raise CliError("CL012", f"--backend {name}: {reason}; an import in {folder} must find it, or in a folder of PYTHONPATH")
    if not name or colon or engine != "dynamo" or any(row.name == name for row in ROWS):
        return  # plug-ins are asked for last: their metadata take a while to load
    known = list_backends(exclude_tags=())
    if name not in known:
        raise CliError("CL012", f"{name}: no such backend{nearest(name, known)}; backends are {', '.join(known)}")
