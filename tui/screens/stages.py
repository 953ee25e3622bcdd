"""What the stages of a compile made: a list of texts, the chosen one with its colours, and the source it came from."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Footer, Static

from dynamo.trace.artefacts import Artefact
from dynamo.trace.model import Item, Place, Run
from tui.artefact_rows import artefact_rows, choices, first_own_line, list_rows
from tui.keys import KEYS
from tui.screens.pane_screen import PaneScreen
from tui.widgets.row_pane import RowPane
from tui.widgets.search_bar import SearchBar
from tui.widgets.source_pane import SourcePane

ACTIONS = ("quit", "help", "next_pane(1)", "next_pane(-1)", "search", "match(1)", "match(-1)", "zoom")


class ArtefactList(RowPane):
    """Its cursor decides what the text pane shows."""

    HELP = "what each stage made, in order: graphs, loop IR, generated code, guards; then the decisions with reasons. enter: the text."

    class Opened(Message):
        """The text of this row is wanted."""

    def action_fold(self) -> None:
        self.post_message(self.Opened())


class TextPane(RowPane):
    """One text."""

    HELP = "one text of a stage. moving marks the source lines that a line came from; the comments of kernels and loop IR name them."


class StagesScreen(PaneScreen):
    """A view of one compile, or of all of them, live or stored."""

    NAMES = ("artefacts", "text", "source")
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (90, "-wide")]
    BINDINGS = [
        *(Binding(k.keys, k.action, k.footer or k.text, bool(k.footer), priority="tab" in k.keys) for k in KEYS if k.action in ACTIONS),
        Binding("escape,s", "back", "back", show=True),
    ]
    DEFAULT_CSS = """
    StagesScreen { layers: base; }
    StagesScreen #body { height: 1fr; }
    StagesScreen #artefacts { width: 42; }
    StagesScreen #beside { width: 1fr; }
    StagesScreen #text { height: 2fr; }
    StagesScreen #source { height: 1fr; }
    StagesScreen #found { height: 1; background: $panel; }
    StagesScreen.-narrow #artefacts { width: 100%; }
    """

    def __init__(self, run: Run, item: Item) -> None:
        super().__init__()
        self._run, self._item = run, item
        self._choices: list[Artefact] = []
        self._shown = ""

    def compose(self) -> ComposeResult:
        with Horizontal(id="body"):
            yield ArtefactList(f"stages of {self._item.compile_id or 'the run'}", "artefacts")
            with Vertical(id="beside"):
                yield TextPane("text", "text")
                yield SourcePane()
        yield SearchBar()
        yield Static("", id="found", markup=False)
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self.refresh_run()
        found = [i for i, a in enumerate(self._choices) if a.graph_id == self._item.graph_id != ""]
        self.pane("artefacts").cursor = found[0] if found else 0
        self.pane("artefacts").focus()
        self.lay_out()

    def enter_pane(self, pane: RowPane) -> None:
        self._active = str(pane.id)
        self.query_one("#beside").display = True
        pane.display = True
        pane.focus()

    def say_found(self, text: str) -> None:
        self.query_one("#found", Static).update(text)

    def refresh_run(self) -> None:
        """Show the model as it is now."""
        self._choices = choices(self._run, self._item)
        self.pane("artefacts").show_rows(list_rows(self._choices))
        self._show_text()

    @property
    def chosen(self) -> Artefact | None:
        cursor = self.pane("artefacts").cursor
        return self._choices[cursor] if cursor < len(self._choices) else None

    def _show_text(self) -> None:
        chosen, text = self.chosen, self.pane("text")
        text.border_title = f"{chosen.title}  {chosen.graph_id or chosen.compile_id}" if chosen is not None else "text"
        text.show_rows(artefact_rows(self._run, chosen))
        if chosen is not None and chosen.key != self._shown:
            self._shown = chosen.key
            start = first_own_line(text.rows) if chosen.language == "c" else 0
            with text.prevent(RowPane.Moved):
                text.cursor = start
            text.scroll_to(y=start, animate=False, force=True)
        self._link(text)

    def on_row_pane_moved(self, message: RowPane.Moved) -> None:
        if message.pane.id == "artefacts":
            self._show_text()
        else:
            self._link(message.pane)

    def _link(self, pane: RowPane) -> None:
        """Mark in the other of text and source what belongs to the cursor's line; before that the source shows the item's own file."""
        source = self.query_one(SourcePane)
        if not source.rows:
            source.show(self._run, self._item)
        places: frozenset[Place] = pane.row.places if pane.row is not None else frozenset()
        other = self.pane("text") if pane is source else source
        other.mark(places)
        pane.mark(frozenset())

    def on_descendant_focus(self) -> None:
        if isinstance(self.focused, RowPane) and self.focused.id in self.NAMES:
            self._active = self.focused.id
            self.lay_out()

    def lay_out(self) -> None:
        alone = self._zoomed or self.has_class("-narrow")
        for name in self.NAMES:
            self.pane(name).display = name == self._active or not alone
        self.query_one("#beside").display = self._active != "artefacts" or not alone

    def on_artefact_list_opened(self) -> None:
        self.action_next_pane(1)

    def action_back(self) -> None:
        if self.active_pane.pattern:
            self.clear_search()
        elif self._zoomed:
            self.action_zoom()
        else:
            self.dismiss()
