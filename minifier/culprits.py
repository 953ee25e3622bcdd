"""Which part of torch's compiler a minimised failure is of: found by leaving parts out, until the failure goes.

Of a graph: the first part of `patient.PARTS` without which the failure is gone, and its last step that is needed
(`inductor: lowerings, step 1`). Graphs that fail before those parts run are of what stops there (`dynamo`, `aot_autograd`). Of a script:
`dynamo: guards` where the failure goes once nothing that was compiled is used again, else what compiles, which may be the script's own.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace

from dynamo.peer import patient
from minifier.engine import Candidate, Outcome, Rule, Signature, Transport, Verdict
from minifier.graph.ir import Graph
from minifier.graph.oracle import Setting
from minifier.isolation import LocalTransport
from minifier.ladder.probe import question
from minifier.scripts.reduce import FRESH, UNDER_INDUCTOR
from minifier.scripts.setting import ScriptSetting

MOST_STEPS = 1 << 10  # of one part on a minimised graph
_SHORTER = "aot_eager_decomp_partition"
OF_SCRIPT = "a backend of the script"
_WHOLE = {"eager": "dynamo", "aot_eager": "aot_autograd"}

Fails = Callable[[str, str, int], bool]


def of_graph(graph: Graph, setting: Setting, signature: Signature, transport: Transport) -> str:
    """The part that a graph of torch's compiler fails in; `transport` is one of the ladder. Raises IsolationError."""
    if setting.backend in _WHOLE:
        return _WHOLE[setting.backend]
    if setting.backend != "inductor":
        return setting.backend

    runs: dict[tuple[str, str, int], Future[Outcome]] = {}

    def run(backend: str, part: str, most: int) -> Future[Outcome]:
        which = backend, part, most
        if which not in runs:
            asked = replace(setting, backend=backend, without=f"{part}/{most}" if part else "")
            runs[which] = transport.submit(Candidate("part", question(graph, asked)))
        return runs[which]

    def fails(backend: str, part: str, most: int) -> bool:
        outcome = run(backend, part, most).result()
        return outcome.verdict is Verdict.INTERESTING and outcome.signature is not None and Rule().holds(signature, outcome.signature)

    if transport.jobs > 1:  # all are needed where the last part is at fault, which it mostly is
        for which in ((_SHORTER, "", 0), *((home, part, 0) for home, part in patient.PARTS if home == setting.backend)):
            run(*which)
    try:
        return first_part(fails)
    finally:
        for unneeded in runs.values():
            transport.cancel(unneeded)


def first_part(fails: Fails) -> str:
    """The part without which a failure of `inductor` goes. `fails` is asked with a backend, a part of it ('': all of it) and a number of
    steps that this part may do.
    """
    backend = _SHORTER if fails(_SHORTER, "", 0) else "inductor"
    for home, part in patient.PARTS:
        if home == backend and not fails(backend, part, 0):
            return f"{backend}: {part}, step {_last_step(fails, backend, part)}"
    return backend


def _last_step(fails: Fails, backend: str, part: str) -> int:
    """The least number of steps with which the failure is there."""
    low, high = 0, 1
    while high < MOST_STEPS and not fails(backend, part, high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(backend, part, middle) else (middle, high)
    return high


def of_script(text: str, setting: ScriptSetting, transport: LocalTransport) -> str:
    """The part that a script under torch's compiler fails in; `transport` is that of the reduction. Raises IsolationError."""
    if transport.ask(FRESH, Candidate("part", text.encode())).result().verdict is Verdict.BORING:
        return "dynamo: guards"
    if not setting.backend and "backend" in text:
        forced = transport.ask(UNDER_INDUCTOR, Candidate("part", text.encode())).result()
        return OF_SCRIPT if forced.verdict is Verdict.BORING else "inductor"
    return _WHOLE.get(setting.backend, setting.backend or "inductor")
