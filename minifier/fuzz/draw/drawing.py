"""Programs by number: number N of a seed is always the same program.

Hypothesis draws a block at a time, since what it draws depends on what it has drawn before. Kinds take turns by their shares.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from minifier.fuzz.draw.kinds import KINDS
from minifier.fuzz.draw.scripts import script_of

BLOCK = 24
_SETTINGS = settings(
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
    kind = KINDS[block.kind]
    if kind.in_turn is not None:
        first = block.number * BLOCK
        return [_last(kind.in_turn(n), f"{block.kind} {block.seed} {n}", 2, block.engine) for n in range(first, first + BLOCK)]
    assert kind.strategy is not None
    found = _drawn(kind.strategy(frozenset(block.ops)), f"{block.kind} {block.seed} {block.number}", BLOCK + 1, block.engine)
    rest = found[1:]  # the first one is the plainest of all, the same in every block
    unique = [None if text in rest[:i] else text for i, text in enumerate(rest)]
    return [*unique, *[None] * BLOCK][:BLOCK]


def _last(strategy: SearchStrategy[str], name: str, count: int, engine: str) -> str | None:
    found = _drawn(strategy, name, count, engine)
    return found[-1] if found else None


def _drawn(strategy: SearchStrategy[str], name: str, count: int, engine: str) -> list[str]:
    """That many scripts, always the same for a name; the first is the plainest of all."""
    found: list[str] = []

    @seed(zlib.crc32(name.encode()))
    @settings(_SETTINGS, max_examples=count)
    @given(strategy)
    def collect(text: str) -> None:
        found.append(script_of(text, engine))

    collect()
    return found
