"""The reduction engine: makes anything small that has an order, edits and an oracle. Imports neither torch nor our other packages."""

from __future__ import annotations

from minifier.engine.choices import Choices
from minifier.engine.events import Calibrated, Certificate, Decided, Event, Listener, OtherFailure, Rejected, Result, Status
from minifier.engine.journal import Journal, JournalError
from minifier.engine.minimise import Options, minimise
from minifier.engine.numbers import Lower
from minifier.engine.problem import Candidate, Cursor, Pass, Problem, Size, Step, candidate_of
from minifier.engine.signature import Keep, Kind, Rule, Signature
from minifier.engine.sweep import Edit, Sweep
from minifier.engine.transport import FunctionTransport, Outcome, Transport, Verdict

__all__ = [
    "Calibrated",
    "Candidate",
    "Certificate",
    "Choices",
    "Cursor",
    "Decided",
    "Edit",
    "Event",
    "FunctionTransport",
    "Journal",
    "JournalError",
    "Keep",
    "Kind",
    "Listener",
    "Lower",
    "Options",
    "OtherFailure",
    "Outcome",
    "Pass",
    "Problem",
    "Rejected",
    "Result",
    "Rule",
    "Signature",
    "Size",
    "Status",
    "Step",
    "Sweep",
    "Transport",
    "Verdict",
    "candidate_of",
    "minimise",
]
