"""The views behind the verdict: names, groups, folded layers, times that add up, differences."""

from __future__ import annotations

import pytest

from dynamo.trace import events as ev
from dynamo.trace.model import Compile, Run
from tests.views import runs
from tui.views import breaks, compare, graphs, guards, kernels, names, recompiles, timeline, verdict
from tui.views.page import Page
from tui.views.repeats import repeated
from tui.views.table import VIEWS

PAGE = Page()


@pytest.mark.parametrize(
    "source, written",
    [
        ("L['k']", "k"),
        ("G['torch']", "torch"),
        ("G", "globals"),
        ("L['self'].__dict__['_modules']['h'].__dict__['_modules']['0'].__dict__['_parameters']['weight']", "h.0.weight"),
        ("L['self']._modules['lin']._parameters['bias']", "lin.bias"),
        ("L['self'].__dict__['calls']", "self.calls"),
        ("L['kwargs']['past'].__dict__['layers'][0].__dict__['keys']", "past.layers[0].keys"),
        ("gt((), (2,))(L['k'])", "k > 2"),
        ("sub((10,), ())(L['k'])", "10 - k"),
        ("+1(L['k'])", "k + 1"),
        ("+1(+1(L['k']))", "k + 1 + 1"),
        ("len(L['xs'])", "len(xs)"),
        ("L['___stack0']", "`self.encoder(x)`"),
        ("L['___stack1']", "a value from before the break"),
    ],
)
def test_values_are_written_as_in_the_program(source: str, written: str) -> None:
    assert names.value(source, Compile("0/0", stack=("self.encoder(x)",))) == written


@pytest.mark.parametrize(
    "name, written",
    [
        ("l_self___dict____modules_h___dict____modules_0___dict____modules_ln_1___dict____parameters_weight", "h.0.ln_1.weight"),
        ("p_L_self___dict____parameters_bias", "bias"),
        ("addmm_1", "addmm_1"),
        ("l_kwargs_input_ids_", "input_ids"),
    ],
)
def test_nodes_are_named_as_in_the_program(name: str, written: str) -> None:
    item = Compile("0/0", guards=[ev.GuardInstalled("0/0", 0, "L['kwargs']['input_ids']", "", "", 0)])

    assert names.node(name, names.inputs_of(item)) == written


def test_what_a_decorator_wraps_is_called_by_its_name() -> None:
    stack = ("/lib/generic.py:943 can_return_tuple.<locals>.wrapper", "/lib/gpt2.py:680 Model.forward", "/lib/gpt2.py:547 Block.forward")
    node = ev.GraphNode("add", "call_function", "add", "add", "f32[1]", "/lib/gpt2.py", 547, stack)
    run = Run(
        [
            ev.CompileStarted("0/0", "can_return_tuple.<locals>.wrapper", "/lib/generic.py", 937),
            ev.GraphCaptured("0/0", "0/0", "capture", 1, "", (node,)),
        ]
    )

    assert names.function_of(run, run.frames[0]) == names.Function("Model.forward", "/lib/gpt2.py", 680)


def test_the_rest_of_a_function_says_where_it_resumes() -> None:
    run = runs.breaking(1)
    torch_run = Run([ev.CompileStarted("0/0", "torch_dynamo_resume_in_bar_at_6", "f.py", 4)])

    assert names.function_of(run, run.compiles["1/0"]).title == "Net.forward, resumes at line 13"
    assert names.function_of(torch_run, torch_run.frames[0]).title == "bar, resumes at line 6"


def test_breaks_of_one_line_are_one() -> None:
    found = breaks.view(runs.breaking(5))

    assert found.count == 10
    assert [(p.id, p.line, p.count, p.peer) for p in found.places] == [
        ("DD004", 12, 5, "breaks here too (GB0059)"),
        ("DD001", 13, 5, "breaks here too (GB0170)"),
    ]
    assert found.places[0].excerpt == ("   12 |         print(h.shape)", "      |         ^^^^^^^^^^^^^^")


def test_recompiles_are_grouped_by_function_and_cause() -> None:
    (group,) = recompiles.view(runs.recompiling()).groups

    assert (group.function, group.compiles, group.count, group.limit, group.fix) == ("scale", 8, 7, 8, "make it a tensor")
    assert group.changing == "k = 0, 1, 2, ... 8"
    assert recompiles.short_lines(group, PAGE)[0] == "scale: 8 compiles, k = 0, 1, 2, ... 8: make it a tensor  (train.py:6)"


def test_parts_of_a_function_that_follow_suit_are_counted_with_it() -> None:
    (group,) = recompiles.view(runs.breaking(4)).groups

    assert (group.function, group.changing, group.parts, group.count) == ("Net.forward", "x.size(0) = 2, 3, 4, 5", 1, 6)


