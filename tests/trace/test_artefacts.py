"""Texts of the stages: what there is, how it is selected, and which user lines its lines belong to."""

from __future__ import annotations

from dynamo.trace import artefacts, stages
from dynamo.trace import events as ev
from dynamo.trace.model import Run
from dynamo.trace.readable import readable

FILE = "/a b/model.py"
NODES = (
    ev.GraphNode("x", "placeholder", "x", "x = input", "float32[4]", FILE, 3, (), (), "input", "float32", (4,), (1,), "cpu"),
    ev.GraphNode(
        "relu",
        "call_function",
        "aten.relu.default",
        "relu = aten.relu.default(x)",
        "",
        FILE,
        4,
        (f"{FILE}:4 f",),
        ("x",),
        "backward",
        "float32",
        (4,),
        (1,),
        "cpu",
    ),
    ev.GraphNode("output", "output", "output", "return (relu,)", "", "", 0),
)
C = "/* a prelude */\n\nstatic void k0(void) {\n    /* model.py:4 relu (backward) */\n    for (;;) {\n    }\n}\nint x;\n"
IR = f"in a0: f32[4] (1)\nnest n1 (i0:4) ; relu.default {FILE}:4 (backward) | neg.default {FILE}:3\n  %0 = load a0[i0] : f32\nreturn b0\n"
EVENTS: list[ev.Event] = [
    ev.CompileStarted("0/0", "f", FILE, 1, t=0.0),
    ev.GraphCaptured("0/0", "0/0", "capture", 1, "def forward(self, x): ...", NODES, t=0.1),
    ev.GraphCaptured("0/0.bw", "0/0", "partition", 1, readable(NODES, lambda place: "y = x.relu()"), NODES, t=0.1),
    ev.StageTimed("0/0", "lower", 0.1, 0.25, t=0.2),
    ev.GraphLowered("0/0", "0/0.bw", {"aten.relu.default": "native"}, t=0.2),
    ev.CodeGenerated("0/0", "lower", "0/0.bw.lowered", "ir", IR, "0/0.bw", t=0.2),
    ev.Decided("0/0", 0, "fuse", "n1 + n2", False, "no common outer loops", "0/0.bw", t=0.3),
    ev.Decided("0/0", 12, "inline", "n1 into n3", True, "cheap", "0/0.fw", t=0.3),
    ev.CodeGenerated("0/0", "kernels", "0/0.bw.c", "c", C, "0/0.bw", t=0.4),
    ev.CodeGenerated("0/0", "codegen", "entry", "python", "def entry(): ...\n", t=0.5),
    ev.GuardInstalled("0/0", 3, "L['x']", "Tensor float32[4]", FILE, 3, t=0.6),
]


def test_artefacts_come_in_the_order_of_the_pipeline() -> None:
    found = [(a.stage, a.graph_id, a.title) for a in artefacts.artefacts(Run(EVENTS))]

    assert found == [
        ("capture", "0/0", "captured graph"),
        ("guards", "", "guards"),
        ("codegen", "", "entry function"),
        ("partition", "0/0.bw", "backward graph"),
        ("lower", "0/0.bw", "loop IR before fusion"),
        ("lower", "0/0.bw", "how operators are lowered"),
        ("kernels", "0/0.bw", "C kernels"),
    ]


def test_stage_and_graph_select() -> None:
    run = Run(EVENTS)

    assert [a.stage for a in artefacts.artefacts(run, "kernels", "0/0")] == ["kernels"]
    assert artefacts.artefacts(run, "kernels", "0/0.fw") == []
    assert [d.what for d in artefacts.decisions(run, "schedule")] == ["n1 + n2", "n1 into n3"]
    assert [d.what for d in artefacts.decisions(run, "fuse", "0/0.bw")] == ["n1 + n2"]
    assert len({a.key for a in artefacts.artefacts(run)}) == 7


def test_decisions_as_text() -> None:
    assert list(artefacts.decision_lines(artefacts.decisions(Run(EVENTS)))) == [
        "-    0/0.bw  fuse    refused  n1 + n2: no common outer loops",
        "#12  0/0.fw  inline  taken    n1 into n3: cheap",
    ]


def test_a_stage_as_text_and_as_json() -> None:
    run = Run(EVENTS)
    value = artefacts.stage_json(run, "lower")

    assert artefacts.stage_text(run, "lower") == (
        f"==== 0/0.bw  loop IR before fusion\n\n{IR}\n"
        "==== 0/0.bw  how operators are lowered\n\naten.relu.default  native\n\n"
        "==== times\n\n0/0  0.2500 s\n"
    )
    assert artefacts.stage_text(run, "install") == "nothing was recorded at stage install\n"
    assert next(a["text"] for a in value["artefacts"]) == IR
    assert value["times"] == [{"compile_id": "0/0", "stage": "lower", "start": 0.1, "seconds": 0.25}]
    assert {*artefacts.STEPS_OF.values(), *stages.ALIASES.values()} <= set(stages.BY_NAME)


def test_a_graph_is_readable() -> None:
    assert readable(NODES, lambda place: "y = x.relu()") == (
        "class GraphModule(torch.nn.Module):\n"
        '    def forward(self, x: "f32[4][1]cpu"):\n'
        f"        # File: {FILE}:4 in f (backward), code: y = x.relu()\n"
        '        relu: "f32[4][1]cpu" = aten.relu.default(x)\n'
        "        return (relu,)\n"
    )


def test_lines_know_where_they_came_from() -> None:
    run = Run(EVENTS)
    by_title = {a.title: artefacts.line_places(run, a) for a in artefacts.artefacts(run)}
    here, both = frozenset({(FILE, 4)}), frozenset({(FILE, 4), (FILE, 3)})
    nothing: frozenset[tuple[str, int]] = frozenset()

    assert by_title["C kernels"] == [nothing, nothing, nothing, here, here, here, nothing, nothing]
    assert by_title["loop IR before fusion"] == [nothing, both, both, nothing]
    assert by_title["backward graph"] == [nothing, nothing, here, here, here]
