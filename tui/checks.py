"""Programs named on the command line as Python takes them: a script, or `-m` and a module."""

from __future__ import annotations

from collections.abc import Sequence

from minifier.programs import MODULE, program
from tui.errors import check_script
from tui.lookup import missing_modules


def check_program(script: str, args: Sequence[str]) -> None:
    """Refuse, before anything runs, a script or, after `-m`, a module that Python could not run either."""
    with missing_modules():
        check_script(script if script != MODULE else str(program(script, args).path))
