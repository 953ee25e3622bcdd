"""The model, its texts and its exports, without any user interface."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

from dynamo.trace import events as ev
from dynamo.trace import quick, report
from dynamo.trace.chrome import to_chrome
from dynamo.trace.dot import to_dot
from dynamo.trace.model import STATUSES, Run, items
from tests.trace.sample import graph, run_events, write_script


def test_json_report_has_the_documented_fields(tmp_path: Path) -> None:
    value = json.loads(quick.text_of(report.as_json(Run(run_events(write_script(tmp_path))))))

    assert {"graphs", "breaks", "guards", "recompiles", "times"} <= set(value)
    assert {"id", "ops", "code"} <= set(value["graphs"][0])
    assert {"id", "file", "line", "reason", "hint"} <= set(value["breaks"][0])
    assert {"source", "check", "file", "line"} <= set(value["guards"][0])
    assert {"frame", "reason"} <= set(value["recompiles"][0])
    assert value["times"]["capture"] == {"count": 1, "seconds": 0.05}


def test_tree(tmp_path: Path) -> None:
    rows = [(i.depth, i.title, i.status.word) for i in items(Run(run_events(write_script(tmp_path))))]

    assert rows == [
        (0, "bar.py", "break"),
        (1, "bar bar.py:4", "break"),
        (2, "0/0 0.200 s", "break"),
        (3, "graph 0/0 3 ops", "ok"),
        (2, "0/1 0.100 s", "recompile"),
        (3, "graph 0/1 3 ops", "ok"),
        (1, "bar bar.py:7", "ok"),
        (2, "1/0 0.100 s resumed", "ok"),
        (3, "graph 1/0 1 op", "ok"),
    ]


def test_a_compile_under_way_is_running_and_a_lost_one_missing(tmp_path: Path) -> None:
    run = Run(run_events(write_script(tmp_path), finished=False))
    run.add(ev.CompileStarted("7/0", "f", "f.py", 1, t=2.0))

    assert run.status(run.compiles["7/0"]) is STATUSES["running"]
    run.add(ev.RunEnded(130, t=3.0))
    assert run.status(run.compiles["7/0"]) is STATUSES["missing"]
    assert items(run)[0].status is STATUSES["error"]


def test_any_subset_of_events_makes_a_model(tmp_path: Path) -> None:
    events = run_events(write_script(tmp_path))
    for seed in range(200):
        part = random.Random(seed).sample(events, len(events) // 2)
        run = Run(part)

        assert report.summary(run)
        assert report.tree_text(run)
        quick.text_of([report.as_json(run), report.tree_json(run), to_chrome(run)])


def test_empty_run_has_a_summary() -> None:
    assert report.summary(Run()) == "0 graphs, 0 ops, 0 breaks, 0 guards, 0 recompiles, 0.000 s compiling"


def test_excerpt_marks_characters_not_bytes(tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    line = "\tz = 'äöü' + g(x)"
    file.write_text(line + "\n")
    col = len("\tz = 'äöü' + ".encode())
    broke = ev.GraphBroke("0/0", "DD001", str(file), 1, col, 1, col + 4, "r", "", "")

    assert report.excerpt(Run([broke]), broke) == [f"    1 | {line}", "      | \t            ^^^^"]


def test_excerpt_of_an_unreadable_source_is_empty() -> None:
    broke = ev.GraphBroke("0/0", "DD001", "<made at run time>", 1, 0, 1, 4, "r", "", "")

    assert report.excerpt(Run([broke]), broke) == []


def test_chrome_trace_has_spans_in_microseconds(tmp_path: Path) -> None:
    out = to_chrome(Run(run_events(write_script(tmp_path))))
    spans = {e["name"]: (e["ts"], e["dur"]) for e in out["traceEvents"] if e["ph"] == "X"}

    assert spans["bytecode"] == (100_000, 10_000)
    assert {e["name"] for e in out["traceEvents"] if e["ph"] == "i"} == {"break DD001", "recompile"}


def test_dot_has_nodes_and_edges() -> None:
    text = to_dot(graph("0/0", "f.py", 3))

    assert text.startswith('digraph "0/0"')
    assert '"x" -> "mul0"' in text
    assert '"mul0" -> "output"' in text
    assert "f.py:3" in text


def test_dot_reads_inputs_from_text_in_older_records() -> None:
    nodes = (ev.GraphNode("x", "placeholder", "x", "x", "", "", 0), ev.GraphNode("y", "call_function", "f", "y = f(x)", "", "", 0))

    assert '"x" -> "y"' in to_dot(ev.GraphCaptured("0/0", "0/0", "capture", 1, "", nodes))


def test_texts_of_nodes_are_quoted_in_dot() -> None:
    node = ev.GraphNode("y", "call_function", 'f "a"\\n', "", "f32[2]", "", 0)

    assert '\t"y" [label="y = f \\"a\\"\\\\n\\nf32[2]" shape=box]' in to_dot(ev.GraphCaptured("0/0", "0/0", "capture", 1, "", (node,)))


def test_trace_package_is_light() -> None:
    code = (
        "import sys; import dynamo.trace.model, dynamo.trace.report, dynamo.trace.record, dynamo.trace.stream\n"
        "print([m for m in ('torch', 'textual', 'graphviz', 'typer') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
