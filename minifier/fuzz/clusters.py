"""Failures that are one bug: the same stage, the same signature, the same decision to blame."""

from __future__ import annotations

from dataclasses import replace

from minifier.engine import Candidate, Kind, Outcome, Transport, Verdict
from minifier.fuzz.trial import CULPRIT, JUDGE, Question
from minifier.fuzz.types import Cluster, Failure, Target

# Of failures with these signatures another decision may be to blame; a crash says where it happened.
_TELL_LITTLE = (Kind.ACCURACY, Kind.EXCEPTION)


def staged(failure: Failure, target: Target, transport: Transport) -> Failure:
    """The failure with its stage: that of the shortest part of the compiler that shows it."""
    for stage, shorter in target.shorter:
        if _ask(failure, shorter, JUDGE, transport).verdict is Verdict.INTERESTING:
            return replace(failure, stage=stage)
    return replace(failure, stage=target.last)


def cluster_of(failure: Failure, clusters: list[Cluster], target: Target, transport: Transport) -> tuple[Failure, Cluster | None]:
    """The cluster that a failure belongs to, if there is one.

    Who is to blame is searched for only where failures look alike: it takes a dozen compiles.
    """
    alike = [c for c in clusters if c.first.key[:2] == failure.key[:2]]
    if not alike:
        return failure, None
    failure = _blamed(failure, target, transport)
    for cluster in alike:
        if cluster.first.culprit is None:
            cluster.first = _blamed(cluster.first, target, transport)
    return failure, next((c for c in alike if c.first.culprit == failure.culprit), None)


def _blamed(failure: Failure, target: Target, transport: Transport) -> Failure:
    """The failure with its culprit, '' where nothing of ours decides or no single decision is to blame."""
    is_ours = target.engine == "dynamo" and target.backend == "inductor" and failure.stage == target.last
    if not is_ours or failure.signature.kind not in _TELL_LITTLE:
        return replace(failure, culprit="")
    found = _ask(failure, target.backend, CULPRIT, transport)
    return replace(failure, culprit=found.detail if found.verdict is Verdict.BORING else "")


def _ask(failure: Failure, backend: str, what: str, transport: Transport) -> Outcome:
    return transport.submit(Candidate(what, Question(failure.drawn.script, backend, what).encode())).result()
