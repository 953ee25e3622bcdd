"""The corpus of planted faults: manifests, scripts that fail and heal as they say, verdicts; behind `slow`, every case through minify."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dynamo.faults import planting
from dynamo.faults.rows import FAULTS
from minifier.corpus import Case, ManifestError, Verdict, load, load_all, run_cases
from minifier.corpus.running import judged
from minifier.corpus.table import table
from minifier.engine import Kind, Signature
from minifier.isolation import LocalTransport
from minifier.verify import Bounds, once
from tests.minifier.corpus_scripts import complaint, ends_of, scripts
from tests.schemas import validate
from tui.commands.corpus import corpus
from tui.console import as_json
from tui.errors import CliError

CASES = {c.name: c for c in load_all()}
REPORTED = {c.name: c for c in load_all(engine="torch")}  # faults of torch's own compiler

# what has to be in the corpus, at least once each
KINDS = {
    *("compile error", "crash", "segfault", "abort", "exit", "hang", "hang with grandchildren", "out of memory", "runtime error"),
    *("wrong lowering", "wrong rewrite", "wrong inlining", "wrong codegen", "wrong constant", "wrong capture"),
    *("dropped mask", "bad fusion order", "alias clobber", "stale guard", "dtype truncation", "NaN", "RNG skew"),
    *("shape-dependent", "stride-dependent", "second-call-only"),
    *("two bugs", "backward-only", "graph 2 of 6", "flaky", "unsupported construct", "wrapped backend"),
}

CHEAP = ("aot_error", "capture_segfault", "run_exit", "wrong_lowering", "stale_guard", "user_backend_error")


@pytest.fixture(scope="module")
def transport(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalTransport]:
    with scripts(tmp_path_factory.mktemp("scripts"), timeout=60.0) as found:
        yield found


@pytest.mark.parametrize("name", CHEAP)
def test_a_script_fails_with_its_fault_and_is_healthy_without(name: str, transport: LocalTransport) -> None:
    for faulty in (True, False):
        (outcome,) = ends_of(transport, [CASES[name]], faulty)
        assert complaint(CASES[name], outcome, faulty) == ""


def test_every_kind_of_fault_is_there() -> None:
    assert len(CASES) >= 60
    assert {c.kind for c in CASES.values()} >= KINDS


@pytest.mark.parametrize("name", CASES)
def test_manifest_and_script_agree(name: str) -> None:
    case = CASES[name]
    text = case.script.read_text()

    planted = planting.parse(case.environment.get(planting.VARIABLE, ""))
    assert all(f"{key}='{value}' python {name}.py" in text for key, value in case.environment.items())
    assert text.startswith(f'"""{case.summary}')
    assert not planted or case.stage in {p.fault.stage for p in planted}
    if planted and planted[0].fault.decides:
        assert case.decision.startswith(f"{case.stage}: {planted[0].fault.name}")
    assert ("p" in planted[0].conditions if planted else False) is case.expected.flaky


def test_scripts_and_manifests_come_in_pairs() -> None:
    home = next(iter(CASES.values())).script.parent

    assert {p.stem for p in home.glob("*.py")} - {"__init__"} == set(CASES)


@pytest.mark.parametrize("name", REPORTED)
def test_a_reported_case_names_its_report_and_the_part_that_fails(name: str) -> None:
    case = REPORTED[name]
    parts = {"capture": ("dynamo", "dynamo: guards"), "aot": ("aot_autograd",), "lower": ("inductor", "inductor: lowerings")}

    assert case.script.read_text().startswith(f'"""{case.summary}')
    assert case.report == "own" or re.fullmatch(r"[\w./-]+#\d+", case.report)
    assert case.decision in parts[case.stage]
    assert not case.environment
    assert 0 < case.expected.op_nodes <= 4 or 0 < case.expected.source_lines <= 10


def test_reported_scripts_and_manifests_come_in_pairs() -> None:
    home = next(iter(REPORTED.values())).script.parent

    assert {p.stem for p in home.glob("*.py")} - {"__init__"} == set(REPORTED)
    assert len(REPORTED) >= 40


def test_every_wrong_step_has_a_case() -> None:
    used = {p.fault.name for c in CASES.values() for p in planting.parse(c.environment.get(planting.VARIABLE, ""))}
    wrong = {name for name, f in FAULTS.items() if not any("crashes" in act or act.endswith(":crash") for act in f.acts.values())}

    assert wrong <= used


BROKEN = [
    ("stage = 'nowhere'", "no row of dynamo/trace/stages.py"),
    ("sumary = 'x'", "unknown key `sumary`"),
    ("ends = 'badly'", "script.ends is"),
    ("op_nodes = 0", "either op_nodes or source_lines"),
    ("after = 'lunch'", "minify.after is one of"),
    ("= =", "Invalid"),
]


@pytest.mark.parametrize("line, message", BROKEN, ids=[b[0] for b in BROKEN])
def test_a_bad_manifest_is_refused(tmp_path: Path, line: str, message: str) -> None:
    text = CASES["nan"].text
    key = line.partition(" ")[0]
    lines = [line if row.startswith(f"{key} ") else row for row in text.splitlines()]
    (tmp_path / "one.toml").write_text("\n".join(lines if line in lines else [line, *lines]))
    (tmp_path / "one.py").write_text("")

    with pytest.raises(ManifestError, match=message):
        load(tmp_path / "one.toml")


def report(**changes: Any) -> dict[str, Any]:
    good = {
        "status": "reproduced",
        "stage": "codegen",
        "op_nodes": 1,
        "source_lines": 0,
        "elements": 1025,
        "left": 0,
        "signature": {"kind": "accuracy", "accuracy": "value"},
        "shown": "accuracy (value)",
        "other_failures": [],
        "oracle_calls": 20,
        "reproduction_rate": 1.0,
        "repro": "repro.py",
        "one_minimal": True,
    }
    return {**good, **changes}


