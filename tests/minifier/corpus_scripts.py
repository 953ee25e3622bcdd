"""Running the script of a case alone, with its fault on or off."""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from dynamo.faults import planting
from minifier.corpus.manifest import Case
from minifier.engine import Candidate, Kind, Outcome, Verdict
from minifier.isolation import Limits, LocalTransport, OracleSpec
from minifier.isolation.child import failure, stage

HEALTHY = "healthy"
PATIENCE = 20.0  # seconds after which a script counts as one that never ends
_ENDS = {Kind.EXCEPTION: "exit 1", Kind.MEMORY: "exit 1", Kind.HANG: "timeout"}


@contextmanager
def scripts(folder: Path, jobs: int = 1, fresh: bool = False, timeout: float = PATIENCE) -> Iterator[LocalTransport]:
    """What runs scripts, each in a process of its own; with `fresh` each in a new interpreter. Files are made below `folder`."""
    spec = OracleSpec("tests.minifier.corpus_scripts:ask", warm=("tests.minifier.corpus_scripts:warm",), name="case.json")
    transport = LocalTransport(spec, folder, jobs, Limits(timeout), fresh)
    try:
        yield transport
    finally:
        transport.close()


def ends_of(transport: LocalTransport, cases: Sequence[Case], faulty: bool) -> list[Outcome]:
    """How the scripts end, in the order of the cases."""
    payloads = [{"script": str(c.script.absolute()), "environment": dict(c.environment) if faulty else {}} for c in cases]
    runs = [transport.submit(Candidate(f"{c.name}", json.dumps(p).encode())) for c, p in zip(cases, payloads, strict=True)]
    return [run.result() for run in runs]


def end_of(outcome: Outcome) -> str:
    """An outcome in the words of manifests."""
    signature = outcome.signature
    if signature is None or outcome.verdict is Verdict.BORING:
        return HEALTHY
    return _ENDS.get(signature.kind) or f"{signature.kind.value} {signature.code}"


def complaint(case: Case, outcome: Outcome, faulty: bool) -> str:
    """In what a run of the script is not what the manifest says; '' if in nothing."""
    wanted, found = case.ends if faulty else HEALTHY, end_of(outcome)
    if found != wanted:
        return f"{case.name}: ends with {found}, expected {wanted}: {outcome.detail[-600:]}"
    if faulty and case.says not in outcome.detail:
        return f"{case.name}: does not say {case.says!r}: {outcome.detail[-600:]}"
    return ""


def warm() -> None:
    """What scripts import, imported; one thread, since teams of threads don't survive a fork."""
    torch.set_num_threads(1)


def ask(path: Path) -> Outcome:
    """Run the script of the candidate at `path` as a program, in this process."""
    request = json.loads(path.read_text())
    stage("script", counts=True)
    os.environ.update(request["environment"])
    script = request["script"]
    sys.argv = [script]
    sys.path[0] = os.path.dirname(script)
    try:
        with planting.planted(os.environ.get(planting.VARIABLE, "")):
            runpy.run_path(script, run_name="__main__")
    except Exception as e:  # noqa: BLE001  # this is what is asked for
        return Outcome(Verdict.INTERESTING, failure(e, "script"), detail=f"{type(e).__name__}: {e}")
    return Outcome(Verdict.BORING)
