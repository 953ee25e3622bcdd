"""How a failure looks: the typed signature that every accepted candidate must keep."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class Kind(Enum):
    """In what way something failed."""

    EXCEPTION = "exception"
    SIGNAL = "signal"
    EXIT = "exit"
    HANG = "hang"
    MEMORY = "memory"
    ACCURACY = "accuracy"
    PREDICATE = "predicate"


class Keep(Enum):
    """How much of a signature a smaller candidate must keep."""

    LOOSE = "loose"  # kind, exception types, signal or exit code, accuracy class
    STANDARD = "standard"  # the same, and the innermost function or the message
    EXACT = "exact"  # everything
    REGEX = "regex"  # kind, and a pattern found in the message


@dataclass(frozen=True)
class Signature:
    """One failure. Empty fields are unknown, and equal only to unknown ones.

    `exceptions` are type names, outermost first, then its causes. `frame` is the innermost function. `accuracy` is the class of a wrong
    result (value, nan, dtype, ...). `message` has numbers, addresses and names of nodes taken out (`normalised`).
    """

    kind: Kind
    exceptions: tuple[str, ...] = ()
    message: str = ""
    frame: str = ""
    code: int = 0
    accuracy: str = ""
    stage: str = ""

    def __str__(self) -> str:
        where = f" in {self.frame}" if self.frame else ""
        code = f" {self.code}" if self.code else ""
        names = " from ".join(self.exceptions) or self.kind.value + code + (f" ({self.accuracy})" if self.accuracy else "")
        return f"{names}{where}" + (f": {self.message}" if self.message else "")

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` gives the signature back."""
        return {**asdict(self), "kind": self.kind.value}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Signature:
        """Raises ValueError, TypeError or KeyError for data that `to_json` did not make."""
        return cls(**{**data, "kind": Kind(data["kind"]), "exceptions": tuple(data["exceptions"])})

    def text(self) -> str:
        """One line of JSON, the same for equal signatures."""
        return json.dumps(self.to_json(), sort_keys=True)


@dataclass(frozen=True)
class Rule:
    """Which signatures count as the failure that is being reduced."""

    keep: Keep = Keep.STANDARD
    pattern: str = ""

    def holds(self, wanted: Signature, found: Signature) -> bool:
        """Whether `found` is the failure `wanted`."""
        if self.keep is Keep.REGEX:
            return wanted.kind is found.kind and re.search(self.pattern, found.message) is not None
        if self.keep is Keep.EXACT:
            return wanted == found
        if _outline(wanted) != _outline(found):
            return False
        return self.keep is Keep.LOOSE or wanted.message == found.message or (wanted.frame == found.frame != "")


def _outline(s: Signature) -> tuple[Any, ...]:
    return s.kind, s.exceptions, s.code, s.accuracy, s.stage


_PATHS = re.compile(r"(?:/[\w.+@-]+)+/(?=[\w.+@-])")
_ADDRESSES = re.compile(r"0x[0-9a-fA-F]+")
_COUNTED = re.compile(r"(?<=[A-Za-z])_\d+\b")
_NUMBERS = re.compile(r"\b[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?\b")
_LISTS = re.compile(r"[\[(]N(?:, ?N)*,?[\])]")
_REFUSED = re.compile(r"^(?:.*:\d+:\d+|\S*(?:gcc|g\+\+|clang|cc1|ld|collect2)\S*): (?:fatal )?(error: .+)$", re.MULTILINE)
_FUNCTION = re.compile(r": In .*?function .*?(\w+)(?:\(.*)?['’]:$", re.MULTILINE)
_BEHIND = re.compile(r"\n\s*(?:from user code:\n|Set TORCHDYNAMO_VERBOSE=).*", re.DOTALL)
_VARIABLE = re.compile(r"(?<=[A-Za-z])\d+(?=\b|_part\b)")
LONGEST = 500


def normalised(message: str) -> str:
    """A message without what changes from one candidate to the next: numbers, shapes, addresses, folders, counters of node names, and the
    user's lines that torch's compiler puts behind its own. Of what a C or C++ compiler says it is the first error, with the function that
    it is in."""
    message = _BEHIND.sub("", message)
    refused = _REFUSED.search(message)
    text = message if refused is None else _refusal(message[: refused.start()], refused[1])
    text = _PATHS.sub("", text)
    text = _ADDRESSES.sub("ADDRESS", text)
    text = _COUNTED.sub("", text)
    text = _NUMBERS.sub("N", text)
    text = _LISTS.sub("[N]", text)
    return " ".join(text.split())[:LONGEST]


def _refusal(before: str, error: str) -> str:
    functions = _FUNCTION.findall(before)
    return _VARIABLE.sub("", f"{functions[-1]}: {error}" if functions else error)


_GENERATED = re.compile(r"(?<=>)\.\d+$")
_BY_CONTENT = re.compile(r"c[a-z2-7]{51}\.py")  # what torch's compiler calls files that it writes


def frame_name(file: str, function: str) -> str:
    """The name of a frame. torch.fx counts its generated files (`<eval_with_key>.3`); the count differs from one process to the next. Those
    of its compiler have names made of what is in them."""
    return f"{'<compiled>' if _BY_CONTENT.fullmatch(file) else _GENERATED.sub('', file)}:{function}"


def exception_names(chain: Sequence[BaseException]) -> tuple[str, ...]:
    """Type names as a traceback shows them: with the module, unless it is builtins. A class that goes by several has its `own_name`."""
    return tuple(getattr(type(e), "own_name", "") or _shown(type(e)) for e in chain)


def _shown(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def chain_of(error: BaseException) -> list[BaseException]:
    """An exception and what it came from, in the order a traceback would name them from the bottom up."""
    chain: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in chain:
        chain.append(following)
        following = following.__cause__ or (None if following.__suppress_context__ else following.__context__)
    return chain
