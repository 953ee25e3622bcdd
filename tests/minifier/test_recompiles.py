"""The profiler of recompiles: cause, lines, fix and its proof for each program of `repro_corpus/churn`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import dynamo
from minifier.recompiles.causes import CAUSES
from minifier.recompiles.edits import Edit, Overlap, Sources, applied
from minifier.recompiles.profile import Profile, profile
from minifier.recompiles.remedies import REMEDIES
from minifier.recompiles.text import as_text
from tests.minifier.churn import ran

CHURN = sorted((Path(__file__).parents[2] / "repro_corpus" / "churn").glob("*.py"))


def expected(script: Path) -> list[str]:
    """The last comment of the program."""
    return [part.strip() for part in script.read_text().splitlines()[-1].removeprefix("# expect: ").split(" | ")]


def profiled(script: Path) -> Profile:
    return profile(ran(script), lambda files: ran(script, files), lambda line: None)


@pytest.mark.parametrize("script", CHURN, ids=lambda p: p.stem)
def test_cause_lines_and_fix_are_named_and_the_fix_is_tried(script: Path) -> None:
    found = profiled(script)

    (finding,) = found.recompiles
    cause, at, read, changed, fix, verified = expected(script)
    assert [finding.cause, finding.at, str(finding.line), str(finding.changed_line)] == [cause, at, read, changed]
    assert {finding.file, finding.changed_file} == {str(script)}
    assert fix in finding.fix
    assert finding.verified == (verified == "yes")
    assert finding.count == found.compiles - 1
    if finding.verified:
        assert finding.compiles_after == 1
        assert finding.saved == finding.count
        ast.parse(applied_diff(script, finding.edit))
    assert f"{cause}: {at}" in as_text(found)


def applied_diff(script: Path, diff: str) -> str:
    """The program with a unified diff in it, checked against the lines that it says are there."""
    before = script.read_text().splitlines()
    out: list[str] = []
    taken = 0
    for line in diff.splitlines()[2:]:
        if line.startswith("@@"):
            start = int(line.split()[1].split(",")[0][1:]) - 1
            out += before[taken:start]
            taken = start
            continue
        if line[0] in " -":
            assert before[taken] == line[1:]
            taken += 1
        if line[0] in " +":
            out.append(line[1:])
    return "\n".join(out + before[taken:])


def test_enough_scenarios_with_a_verified_fix() -> None:
    rows = [expected(script) for script in CHURN]

    assert len(rows) >= 12
    assert sum(row[-1] == "yes" for row in rows) >= 10
    assert {row[0] for row in rows} <= {cause.name for cause in CAUSES}


def test_every_remedy_is_one_of_a_cause() -> None:
    assert set(REMEDIES) <= {cause.name for cause in CAUSES}


TWO = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x):
        self.step += 1
        return x * self.step

net = torch.compile(Net(), backend="eager")

@torch.compile(backend="eager")
def layer(x):
    print("between")
    return x.t() * 2

x = torch.arange(4.0).reshape(2, 2)
for step in range(4):
    print(net(torch.ones(2)).tolist())
    print(layer(x if step % 2 else x.t()).tolist())
"""


def test_several_causes_are_fixed_one_by_one_and_together(tmp_path: Path) -> None:
    script = tmp_path / "two.py"
    script.write_text(TWO)

    found = profiled(script)

    assert {(f.cause, f.at, f.verified) for f in found.recompiles} == {("number attribute", "self.step", True), ("strides", "x", True)}
    assert [(b.id, b.line, b.count) for b in found.breaks] == [("DD009", 17, 2)] or found.breaks[0].line == 17
    assert found.together is not None
    assert found.together < min(f.compiles_after or 0 for f in found.recompiles)
    answer = found.to_json()
    assert {"compiles", "breaks", "recompiles", "guard_cost_ns"} <= set(answer)
    assert {"frame", "cause", "file", "line", "count", "fix", "verified"} <= set(answer["recompiles"][0])
    assert all(row["ns"] > 0 for row in answer["guard_cost_ns"])


def test_breaks_of_one_line_and_what_changes_at_the_same_calls_are_told_apart(tmp_path: Path) -> None:
    script = tmp_path / "two.py"
    script.write_text(
        "import torch\n\n@torch.compile(backend='eager')\ndef f(x, more):\n    print(x.sum().item())\n    return x + sum(more)\n\n"
        "for n in range(3):\n    f(torch.ones(n + 2), [1.0] * n)\n"
    )

    found = profile(ran(script), None, lambda line: None)

    assert [(b.id, b.line, b.count) for b in found.breaks] == [("DD003", 5, 3), ("DD004", 5, 1)]
    (sizes,) = found.recompiles
    assert (sizes.cause, sizes.count, sizes.besides) == ("size of a dim", 4, ("length of a container: more (2x)",))
    assert f"the same calls also changed {sizes.besides[0]}: mend these too" in as_text(found)


@pytest.mark.internal_error
def test_a_graph_that_ran_in_eager_since_the_compiler_failed_is_told(tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    script.write_text(
        "import torch\n\ndef backend(gm, inputs):\n    def run(*args):\n        raise ValueError('no relu')\n    return run\n\n"
        "torch.compile(lambda x: x.relu(), backend=backend)(torch.ones(2))\n"
    )

    with dynamo.config.patch(suppress_errors=True), pytest.warns(UserWarning, match="no relu"):
        found = profile(ran(script), None, lambda line: None)

    assert len(found.failures) == 1 and "ValueError: no relu" in found.failures[0]
    assert "the compiler failed, eager ran\n  [DD09" in as_text(found)


def test_fix_that_changes_what_the_program_prints_is_not_handed_over(tmp_path: Path) -> None:
    script = tmp_path / "types.py"
    script.write_text(
        "import torch\n\n@torch.compile(backend='eager')\ndef f(x):\n    return x * 2\n\n"
        "for dtype in (torch.float32, torch.float64):\n    x = torch.ones(2, dtype=dtype)\n    print(f(x).dtype)\n"
    )

    (finding,) = profiled(script).recompiles

    assert (finding.cause, finding.verified, finding.edit) == ("dtype", False, "")
    assert finding.rejected == ("line 9: pass `x.to(torch.float32)` instead of `x`",)
    assert finding.fix == "convert x to one dtype where it is made"


def test_without_runs_the_likeliest_fix_is_proposed_and_marked() -> None:
    script = next(p for p in CHURN if p.stem == "strides")

    (finding,) = profile(ran(script), None, lambda line: None).recompiles

    assert (finding.verified, finding.saved, finding.compiles_after) == (False, 1, None)
    assert ".contiguous()" in finding.edit
    assert "not verified" in as_text(profile(ran(script), None, lambda line: None))


def test_edits_that_overlap_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("x = f(1)\n")

    with pytest.raises(Overlap):
        applied([Edit(str(file), 4, 8, "g(1)"), Edit(str(file), 6, 7, "2")], Sources())
    assert applied([Edit(str(file), 0, 1, "y"), Edit(str(file), 6, 7, "2")], Sources()) == {str(file): b"y = f(2)\n"}
