"""What the panes show, without Textual."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynamo.trace import events as ev
from dynamo.trace.model import Run, items
from tests.trace.sample import run_events, write_script
from tui import rows
from tui.keys import KEYS
from tui.screens.help import help_text


def sample(tmp_path: Path) -> tuple[Run, str]:
    file = write_script(tmp_path)
    return Run(run_events(file)), file


def test_a_source_line_leads_to_its_nodes_guards_and_breaks(tmp_path: Path) -> None:
    run, file = sample(tmp_path)
    root = items(run)[0]
    line_6 = frozenset([(file, 6)])

    assert [rows.source_rows(run, file)[i].text for i in rows.marked(rows.source_rows(run, file), line_6)] == [" 6✗    if b.sum() < 0:"]
    assert [r.text for r in rows.guard_rows(run, root) if r.places & line_6] == ["  L['b']  tensor float32 (10,)  bar.py:6"]
    assert rows.break_rows(run, root, 40)[0].places == line_6
    line_7 = frozenset([(file, 7)])
    assert [r.text.split()[0] for r in rows.graph_rows(run, root) if r.places & line_7] == ["%x", "%mul0", "%output"]


def test_a_line_that_called_leads_to_the_nodes_of_the_callee(tmp_path: Path) -> None:
    node = ev.GraphNode("y", "call_function", "f", "y = f(x)", "", "lib.py", 3, ("main.py:10 main", "lib.py:3 f"))
    run = Run([ev.GraphCaptured("0/0", "0/0", "capture", 1, "", (node,))])

    assert rows.graph_rows(run, items(run)[0])[1].places == {("main.py", 10), ("lib.py", 3)}


def test_a_tree_item_narrows_the_panes(tmp_path: Path) -> None:
    run, _ = sample(tmp_path)
    by_key = {item.key: item for item in items(run)}

    assert len([r for r in rows.graph_rows(run, by_key["run"]) if r.look == "title"]) == 3
    assert len([r for r in rows.graph_rows(run, by_key["frame 0"]) if r.look == "title"]) == 2
    assert len([r for r in rows.graph_rows(run, by_key["graph capture 1/0"]) if r.look == "title"]) == 1
    assert rows.guard_rows(run, by_key["compile 1/0"])[0].text == "no guards here"
    assert rows.break_rows(run, by_key["compile 1/0"], 40)[0].text == "no breaks here"


def test_folded_branches_hide_everything_below(tmp_path: Path) -> None:
    run, _ = sample(tmp_path)

    assert [item.key for item, _ in rows.tree_rows(run, {"frame 0"})] == [
        "run",
        "frame 0",
        "frame 1",
        "compile 1/0",
        "graph capture 1/0",
    ]
    assert len(rows.tree_rows(run, {"run"})) == 1


@pytest.mark.parametrize(
    "run, text",
    [
        (Run(), "waiting for the first graph"),
        (Run([ev.RunEnded(0)]), "nothing was compiled: call a function decorated with torch.compile or dynamo.compile"),
        (Run([ev.CompileStarted("0/0", "f", "f.py", 1), ev.RunEnded(0)]), "no graph was captured here"),
    ],
)
def test_empty_states_say_what_to_do(run: Run, text: str) -> None:
    assert [r.text for r in rows.graph_rows(run, items(run)[0])] == [text]


def test_what_a_record_lost_is_listed(tmp_path: Path) -> None:
    run, _ = sample(tmp_path)
    run.problems.append("no end line")

    assert "? no end line" in [r.text for r in rows.break_rows(run, items(run)[0], 40)]


@pytest.mark.parametrize(
    "text, line",
    [
        ("%x : [num_users=1] = placeholder[target=L_x_]", "x = input L_x_"),
        ("%x : torch.Tensor [num_users=1] = placeholder[target=L_x_]", "x = input L_x_"),
        ("%w : [num_users=1] = get_attr[target=lin.weight]", "w = self.lin.weight"),
        ("%y : [num_users=2] = call_function[target=torch.sin](args = (%x,), kwargs = {})", "y = torch.sin(x)"),
        ("%y : [num_users=2] = call_function[target=operator.add](args = (%x, 1), kwargs = {})", "y = operator.add(x, 1)"),
        ("%y : [num_users=1] = call_function[target=torch.sum](args = (%x,), kwargs = {dim: 1})", "y = torch.sum(x, dim=1)"),
        ("%y : [num_users=1] = call_method[target=view](args = (%x, -1, 2), kwargs = {})", "y = x.view(-1, 2)"),
        ("return (y,)", "return (y,)"),
        ("add = a + b", "add = a + b"),
        ("", "n = t"),
    ],
)
def test_nodes_read_like_python(text: str, line: str) -> None:
    assert rows.node_line(ev.GraphNode("n", "call_function", "t", text, "", "", 0)) == line


def test_search_takes_patterns_and_plain_text() -> None:
    lines = [rows.Row("aten.add"), rows.Row("f(x"), rows.Row("ADD")]

    assert rows.matching(lines, "add") == [0, 2]
    assert rows.matching(lines, r"^a") == [0, 2]
    assert rows.matching(lines, "f(") == [1]


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert rows.clean("a\x1b[31mb\tc") == "a·[31mb c"


def test_every_key_is_in_the_help_once() -> None:
    text = help_text("")
    names = [name for key in KEYS for name in key.keys.split(",")]

    assert len(names) == len(set(names))
    assert all(key.text in text for key in KEYS)
