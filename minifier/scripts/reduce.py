"""From a failing script to the smallest one that fails the same way."""

from __future__ import annotations

from minifier.engine import Listener, Result, Transport, minimise
from minifier.graph.reduce import Plan
from minifier.isolation import LocalTransport, OracleSpec
from minifier.scripts.setting import ScriptSetting
from minifier.source.problem import SourceProblem
from minifier.source.state import Source, parsed

_HOME = "minifier.scripts.oracle"
FRESH = f"{_HOME}:ask_fresh"  # the oracle that lets torch's compiler use nothing again
UNDER_INDUCTOR = f"{_HOME}:ask_under_inductor"  # the one under which a script has no backend of its own


def spec_for(setting: ScriptSetting) -> OracleSpec:
    """The oracle for scripts under a setting."""
    lends = setting.engine == "torch"
    return OracleSpec(f"{_HOME}:ask", warm=(f"{_HOME}:warm",), name="script.py", environment=setting.environment(), lends=lends)


def reduce_source(
    text: str, setting: ScriptSetting, plan: Plan, listener: Listener | None = None, transport: Transport | None = None
) -> Result[Source]:
    """The smallest script that fails as `text` does under a compiler, and works without. A `transport` of that setting is left open.

    Raises SourceError, IsolationError, JournalError.
    """
    return _reduced(text, spec_for(setting), plan, listener, transport)


def reduce_under_command(text: str, command: tuple[str, ...], plan: Plan, listener: Listener | None = None) -> Result[Source]:
    """The smallest script of which a command, called with its path, says by exit code 0 that it is interesting.

    Raises SourceError, IsolationError, JournalError.
    """
    return _reduced(text, OracleSpec(command=command, name="script.py"), plan, listener, None)


def _reduced(text: str, spec: OracleSpec, plan: Plan, listener: Listener | None, transport: Transport | None) -> Result[Source]:
    start = parsed(text)
    asked = transport or LocalTransport(spec, plan.folder, plan.jobs, plan.limits)
    try:
        return minimise(SourceProblem(), start, asked, plan.options(spec, listener), parsed(""))
    finally:
        if transport is None:
            asked.close()