def test_functions_of_one_name_are_not_one() -> None:
    """Lambdas of a file, say."""
    found = list(runs.begun())
    for frame, line in ((0, 5), (1, 9)):
        for n in range(3):
            size = f"{frame}/{n - 1}: tensor L['x']: size at dim 0: expected {n}, got {n + 1}"
            again = ev.Recompiled(f"{frame}/{n}", "<lambda>", size, (size,), 1, "L['x']", runs.FILE, line, t=1.0 + n)
            found += [*([again] if n else []), *runs.compiled(f"{frame}/{n}", "<lambda>", line, 1.0 + n)]

    groups = recompiles.view(Run(found)).groups
    assert [(g.function, g.at, g.compiles, g.count) for g in groups] == [("lambda", "train.py:5", 3, 2), ("lambda", "train.py:9", 3, 2)]


def test_times_of_several_processes_are_added_up() -> None:
    """As those of their stages are: no stage takes more than all of the time."""
    run = Run([*runs.begun(), *(e for p in ("p7.", "p8.", "") for e in runs.compiled(f"{p}0/0", "scale", 5, 1.0))])

    assert run.compile_seconds() == pytest.approx(1.5)
    assert sum(t.seconds for t in timeline.stages(run)) == pytest.approx(1.5)


@pytest.mark.parametrize(
    "reason, kind, what, values",
    [
        ("0/0: L['k']: expected == 0, got 1", "number", "k", ("0", "1")),
        ("0/2: gt((), (2,))(L['k']): expected == False, got True", "number", "k > 2", ("False", "True")),
        ("0/0: tensor L['x']: size at dim 1: expected 7, got 1", "size", "x.size(1)", ("7", "1")),
        ("0/0: tensor 'x' size mismatch at index 0. expected 3, actual 4", "size", "x.size(0)", ("3", "4")),
        ("0/0: L['xs']: expected len == 2, got 3", "length", "len(xs)", ("2", "3")),
        ("0/0: L['name']: expected == 'a', got 'b'", "value", "name", ("'a'", "'b'")),
        ("0/1: ___check_type_id(fn, 943), type=<class 'nn.Linear'> (HINT: Linear)\nStack:\n  x", "type", "type of fn", ("nn.Linear", "")),
        ("0/1: ___check_obj_id(L['fn'], 943), type=<class 'function'>", "object", "fn", ("", "")),
        ("first line\nsecond line", "other", "first line", ("", "")),
        ("", "other", "", ("", "")),
        ("something else entirely", "other", "something else entirely", ("", "")),
    ],
)
def test_reasons_are_read(reason: str, kind: str, what: str, values: tuple[str, str]) -> None:
    found = recompiles.read(reason)

    assert (found.kind, found.what, (found.old, found.new)) == (kind, what, values)


def test_text_of_recompiles_grows_linearly() -> None:
    sizes = [sum(map(len, recompiles.lines(recompiles.view(runs.recompiling(range(n), limit=n)), PAGE))) for n in (20, 40, 80)]

    assert sizes[2] - sizes[1] < 2.5 * (sizes[1] - sizes[0])


def test_equal_layers_are_printed_once() -> None:
    shown = graphs.lines(graphs.view(runs.layered(8)), PAGE)

    assert shown[2] == "graph 0/0  Net.forward  train.py:10  16 ops"
    assert [line.split("  ")[1].strip() for line in shown[3:]] == [
        "input x",
        "parameter h.0.ln_1.weight",
        "mul_0 = torch.mul(x, h.0.ln_1.weight)",
        "relu_0 = torch.relu(mul_0)",
        "",
    ]
    assert shown[-1].strip() == "x 8: the 3 rows above come 8 times"
    assert shown[5].split() == ["mul_0", "=", "torch.mul(x,", "h.0.ln_1.weight)", "f32[4,", "64]", "train.py:11"]
    assert len(graphs.lines(graphs.view(runs.layered(8)), Page(full=True))) > 24


def test_what_does_not_repeat_stays() -> None:
    assert repeated(["a", "b", "c"], ["a", "b", "c"]) == ["a", "b", "c"]
    assert repeated([], []) == []
    assert repeated(["a1", "b1", "a2", "b2", "c"], ["a", "b", "a", "b", "c"]) == ["a1", "b1", "    x 2: the 2 rows above come 2 times", "c"]


def test_times_nest_and_add_up() -> None:
    run = runs.breaking(3)
    stages = timeline.stages(run)
    (backend,) = [t for t in stages if t.stage == "backend"]

    assert [t.stage for t in backend.parts] == ["aot", "build"]
    assert backend.own + sum(t.seconds for t in backend.parts) == pytest.approx(backend.seconds)
    assert sum(t.seconds for t in stages) == pytest.approx(run.compile_seconds())


