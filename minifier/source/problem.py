"""Source as a problem for the engine: its order, and the passes in the order in which they pay."""

from __future__ import annotations

from collections.abc import Sequence

from minifier.engine import Pass, Problem, Size
from minifier.source.calls import call_pass, lambda_pass, target_pass
from minifier.source.definitions import callable_pass, parameter_pass, unused_pass
from minifier.source.lines import argument_pass, copy_pass, decorator_pass, one_liner_pass
from minifier.source.parts import expression_pass, item_pass, literal_pass, number_pass, trimming_pass
from minifier.source.shortcuts import method_pass, stand_in_pass
from minifier.source.state import Source, parsed
from minifier.source.statements import block_pass, inline_pass, statement_pass

STRUCTURE = (
    unused_pass,
    stand_in_pass,
    callable_pass,
    statement_pass,
    block_pass,
    inline_pass,
    method_pass,
    call_pass,
    lambda_pass,
    target_pass,
)
DETAILS = (trimming_pass, item_pass, parameter_pass, expression_pass, literal_pass, number_pass)
LINES = (copy_pass, decorator_pass, one_liner_pass, argument_pass)


class SourceProblem(Problem[Source]):
    """A module under the given passes."""

    def __init__(self, passes: Sequence[Pass[Source]] | None = None) -> None:
        self.passes = [make() for make in STRUCTURE + DETAILS + LINES] if passes is None else passes

    def size(self, state: Source) -> Size:
        """Lines, tokens, characters, the text."""
        return state.size

    def serialise(self, state: Source) -> bytes:
        return state.text.encode()

    def restore(self, data: bytes) -> Source:
        """Raises SourceError, UnicodeDecodeError."""
        return parsed(data.decode())
