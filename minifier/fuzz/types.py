"""What fuzzing works with: what is asked for, programs, failures, clusters of failures, and the summary."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from minifier.engine import Signature
from minifier.ladder.rungs import LAST, OF_A_BACKEND, SHORTER

EQUAL, INVALID, FAILED = "equal", "invalid", "failed"
OUTCOMES = (EQUAL, INVALID, FAILED)
CERTIFIED, FLAKY, UNCERTIFIED = "certified", "flaky", "not certified"


@dataclass(frozen=True)
class Target:
    """What is tried out. `backend` is a name or `module:function`; `engine` `dynamo` (ours) or `torch`."""

    backend: str = "inductor"
    engine: str = "dynamo"

    @property
    def shorter(self) -> tuple[tuple[str, str], ...]:
        """Stages before the last, with the backend that goes no further, the shortest first."""
        return SHORTER.get(self.backend, ())

    @property
    def last(self) -> str:
        """The stage of what fails under no shorter backend."""
        return LAST.get(self.backend, OF_A_BACKEND)

    def to_json(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True)
class Drawn:
    """A program: number `number` of a seed. `script` is the whole text, a script that fails where compiled code differs from eager."""

    number: int
    kind: str
    script: str


@dataclass(frozen=True)
class Failure:
    """A program that fails, and how. `culprit` is the decision of the compiler that makes it fail, without its numbers; '' where no single
    one does, None where nobody has asked. `eager_raises`: the program ends with an exception in eager."""

    drawn: Drawn
    signature: Signature
    stage: str = ""
    culprit: str | None = None
    detail: str = ""
    eager_raises: bool = False

    @property
    def key(self) -> tuple[str, str, str | None]:
        """Failures of one key count as one bug."""
        s = self.signature
        where = s.frame or s.message
        return self.stage, json.dumps([s.kind.value, s.exceptions, s.code, s.accuracy, where]), self.culprit


@dataclass
class Cluster:
    """Failures that count as one bug: the first, and the numbers of all. The rest is what came of reducing the first.

    `status`: certified, flaky, or not certified (then `tried` says what was done). Paths are '' where nothing was written.
    """

    first: Failure
    programs: list[int] = field(default_factory=list)
    status: str = UNCERTIFIED
    stage: str = ""
    shown: str = ""
    repro: str = ""
    bundle: str = ""
    issue: str = ""
    test: str = ""
    op_nodes: int = 0
    seconds: float = 0.0
    tried: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "stage": self.stage,
            "signature": self.first.signature.to_json(),
            "culprit": self.first.culprit or "",
            "kind": self.first.drawn.kind,
            "programs": self.programs,
            "status": self.status,
            "repro": self.repro,
            "bundle": self.bundle,
            "issue": self.issue,
            "test": self.test,
            "op_nodes": self.op_nodes,
            "seconds": self.seconds,
            "detail": self.first.detail,
            "tried": list(self.tried),
        }


@dataclass(frozen=True)
class Wish:
    """What the user asks for. `seconds` is how long programs are drawn, `programs` how many at most, `first` the number of the first;
    `failures` ends the search after so many different ones. `ops` are the only operators drawn, where any are named.

    `reduction` is how many seconds one failure is made smaller for, `timeout` how many one program may take. Files go below `folder`.
    """

    target: Target = field(default_factory=Target)
    seconds: float = 600.0
    seed: int = 0
    first: int = 0
    programs: int | None = None
    failures: int | None = None
    ops: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    jobs: int = 2
    folder: Path = Path("fuzzed")
    reduction: float = 180.0
    timeout: float = 60.0


@dataclass
class Summary:
    """What came of it. `outcomes` counts programs; `next_number` is the first that was not drawn."""

    wish: Wish
    outcomes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    by_kind: dict[str, int] = field(default_factory=dict)
    clusters: list[Cluster] = field(default_factory=list)
    seconds: float = 0.0
    searching: float = 0.0
    next_number: int = 0
    is_interrupted: bool = False

    @property
    def programs(self) -> int:
        return sum(self.outcomes.values())

    def to_json(self) -> dict[str, Any]:
        """What `fuzz --json` prints."""
        wish = self.wish
        return {
            "engine": wish.target.engine,
            "backend": wish.target.backend,
            "seed": wish.seed,
            "first": wish.first,
            "next": self.next_number,
            "programs": self.programs,
            "outcomes": self.outcomes,
            "kinds": self.by_kind,
            "seconds": round(self.seconds, 3),
            "searching_seconds": round(self.searching, 3),
            "interrupted": self.is_interrupted,
            "clusters": [c.to_json() for c in self.clusters],
        }