def test_guards_of_layers_are_one_row_and_those_of_a_recompile_only_the_new() -> None:
    paths = [f"L['self'].__dict__['_modules']['h'].__dict__['_modules']['{i}'].__dict__['_parameters']['weight']" for i in range(4)]
    same = [(source, "is tensor") for source in paths]
    events: list[ev.Event] = [*runs.begun()]
    for n in range(2):
        events.append(ev.CompileStarted(f"0/{n}", "f", runs.FILE, 5))
        own = [("L['k']", f"== {n}")]
        events += [ev.GuardInstalled(f"0/{n}", i, source, check, runs.FILE, 6) for i, (source, check) in enumerate(same + own)]
    shown = guards.lines(guards.view(Run(events)), PAGE)

    assert "    h.*.weight  is tensor  x 4" in shown
    assert shown[-3:] == ["  as compile 0/0, except:", "  train.py:6  return x * k + 1", "    k  == 1"]


def test_kernels_know_what_they_move() -> None:
    run = runs.layered(1)
    run.add(
        ev.CodeGenerated("0/0", "schedule", "0/0.fw.fused", "ir", "in a0: f32[4, 64] (64, 1)\ntemp b1: bf16[64] (1)\nkernel k0\n", "0/0.fw")
    )
    run.add(ev.StepScheduled("0/0", "0/0.fw", "k0", "kernel", ("mul.Tensor",), ("a0",), ("b1",), ("train.py:11",)))
    found = kernels.view(run)

    assert (found.kernels, found.externs, found.steps[0].bytes) == (1, 0, 4 * 64 * 4 + 64 * 2)
    assert kernels.lines(found, PAGE)[-1].split() == ["k0", "1.1", "KB", "train.py:11", "mul"]


def test_kernels_say_what_they_need_of_a_gpu() -> None:
    run = runs.layered(1)
    text = "in a0: f32[1024, 1024] (1024, 1)\ntemp b1: f32[1024, 1024] (1024, 1)\nkernel k0\n"
    run.add(ev.CodeGenerated("0/0", "schedule", "0/0.fw.fused", "ir", text, "0/0.fw"))
    run.add(ev.StepScheduled("0/0", "0/0.fw", "k0", "kernel", ("mul.Tensor",), ("a0",), ("b1",), ("train.py:11",)))
    run.add(ev.StepScheduled("0/0", "0/0.fw", "mm", "extern", ("mm.default",), ("b1",), ("b2",), ("train.py:12",)))
    run.add(ev.KernelLoaded("0/0", "0/0.fw", "k0", "flat_mul", "NVIDIA H200", 90, 24, 8, 2048, 128, 1024, 1.0, 4.0, float(1 << 22)))
    found = kernels.view(run)

    needs = found.steps[0].device
    assert needs is not None and (needs.registers, needs.microseconds, needs.copy_share) == (24, 4.0, 0.5)
    assert found.steps[1].device is None
    line = next(row for row in kernels.lines(found, Page(width=140)) if row.strip().startswith("k0"))
    assert line.split() == "k0 8.0 MB 24 regs 8 B spilled 2.0 KB shared 100% occ 4.0 us 50% of copy train.py:11 mul".split()


def test_a_run_compared_with_itself_and_with_another() -> None:
    same = compare.view(runs.breaking(2), runs.breaking(2))
    other = compare.view(runs.breaking(2), runs.recompiling())

    assert same.same and not same.differences
    assert {(d.kind, d.a, d.b) for d in other.differences} >= {("break", 2, 0), ("recompiles", 2, 0), ("recompiles", 0, 7)}
    assert "the same graphs, breaks, recompiles and kernels" in compare.lines(same, PAGE)


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("make", [runs.large, runs.layered, runs.failing, Run])
def test_every_view_shows_every_run_within_the_width(name: str, make: type) -> None:
    view, run = VIEWS[name], make()

    assert all(len(line) <= PAGE.width for line in view.lines(view.data(run, ""), PAGE))


def test_the_call_of_a_module_is_one_with_its_forward() -> None:
    broke = [ev.GraphBroke(i, "DD004", runs.FILE, 12, 8, 12, 22, "output: print", "why", "") for i in ("0/0", "1/0")]
    called, forward = (runs.compiled(i, f"Net.{name}", 10, 1.0, "break") for i, name in (("0/0", "__call__"), ("1/0", "forward")))
    run = Run([*runs.begun(), *called, broke[0], *forward, broke[1]])

    (place,) = breaks.view(run).places
    assert (place.count, place.functions, place.compiles) == (1, ("Net.forward",), ("1/0",))
    assert [(c.name, c.compiles) for c in verdict.functions(run)] == [("Net.forward", 1)]
