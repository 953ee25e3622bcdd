"""The Textual app: takes updates from a client and hands the model to its screen."""

from __future__ import annotations

from collections import deque

from textual.app import App

from dynamo.trace.events import Event, RunEnded
from dynamo.trace.model import Run
from tui.client import Client, Ended, Output, Problem, Update
from tui.screens.explorer import ExplorerScreen
from tui.screens.output import OutputScreen
from tui.screens.stages import StagesScreen
from tui.screens.verdict import VerdictScreen

_REFRESH = 0.1
_OUTPUT_KEPT = 1_000_000


class Explorer(App[None]):
    """`dynamo-debug tui`."""

    TITLE = "dynamo-debug"
    ENABLE_COMMAND_PALETTE = True
    ANIMATION_LEVEL = "none"

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.animation_level = "none"
        self.client = client
        self.model = Run()
        self.model.live = client.is_live
        self.explorer = ExplorerScreen(self.model)
        # Filled by the client's threads, emptied by the app's own.
        self._updates: deque[Update] = deque()

    def on_mount(self) -> None:
        self.push_screen(self.explorer)
        self.client.start(self._updates.append)
        self.set_interval(_REFRESH, self.drain)

    def on_unmount(self) -> None:
        self.client.stop()

    def drain(self) -> None:
        """Take what has arrived since the last time and show it."""
        if not self._updates or not self.explorer.is_mounted:
            return
        while self._updates:
            self._take(self._updates.popleft())
        self.explorer.refresh_run()
        if isinstance(self.screen, StagesScreen | OutputScreen | VerdictScreen):
            self.screen.refresh_run()

    def _take(self, update: Update) -> None:
        match update:
            case Output(text):
                self.explorer.output = (self.explorer.output + text)[-_OUTPUT_KEPT:]
            case Problem(text):
                self.model.problems.append(text)
            case Ended(code, error):
                if self.model.exit != code:
                    self.model.add(RunEnded(code, error or self.model.error))
            case Event():
                self.model.add(update)
