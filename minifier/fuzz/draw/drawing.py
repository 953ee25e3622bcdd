"""Programs by number: number N of a seed is always the same program.

Hypothesis draws a block at a time, since what it draws depends on what it has drawn before. Kinds take turns by their shares.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, given, seed, settings

from minifier.fuzz.draw.kinds import KINDS
from minifier.fuzz.draw.scripts import script_of

BLOCK = 24
_SETTINGS = settings(
    max_examples=BLOCK + 1,
    deadline=None,
    database=None,
    print_blob=False,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)


@dataclass(frozen=True)
class Block:
    """Some programs of one kind. `ops` restricts the operators of kinds that take them."""

    kind: str
    seed: int
    number: int
    ops: tuple[str, ...] = ()
    engine: str = "dynamo"


def places(kinds: Sequence[str], first: int) -> Iterator[tuple[int, str, int, int]]:
    """(number, kind, block, position in the block) of every program from `first` on."""
    pattern = [k for k in kinds for _ in range(KINDS[k].share)]
    seen = [pattern[:i].count(k) for i, k in enumerate(pattern)]
    number = first
    while True:
        turn, at = divmod(number, len(pattern))
        kind = pattern[at]
        block, position = divmod(turn * KINDS[kind].share + seen[at], BLOCK)
        yield number, kind, block, position
        number += 1


def drawn(block: Block) -> list[str | None]:
    """The scripts of a block, by position; None where Hypothesis gave a program a second time, or fewer than there are positions."""
    found: list[str] = []

    @seed(zlib.crc32(f"{block.kind} {block.seed} {block.number}".encode()))
    @settings(_SETTINGS)
    @given(KINDS[block.kind].strategy(frozenset(block.ops)))
    def collect(text: str) -> None:
        found.append(script_of(text, block.engine))

    collect()
    rest = found[1:]  # the first one is the plainest of all, the same in every block
    unique = [None if text in rest[:i] else text for i, text in enumerate(rest)]
    return [*unique, *[None] * BLOCK][:BLOCK]
