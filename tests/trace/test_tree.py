"""The debug tree and the logs, from hand-made events."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dynamo import config
from dynamo.compile import debug_output
from dynamo.trace import events as ev
from dynamo.trace import logs, session, store
from dynamo.trace.readable import readable
from dynamo.trace.tree import TreeWriter, write_tree
from tests.trace.test_artefacts import FILE, NODES

LAYOUT = ("float32", (4,), (1,), "cpu")
SUFFIXES = {"lowered": ("lower", "ir"), "fused": ("schedule", "ir"), "c": ("kernels", "c"), "py": ("kernels", "python")}


def texts(compile_id: str, graph_id: str) -> list[ev.Event]:
    name = compile_id if graph_id.endswith(".fw") else graph_id
    out: list[ev.Event] = [ev.GraphCaptured(f"{graph_id}.passes", compile_id, "passes", 1, readable(NODES), NODES, t=0.2)]
    out.append(ev.Decided(compile_id, 0, "fuse", "n1 + n2", False, "no common outer loops", graph_id, t=0.3))
    out.append(ev.StepScheduled(compile_id, graph_id, "k0", "kernel", ("relu.default",), ("a0",), ("b0",), (f"{FILE}:4",), t=0.3))
    out.append(ev.StepScheduled(compile_id, graph_id, "e1", "extern", ("mm.default",), ("b0",), ("b1",), t=0.3))
    for suffix, (stage, language) in SUFFIXES.items():
        out.append(ev.CodeGenerated(compile_id, stage, f"{name}.{suffix}", language, f"text of {suffix}\n", graph_id, t=0.4))
    return out


def graph(graph_id: str, stage: str) -> ev.GraphCaptured:
    return ev.GraphCaptured(graph_id, graph_id.split(".")[0], stage, 1, readable(NODES), NODES, t=0.1)


TRAINED = [graph("0/0", "capture"), graph("0/0.aot", "aot"), graph("0/0.fw", "partition"), graph("0/0.bw", "partition")]
INFERRED = [graph("1/0", "capture"), graph("1/0.fw", "aot"), *texts("1/0", "1/0.fw")]
EVENTS = [*TRAINED, *texts("0/0", "0/0.fw"), *texts("0/0", "0/0.bw"), *INFERRED]
FILES = {
    "decisions.txt",
    "fx_graph_readable.py",
    "fx_graph_runnable.py",
    "fx_graph_transformed.py",
    "graph_diagram.dot",
    "ir_post_fusion.txt",
    "ir_pre_fusion.txt",
    "orig_fx_graph_diagram.dot",
    "output_code.c",
    "output_code.py",
}


def files(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir() if p.suffix != ".svg"}


def test_names_of_folders_and_files(tmp_path: Path) -> None:
    said: list[str] = []
    root = write_tree(EVENTS, tmp_path, said.append)
    graphs = root / "torchinductor"

    assert root.parent == tmp_path / "torch_compile_debug"
    assert root.name.startswith("run_")
    assert root.name.endswith(f"-pid_{os.getpid()}")
    assert files(graphs) == {
        "aot_model___0_debug.log",
        "aot_model___1_debug.log",
        "model__0_forward_1.0",
        "model__0_backward_2.1",
        "model__1_inference_3.2",
    }
    assert all(files(folder) == FILES for folder in graphs.glob("model__*"))
    assert said[0] == f"model__0_forward_1 debug trace: {graphs / 'model__0_forward_1.0'}"


def test_contents(tmp_path: Path) -> None:
    root = write_tree(EVENTS, tmp_path, lambda line: None)
    folder = root / "torchinductor" / "model__0_backward_2.1"
    log = (root / "torchdynamo" / "debug.log").read_text()

    assert (folder / "ir_post_fusion.txt").read_text() == "text of fused\n"
    assert (folder / "output_code.c").read_text() == "text of c\n"
    assert (folder / "decisions.txt").read_text() == "-  0/0.bw  fuse  refused  n1 + n2: no common outer loops\n"
    assert "aten.relu.default(x)" in (folder / "fx_graph_transformed.py").read_text()
    assert '"k0" -> "e1" [label="b0"]' in (folder / "graph_diagram.dot").read_text()
    assert '"x" -> "relu"' in (folder / "orig_fx_graph_diagram.dot").read_text()
    assert "[0/0.bw] fuse refused: n1 + n2: no common outer loops\n" in log
    assert "joint" in (root / "torchinductor" / "aot_model___0_debug.log").read_text() or "0/0.aot" in log


def test_a_picture_or_one_line_that_says_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    root = write_tree(EVENTS, tmp_path, lambda line: None)

    assert list(root.rglob("*.svg")) == []
    assert (root / "torchdynamo" / "debug.log").read_text().count("`dot` of graphviz is not on the path") == 1

    program = tmp_path / "dot"
    program.write_text("#!/bin/sh\necho '<svg/>'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    drawn = write_tree(EVENTS, tmp_path / "b", lambda line: None)

    assert len(list(drawn.rglob("*.svg"))) == 6
    assert "graphviz is not" not in (drawn / "torchdynamo" / "debug.log").read_text()


def test_the_older_layout(tmp_path: Path) -> None:
    writer = TreeWriter(None, lambda line: None, tmp_path)
    for event in EVENTS:
        writer(event)
    folders = sorted(tmp_path.glob("*/*.debug"))

    assert len(folders) == 3
    assert all(folder.parent.name == folder.name[:2] for folder in folders)
    assert files(folders[0]) == FILES - {"fx_graph_readable.py"} | {"fx_graph.py", "debug.log"}


def test_stages_before_a_crash_are_there(tmp_path: Path) -> None:
    cut = [e for e in EVENTS if not isinstance(e, ev.CodeGenerated) or e.name.endswith("lowered")]
    root = write_tree(cut, tmp_path, lambda line: None)

    assert "ir_pre_fusion.txt" in files(root / "torchinductor" / "model__0_forward_1.0")


def test_a_place_that_cannot_be_written_ends_the_tree_with_a_line(tmp_path: Path) -> None:
    (tmp_path / "torch_compile_debug").write_text("")
    said: list[str] = []
    write_tree(EVENTS, tmp_path, said.append)

    assert len(said) == 1
    assert "cannot be written" in said[0]


def test_options_switch_the_listeners(tmp_path: Path) -> None:
    before = list(store.of_process().listeners)
    with config.patch(compile_debug=True, debug_dir=str(tmp_path)), session() as live:
        debug_output.attach()
        debug_output.attach()
        assert len(store.of_process().listeners) == len(before) + 1
        live.add(graph("0/0.fw", "aot"))
    debug_output.attach()

    assert store.of_process().listeners == before
    assert len(list(tmp_path.rglob("fx_graph_runnable.py"))) == 1


def test_logs_print_what_was_asked_for() -> None:
    out: list[str] = []
    writer = logs.LogWriter("+fusion, output_code", out.append)
    for event in EVENTS:
        writer(event)

    assert out[0] == "dynamo [0/0.fw] fusion: fuse refused: n1 + n2: no common outer loops\n"
    assert out[1] == "dynamo [0/0.fw] output_code: kernels: 0/0.c (c)\ntext of c\n"
    assert len(out) == 9


def test_every_log_finds_its_events() -> None:
    from tests.trace.sample import run_events

    mine = [
        *EVENTS,
        *run_events(FILE),
        ev.GraphLowered("0/0", "0/0", {"aten.mm.default": "extern"}, t=0.0),
        ev.CodeGenerated("0/0", "bytecode", "bytecode", "text", "LOAD_FAST\n", t=0.0),
        ev.CacheLooked("0/0", "hit", "abc", t=0.0),
        ev.KernelLoaded("0/0", "0/0.fw", "k0", "flat_mul", "a GPU", 90, 24, 0, 0, 128, 8, 1.0, t=0.0),
    ]
    assert [log.name for log in logs.LOGS if not any(log.wants(e) for e in mine)] == []


def test_unknown_names_of_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMO_LOGS", "fushion")
    with pytest.raises(config.ConfigError, match="DYNAMO_LOGS: no such artefact 'fushion'"):
        config.get("logs")
    assert logs.known("+dynamo,output_code,recompiles") == "output_code,recompiles"
    assert logs.help_text().startswith("bytecode ")
