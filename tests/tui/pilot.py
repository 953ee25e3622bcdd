"""Driving the app in tests: a client fed by hand, and the screen as text."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from textual.pilot import Pilot

from dynamo.trace.events import Event
from tui.app import Explorer
from tui.client import Take, Update


class FakeClient:
    """Delivers what it is given, when it is told to."""

    name = "fake"

    def __init__(self, *first: Update, is_live: bool = True) -> None:
        self.is_live = is_live
        self._first = first
        self.take: Take | None = None
        self.stopped = False

    def start(self, take: Take) -> None:
        self.take = take
        self.send(*self._first)

    def send(self, *updates: Update) -> None:
        assert self.take is not None
        for update in updates:
            self.take(update)

    def stop(self) -> None:
        self.stopped = True


Steps = Callable[[Explorer, Pilot[Any]], Awaitable[None]]


def drive(client: FakeClient, steps: Steps, size: tuple[int, int] = (80, 24)) -> Explorer:
    """Run the app headless with the given steps."""
    app = Explorer(client)

    async def go() -> None:
        async with app.run_test(size=size) as pilot:
            await settle(app, pilot)
            await steps(app, pilot)

    asyncio.run(go())
    return app


async def settle(app: Explorer, pilot: Pilot[Any]) -> None:
    """Show everything that has been sent so far."""
    await pilot.pause()
    app.drain()
    await pilot.pause()


def screen_text(app: Explorer) -> str:
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


def sent(events: list[Event]) -> FakeClient:
    return FakeClient(*events)
