"""Programs named on the command line as Python takes them: a script, or `-m` and a module."""

from __future__ import annotations

from collections.abc import Sequence

from dynamo.peer.located import NoSuchModule
from minifier.programs import MODULE, program
from tui.errors import CliError, check_script


def check_program(script: str, args: Sequence[str]) -> None:
    """Refuse, before anything runs, a script or, after `-m`, a module that Python could not run either."""
    if script != MODULE:
        return check_script(script)
    try:
        check_script(str(program(script, args).path))
    except NoSuchModule as e:
        raise CliError("CL001", f"-m {e}") from e
