"""What the first screen writes: names of arguments, causes of recompiles, what torch does, and commands that a shell takes."""

from __future__ import annotations

import shlex

import pytest

from dynamo.trace import events as ev
from dynamo.trace.model import Run
from tests.views import runs
from tui.views import names, peer_says, recompiles
from tui.views.page import continued
from tui.views.verdict import verdict

FORWARD = """class Net(Module):
    def forward(
        self, x: Tensor, mask: Tensor | None = None, *, scale=1.0
    ) -> Tensor:  # of all
        return x
"""


def _net(line: int, source: str = FORWARD) -> tuple[Run, names.Function]:
    run = Run([*runs.begun(), ev.SourceRead("/home/me/net.py", source, t=0.0)])
    return run, names.Function("Net.forward", "/home/me/net.py", line)


@pytest.mark.parametrize(
    "text, written",
    [
        ("args[0].size(0)", "x.size(0)"),
        ("args[1]", "mask"),
        ("args[2]", "args[2]"),
        ("kwargs['a']", "kwargs['a']"),
    ],
)
def test_positional_arguments_of_a_module_have_the_names_of_its_forward(text: str, written: str) -> None:
    assert names.by_parameter(text, *_net(2)) == written


@pytest.mark.parametrize("line", [1, 5, 99])
def test_they_keep_their_numbers_where_no_forward_begins(line: int) -> None:
    assert names.by_parameter("args[0]", *_net(line)) == "args[0]"


@pytest.mark.parametrize(
    "reason, what, fix",
    [
        ("0/0: L['self'].__dict__['ran']: expected == False, got True", "self.ran", "set it before the first call and keep it"),
        ("0/0: L['k']: expected == 1, got 2", "k", "make it a tensor"),
        ("0/0: tensor L['x']: rank: expected 2, got 1", "x.dim()", "give it one number of dimensions"),
        ("0/0: L['m']: expected == 'a', got 'b'", "m", "keep it fixed, or compile one function per value"),
    ],
)
def test_a_cause_has_a_name_and_a_way_out(reason: str, what: str, fix: str) -> None:
    change = recompiles.read(reason)

    assert (change.what, change.fix) == (what, fix)


def test_a_global_mode_is_called_by_its_name() -> None:
    assert recompiles.read("0/0: global state changed: grad mode: expected off, got on").what == "grad mode"


@pytest.mark.parametrize(
    "what, says",
    [
        ("Tensor.backward", "breaks here too (GB0123)"),
        ("torch._higher_order_ops.cond.cond", "captures it as part of the graph"),
        ("FlexAttentionHOP flex_attention_hop", "captures it as part of the graph"),
        ("torch.device as a context manager", ""),
    ],
)
def test_what_torch_does_depends_on_the_callee(what: str, says: str) -> None:
    assert peer_says.about_break("DD022", what) == says


def test_a_name_of_pybind_is_that_of_the_function() -> None:
    assert names.value("builtin pybind11_detail_function_record_v1_system_abi_1xxx_1.set_stats") == "set_stats"


MANY = [f"--option-{n}=value" for n in range(30)]


@pytest.mark.parametrize("words", [["a b", "it's", "-k", "x and y"], ["x" * 150, "y"], ["short"], MANY])
def test_a_long_command_goes_on_as_in_a_shell(words: list[str]) -> None:
    lines = continued(shlex.join(["dynamo-debug", "explain", *words]), 60)

    assert shlex.split("\n".join(lines).replace("\\\n", "")) == ["dynamo-debug", "explain", *words]
    assert all(len(line) <= 60 for line in lines if max(map(len, words)) < 50)


def test_an_exit_code_that_nothing_explains_comes_first() -> None:
    run = Run([*runs.begun(), *runs.compiled("0/0", "scale", 5, 1.0), ev.RunEnded(3, "", runs.FILE, 9, t=5.0)])

    assert verdict(run).headline.startswith("the script ended itself with exit code 3 at train.py:9; compiled whole")


def test_a_refused_break_leads_to_its_page_and_not_to_the_minifier() -> None:
    started = ev.CompileStarted("0/0", "scale", runs.FILE, 5, t=1.0)
    refused = ev.CompileEnded("0/0", "error", "graph break under fullgraph=True: print [DD004]", "DD004", runs.FILE, 6, t=1.5)
    found = verdict(Run([*runs.begun(), started, refused, ev.RunEnded(0, t=2.0)]), "train.py")

    assert [(f.id, f.error, f.at, f.source) for f in found.failures] == [
        ("DD004", "graph break under fullgraph=True: print", "train.py:6", "return x * k + 1")
    ]
    assert "dynamo-debug explain --code DD004" in [s.command for s in found.next]
    assert not any("minify" in s.command for s in found.next)


def test_children_are_named_with_what_they_compiled() -> None:
    first = ev.ProcessStarted(41, 0, ("train.py",), "r0.", t=0.5)
    second = ev.ProcessStarted(42, 1, ("train.py",), "r1.", t=0.5)
    compiled = [*runs.compiled("r0.0/0", "scale", 5, 1.0), *runs.compiled("r1.0/0", "scale", 5, 2.0)]
    found = verdict(Run([*runs.begun(), first, second, *compiled, ev.RunEnded(0, t=9.0)]))

    assert found.compiled[0].processes == ("rank 0", "rank 1")
    assert found.headline.endswith("(in ranks 0, 1)")


def test_a_module_is_named_as_it_was_started() -> None:
    run = Run([ev.RunStarted(("/home/me/pkg/train.py", "--x"), "/home/me", {}, module="pkg.train", t=0.0), ev.RunEnded(0, t=1.0)])

    assert verdict(run).script == "-m pkg.train"
