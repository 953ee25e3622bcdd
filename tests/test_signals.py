"""Signal handlers of the program that run while this compiler works: what they raise is the program's, at the place of the call."""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import dynamo
from dynamo import _C
from dynamo.surroundings.signals import let_through, of_handler
from dynamo.trace import events as ev
from dynamo.trace.stream import StreamWriter, read_stream


class Late(Exception):
    pass


def ring(number: int, frame: Any) -> None:
    raise Late


class Alarm:
    def __call__(self, *given: Any) -> None:
        raise Late

    def rings(self, number: int, frame: Any) -> None:
        self(number, frame)


def named(word: str, number: int, frame: Any) -> None:
    raise Late(word)


HANDLERS: dict[str, Callable[..., None]] = {
    "function": ring,
    "object": Alarm(),
    "method": Alarm().rings,
    "partial": functools.partial(named, "late"),
}


@pytest.fixture
def handler() -> Iterator[Callable[[Callable[..., None]], None]]:
    before = signal.getsignal(signal.SIGUSR1)
    yield lambda h: signal.signal(signal.SIGUSR1, h) and None
    signal.signal(signal.SIGUSR1, before)


def caught(call: Callable[[], object]) -> BaseException:
    try:
        call()
    except Exception as e:  # noqa: BLE001  # whatever the call raises is what is looked at
        return e
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("name", HANDLERS)
@pytest.mark.parametrize("fullgraph", [False, True])
def test_what_a_handler_raises_ends_the_call_and_no_more(handler: Any, name: str, fullgraph: bool) -> None:
    rings = [True]

    def backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        if rings:
            rings.clear()
            signal.raise_signal(signal.SIGUSR1)
        return gm.forward

    f = dynamo.compile(lambda x: x.sin() + 1, backend=backend, fullgraph=fullgraph)
    handler(HANDLERS[name])
    error = caught(lambda: f(torch.ones(2)))

    assert type(error) is Late
    assert error.__cause__ is None and error.__context__ is None
    assert torch.equal(f(torch.ones(2)), torch.ones(2).sin() + 1)
    assert not rings


class Slow:
    """Asked while something is captured that knows it, it rings."""

    def __init__(self) -> None:
        self.rings = True

    def __hash__(self) -> int:
        if self.rings:
            self.rings = False
            signal.raise_signal(signal.SIGUSR1)
        return 1


def test_nothing_that_is_asked_while_tracing_hides_it(handler: Any) -> None:
    slow = Slow()
    f = dynamo.compile(lambda x: x + hash(slow), backend="eager")
    handler(ring)

    assert type(caught(lambda: f(torch.ones(2)))) is Late
    assert torch.equal(f(torch.ones(2)), torch.full((2,), 2.0))


def test_what_the_program_caught_before_is_not_raised_again(handler: Any) -> None:
    def failing(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        raise ValueError("no")

    handler(ring)
    try:
        signal.raise_signal(signal.SIGUSR1)
    except Late:
        error = caught(lambda: dynamo.compile(torch.sin, backend=failing)(torch.ones(1)))

    assert type(error) is dynamo.BackendError
    assert of_handler(error) is None


def test_an_error_made_of_it_gives_it_back(handler: Any) -> None:
    def wrapped() -> None:
        try:
            signal.raise_signal(signal.SIGUSR1)
        except Late as e:
            raise RuntimeError("wrapped") from e

    handler(ring)
    error = caught(wrapped)

    assert type(caught(lambda: let_through(error))) is Late
    let_through(ValueError("not raised by anybody"))


def test_a_handler_that_emits_while_an_event_is_written_neither_hangs_nor_cuts_it(handler: Any, tmp_path: Path) -> None:
    """The pipe is full, so the signal comes while the line is being written."""
    reading, writing = os.pipe()
    writer = StreamWriter(writing, _C.write_whole)
    handler(lambda number, frame: writer(ev.Note("N", "inner", t=0.0)))
    main = threading.get_ident()
    found: list[Any] = []

    def read() -> None:
        signal.pthread_kill(main, signal.SIGUSR1)
        with open(reading, "rb") as pipe:
            found.extend(read_stream(pipe))

    reader = threading.Timer(0.3, read)
    reader.start()
    writer(ev.Note("N", "x" * 300_000, t=0.0))
    writer.close()
    reader.join()

    assert [len(e.message) for e in found] == [300_000, 5]
