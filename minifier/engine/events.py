"""What a reduction tells while it runs, and what it has found at its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic

from minifier.engine.problem import S, Size
from minifier.engine.signature import Signature
from minifier.engine.transport import Verdict


@dataclass(frozen=True)
class Calibrated:
    """The start was run `runs` times and failed `hits` times; `tries` misses in a row now reject a candidate."""

    runs: int
    hits: int
    tries: int
    longest: float
    signature: Signature | None


@dataclass(frozen=True)
class Decided:
    """A candidate was decided. `left` seconds to go, as far as anybody can tell; None: no idea."""

    pass_name: str
    label: str
    verdict: Verdict
    size: Size
    calls: int
    seconds: float
    left: float | None


@dataclass(frozen=True)
class OtherFailure:
    """A candidate failed in another way than the start. It is kept in the journal and not followed."""

    signature: Signature
    key: str


Event = Calibrated | Decided | OtherFailure
Listener = Callable[[Event], None]


class Status(Enum):
    """How a reduction ended."""

    MINIMAL = "minimal"  # no single step makes the state smaller and keeps the failure
    BEST_SO_FAR = "best so far"  # time or calls ran out
    INTERRUPTED = "interrupted"
    NOT_REPRODUCED = "not reproduced"  # the start never failed
    UNDISCERNING = "undiscerning"  # the oracle calls an empty candidate interesting too


@dataclass(frozen=True)
class Rejected:
    """One single step of the final state and the answer that rules it out. `key` finds the candidate's row in the journal."""

    pass_name: str
    label: str
    key: str
    verdict: Verdict


@dataclass(frozen=True)
class Certificate:
    """1-minimality: every single step of every pass that makes the final state smaller. A failure was looked for `tries` times in each."""

    steps: tuple[Rejected, ...]
    tries: int


@dataclass(frozen=True)
class Result(Generic[S]):
    """The end of a reduction. `state` fails with `signature` unless `status` says that nothing was found.

    `calls` counts runs of the oracle, `distinct` the candidates decided by them, `cached` answers that came from the journal. `curve`
    has a (seconds, calls, size) for every state on the way. `others` are signatures of other failures with the key of the smallest
    candidate that showed each.
    """

    status: Status
    state: S
    size: Size
    signature: Signature | None
    certificate: Certificate | None
    calls: int
    distinct: int
    cached: int
    seconds: float
    hits: int
    runs: int
    curve: tuple[tuple[float, int, Size], ...] = ()
    others: dict[Signature, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The numbers, without the state."""
        return {
            "status": self.status.value,
            "size": list(self.size),
            "signature": None if self.signature is None else self.signature.to_json(),
            "oracle_calls": self.calls,
            "distinct_calls": self.distinct,
            "seconds": round(self.seconds, 3),
            "reproduction_rate": self.hits / self.runs if self.runs else 0.0,
            "one_minimal": self.certificate is not None,
            "other_failures": [str(s) for s in self.others],
        }
