"""A check for debugging: what a call of ours leaves of torch's global state is what the program leaves there, and nothing else.

With `config.check_surroundings` every compile, every run of a compiled graph and of its backward is compared before and after: a compile
leaves everything as it was, a graph leaves the modes that its trace ended with, and one that raises leaves what it found. A difference is
an internal error, named and put right. What the program's own code does between graphs is its own. Compiled code without the option has
nothing of this in it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dynamo import internal_errors
from dynamo.skipped import user_place
from dynamo.surroundings.modes import MODES, snapshot, surroundings

Left = Sequence[tuple[int, Any]]  # rows of MODES that the program leaves changed: (row, value or difference)


class SurroundingsChanged(RuntimeError):
    """Global state that nobody asked to change is different after a call."""


@contextmanager
def unchanged(what: str, compile_id: str, left: Left = (), free: Collection[str] = ()) -> Iterator[None]:
    """`left` is what the code inside has to change, `free` names state that it may change."""
    before, restore = surroundings(), snapshot()
    try:
        yield
    except BaseException:
        _compare(before, surroundings(), what, compile_id, restore, free)
        raise
    expected = dict(before)
    for row, value in left:
        mode = MODES[row]
        expected[mode.name] = before[mode.name] + value if mode.is_depth else value
    _compare(expected, surroundings(), what, compile_id, restore, {*free, *(_keys_of(left))})


def _keys_of(left: Left) -> tuple[str, ...]:
    """Dispatch keys follow from the modes."""
    return ("dispatch keys included", "dispatch keys excluded") if left else ()


def _compare(
    expected: dict[str, Any], found: dict[str, Any], what: str, compile_id: str, restore: Callable[..., None], free: Collection[str]
) -> None:
    wrong = {name: (expected[name], value) for name, value in found.items() if name not in free and value != expected[name]}
    if not wrong:
        return
    restore()
    text = "; ".join(f"{name} is {now}, not {old}" for name, (old, now) in wrong.items())
    internal_errors.report("DD096", SurroundingsChanged(text), what, compile_id, *user_place())


def watched(run: Callable[..., Any], what: str, compile_id: str, left: Left = (), free: Collection[str] = ()) -> Callable[..., Any]:
    """The function with the comparison around each call."""

    def call(*args: Any) -> Any:
        with unchanged(what, compile_id, left, free):
            return run(*args)

    vars(call).update(vars(run) if hasattr(run, "__dict__") else {})
    return call