VERDICTS = [
    ({}, ()),
    ({"op_nodes": 2}, ("2 instead of 1 operations",)),
    ({"elements": 1026}, ("1026 elements instead of 1025",)),
    ({"stage": "aot"}, ("stage aot instead of codegen",)),
    ({"signature": {"kind": "accuracy", "accuracy": "nan"}}, ("accuracy nan instead of value",)),
    ({"status": "nothing fails", "signature": None, "shown": ""}, ("nothing fails",)),
    ({"status": "flaky"}, ("flaky",)),
    ({"one_minimal": False}, ("no certificate",)),
    ({"left": 2}, ("2 processes were left behind",)),
]


@pytest.mark.parametrize("changes, problems", VERDICTS, ids=[str(v[0]) for v in VERDICTS])
def test_a_verdict_names_every_difference(changes: dict[str, Any], problems: tuple[str, ...]) -> None:
    assert judged(CASES["wrong_above_1024"], report(**changes), 1.0).problems == problems


def test_the_part_of_torchs_compiler_has_to_be_the_one(tmp_path: Path) -> None:
    case = dataclasses.replace(CASES["wrong_above_1024"], report="own", decision="inductor: lowerings")

    assert judged(case, report(culprit="inductor: lowerings, step 2"), 1.0).is_met
    assert judged(case, report(culprit="inductor"), 1.0).problems == ("culprit inductor instead of inductor: lowerings",)


def test_a_table_has_a_row_for_each_verdict() -> None:
    met = judged(CASES["nan"], report(signature={"kind": "accuracy", "accuracy": "nan"}), 1.0)
    text = table([met.to_json(), judged(CASES["two_wrongs"], report(stage="a|b"), 2.0).to_json()])

    assert text.startswith("1 of 2 cases are met.\n")
    assert [row.split(" | ")[0] for row in text.splitlines()[4:]] == ["| `nan`", "| `two_wrongs`"]
    assert "stage a\\|b instead of codegen" in text


def test_a_verdict_as_json_is_what_its_schema_says() -> None:
    validate("corpus-run", json.loads(as_json([judged(CASES["wrong_above_1024"], report(op_nodes=2), 1.0).to_json()])))


def test_second_failures_have_to_be_listed() -> None:
    case: Case = CASES["two_wrongs"]
    signature = {"kind": "accuracy", "accuracy": "nan"}

    assert judged(case, report(signature=signature), 1.0).problems == ("accuracy (value) is not listed beside it",)
    assert judged(case, report(signature=signature, other_failures=["accuracy (value)"]), 1.0).is_met
    flaky = dataclasses.replace(case, expected=dataclasses.replace(case.expected, others=(), flaky=True))
    assert judged(flaky, report(signature=signature, status="flaky"), 1.0).is_met


def test_cases_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    corpus("list", ["nan", "two_errors"])
    listed = capsys.readouterr().out
    corpus("show", ["nan"])
    shown = capsys.readouterr().out

    assert [row.split()[0] for row in listed.splitlines()] == ["CASE", "nan", "two_errors"]
    assert CASES["nan"].text in shown and CASES["nan"].script.read_text() in shown
    for action, names in (("lst", []), ("run", ["nann"])):
        with pytest.raises(CliError, match="did you mean"):
            corpus(action, names)


def test_a_repro_that_never_ends_leaves_nothing(tmp_path: Path) -> None:
    script, seen = tmp_path / "repro.py", tmp_path / "pids"
    script.write_text(
        "import subprocess, time\n"
        "started = [subprocess.Popen(['sleep', '60'], start_new_session=apart) for apart in (False, True)]\n"
        f"open({str(seen)!r}, 'w').write(' '.join(str(p.pid) for p in started))\n"
        "time.sleep(60)\n"
    )

    assert once(script, Signature(Kind.HANG), Bounds(5.0)) == (True, "still running after 5 s")
    end = time.monotonic() + 30  # they are killed; on a busy machine they take a moment to go
    while any(map(is_alive, seen.read_text().split())) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(is_alive, seen.read_text().split()))


def is_alive(pid: str) -> bool:
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_case_ends_as_known_and_leaves_no_process(tmp_path: Path) -> None:
    (found,) = run_cases([CASES["aot_error"]], tmp_path)
    assert (found.is_met, found.problems) == (True, ()), found.detail


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_every_script_fails_and_heals(tmp_path: Path) -> None:
    with scripts(tmp_path, jobs=2, fresh=True, timeout=60.0) as transport:
        for faulty in (True, False):
            cases = [c for c in CASES.values() if not (faulty and c.expected.flaky)]
            outcomes = ends_of(transport, cases, faulty)
            assert [text for c, o in zip(cases, outcomes) if (text := complaint(c, o, faulty))] == []


@pytest.mark.slow
@pytest.mark.timeout(14400)
def test_every_case_ends_as_known(tmp_path: Path) -> None:
    found: list[Verdict] = list(run_cases(list(CASES.values()), tmp_path, jobs=2))
    validate("corpus-run", json.loads(as_json([v.to_json() for v in found])))

    assert {v.case: v.problems for v in found if not v.is_met} == {}


@pytest.mark.slow
@pytest.mark.timeout(14400)
def test_every_reported_case_ends_as_known(tmp_path: Path) -> None:
    found = list(run_cases(list(REPORTED.values()), tmp_path, jobs=2, engine="torch"))

    assert {v.case: v.problems for v in found if not v.is_met} == {}
