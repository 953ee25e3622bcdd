"""The main screen: a tree and four panes, linked by source line."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Grid, Horizontal
from textual.widgets import Footer

from dynamo.trace.model import Item, Place, Run
from tui.keys import KEYS
from tui.screens.output import OutputScreen
from tui.screens.pane_screen import PaneScreen
from tui.screens.stages import StagesScreen
from tui.screens.verdict import VerdictScreen
from tui.widgets.breaks_pane import BreaksPane
from tui.widgets.compile_tree import CompileTree
from tui.widgets.graph_pane import GraphPane
from tui.widgets.guards_pane import GuardsPane
from tui.widgets.pane_strip import PaneStrip
from tui.widgets.row_pane import ItemPane, RowPane
from tui.widgets.search_bar import SearchBar
from tui.widgets.source_pane import SourcePane
from tui.widgets.status_line import StatusLine

PANES = ("tree", "source", "graph", "guards", "breaks")
# Which panes a layout shows, given the focused pane and the last one focused besides tree and source.
LAYOUTS: dict[str, Callable[[str, str], set[str]]] = {
    "-narrow": lambda focused, detail: {focused},
    "-medium": lambda focused, detail: {"tree", "source", detail},
    "-wide": lambda focused, detail: set(PANES),
}


class ExplorerScreen(PaneScreen):
    """A view of one run. `refresh_run` is called whenever the model has grown."""

    NAMES = PANES
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (72, "-medium"), (118, "-wide")]
    # tab must reach the screen before the focused pane, which would take it for focus of its own.
    BINDINGS = [
        Binding(k.keys, k.action, k.footer or k.text, show=bool(k.footer), priority="tab" in k.keys) for k in KEYS if k.scope == "screen"
    ]
    DEFAULT_CSS = """
    ExplorerScreen { layers: base; }
    #main { height: 1fr; }
    #tree { width: 34%; }
    #panes { width: 1fr; grid-gutter: 0; }
    ExplorerScreen.-wide #panes { grid-size: 2 2; }
    ExplorerScreen.-medium #panes { grid-size: 1 2; }
    ExplorerScreen.-narrow #panes { grid-size: 1 1; }
    ExplorerScreen.-narrow #tree { width: 100%; }
    ExplorerScreen.zoomed #panes { grid-size: 1 1; }
    ExplorerScreen.zoomed #tree { width: 100%; }
    ExplorerScreen.-wide PaneStrip { display: none; }
    """

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._model = run
        self._detail = "graph"
        self.output = ""

    def compose(self) -> ComposeResult:
        yield PaneStrip()
        with Horizontal(id="main"):
            yield CompileTree()
            with Grid(id="panes"):
                yield SourcePane()
                yield GraphPane()
                yield GuardsPane()
                yield BreaksPane()
        yield SearchBar()
        yield StatusLine()
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self.refresh_run()
        self.action_pane("tree")

    @property
    def compile_tree(self) -> CompileTree:
        return self.query_one(CompileTree)

    @property
    def item(self) -> Item:
        return self.compile_tree.item

    def refresh_run(self) -> None:
        """Show the model as it is now, cursors kept."""
        self.compile_tree.show(self._model)
        self._show_item()
        self._link(self.pane(self._active))
        self.query_one(PaneStrip).show(self._model, self._active)
        self.query_one(StatusLine).show(self._model)

    def _show_item(self) -> None:
        item = self.item
        for pane in self.query(ItemPane):
            pane.show(self._model, item)

    def on_row_pane_moved(self, message: RowPane.Moved) -> None:
        """A moved cursor marks related rows elsewhere; in the tree it also chooses what is shown."""
        if message.pane is self.compile_tree:
            self._show_item()
        self._link(message.pane)

    def _link(self, pane: RowPane) -> None:
        places: frozenset[Place] = pane.row.places if pane.row is not None else frozenset()
        for name in PANES[1:]:
            other = self.pane(name)
            if other is not pane:
                other.mark(places)
        pane.mark(frozenset())

    def on_descendant_focus(self) -> None:
        focused = self.focused
        if isinstance(focused, RowPane) and focused.id in PANES:
            self._active = focused.id
            if focused.id in PANES[2:]:
                self._detail = focused.id
            self.lay_out()

    def lay_out(self) -> None:
        layout = next((name for name in LAYOUTS if self.has_class(name)), "-medium")
        visible = {self._active} if self._zoomed else LAYOUTS[layout](self._active, self._detail)
        self.set_class(self._zoomed, "zoomed")
        for name in PANES:
            self.pane(name).display = name in visible
        self.query_one("#panes").display = bool(visible - {"tree"})
        self.query_one(PaneStrip).show(self._model, self._active)

    def action_pane(self, name: str) -> None:
        pane = self.pane(name)
        pane.display = True
        self.query_one("#panes").display = True
        pane.focus()

    def enter_pane(self, pane: RowPane) -> None:
        self._active = str(pane.id)
        self.action_pane(self._active)

    def say_found(self, text: str) -> None:
        status = self.query_one(StatusLine)
        status.found = text
        status.show(self._model)

    def action_back(self) -> None:
        self.clear_search()
        if self._zoomed:
            self.action_zoom()

    def action_stages(self) -> None:
        self.app.push_screen(StagesScreen(self._model, self.item))

    def action_verdict(self) -> None:
        self.app.push_screen(VerdictScreen(self._model))

    def action_output(self) -> None:
        self.app.push_screen(OutputScreen(lambda: self.output))
