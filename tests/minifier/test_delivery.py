"""What is handed over: only what was seen to fail, with how often; and scripts under a command."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import dynamo
from minifier.bundle import MANIFEST, of_folder
from minifier.delivery import Draft, bounds_for, deliver
from minifier.engine import Kind, Signature
from minifier.scripts.oracle import signature_of
from minifier.verify import Bounds, Rate, once
from tests.cli.command import run, write
from tests.schemas import validate

FAILURE = Signature(Kind.EXCEPTION, ("RuntimeError",), "no", "lower")


def draft(text: str, measure: Callable[[Path], Rate] | None = None) -> Draft:
    def put(folder: Path, remark: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "repro.py").write_text(f"{text}\n# {remark}\n")

    return Draft(put, FAILURE, "codegen", "3/1.bw", measure=measure)


def test_a_bundle_has_the_backend_that_nothing_in_the_repro_imports(tmp_path: Path) -> None:
    (tmp_path / "acme.py").write_text("import acme_rules\n")
    (tmp_path / "acme_rules.py").write_text("")

    deliver(replace(draft("raise SystemExit(1)"), backend="acme:compiler"), tmp_path)

    assert {"acme.py", "acme_rules.py"} <= set(of_folder(tmp_path).files)


def test_certified_repro_is_handed_over_with_its_rate(tmp_path: Path) -> None:
    (tmp_path / "repro.ddbg").write_text("of an earlier run")
    done = deliver(draft("raise SystemExit(1)"), tmp_path, wants_test=True)

    assert sorted(p.name for p in tmp_path.iterdir()) == ["issue.md", "repro.ddbg", MANIFEST, "repro.py", "test_repro.py"]
    assert (done.rate.hits, done.rate.runs, done.refused) == (3, 3, "")
    assert "# Seen in 3 of 3 runs, each in a new process, with python" in (tmp_path / "repro.py").read_text()
    manifest = of_folder(tmp_path)
    assert (manifest.signature, manifest.stage, manifest.graph, manifest.rate) == (FAILURE, "codegen", "3/1.bw", (3, 3))
    issue = (tmp_path / "issue.md").read_text()
    assert issue.startswith("# RuntimeError: no\n")
    assert "stage `codegen`, graph `3/1.bw`. A minimised script shows it in 3 of 3 runs" in issue
    tested = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_repro.py"]
    assert subprocess.run(tested, cwd=tmp_path, capture_output=True, timeout=120).returncode == 1
    (tmp_path / "repro.py").write_text("")
    assert subprocess.run(tested, cwd=tmp_path, capture_output=True, timeout=120).returncode == 0


OTHERWISE = "print('ValueError: so')\nraise SystemExit(4)"


@pytest.mark.parametrize("text, end", [("", "exit code 0"), (OTHERWISE, "exit code 4: ValueError: so")])
def test_what_does_not_reproduce_is_not_handed_over(tmp_path: Path, text: str, end: str) -> None:
    done = deliver(draft(text), tmp_path)

    assert (done.repro, done.bundle, done.rate) == ("", "", Rate(0, 3, (end,)))
    assert [p.name for p in tmp_path.iterdir()] == ["not_reproducing"]


def test_issue_about_wrong_numbers_names_them_once(tmp_path: Path) -> None:
    deliver(replace(draft("raise SystemExit(1)"), signature=Signature(Kind.ACCURACY, accuracy="value")), tmp_path)

    assert (tmp_path / "issue.md").read_text().startswith("# accuracy (value)\n")


FLAKY = """
from pathlib import Path
with Path(__file__).with_name("count").open("ab") as count:  # runs may be side by side
    count.write(b".")
    count.flush()
    n = count.tell()
raise SystemExit(n % 3 == 0)
"""


def test_flaky_repro_is_run_more_often(tmp_path: Path) -> None:
    done = deliver(draft(FLAKY), tmp_path)

    assert (done.rate.hits, done.rate.runs) == (4, 12)
    assert "Seen in 4 of 12 runs" in (tmp_path / "repro.py").read_text()


def test_flaky_repro_that_is_not_seen_at_first_is_run_on(tmp_path: Path) -> None:
    done = deliver(replace(draft(FLAKY.replace("n % 3 == 0", "n >= 20")), rate=0.3), tmp_path)

    assert (done.rate.hits, done.rate.runs) == (11, 30)


@pytest.mark.parametrize(
    "signature, text, shown",
    [
        (Signature(Kind.SIGNAL, code=11), "import os\nos.kill(os.getpid(), 11)", True),
        (Signature(Kind.SIGNAL, code=6), "import os\nos.kill(os.getpid(), 11)", False),
        (Signature(Kind.EXIT, code=7), "raise SystemExit(7)", True),
        (Signature(Kind.HANG), "import time\ntime.sleep(60)", True),
        (Signature(Kind.HANG), "", False),
        (FAILURE, "import time\ntime.sleep(60)", False),
        (Signature(Kind.MEMORY), "try:\n    bytearray(1 << 30)\nexcept MemoryError:\n    raise SystemExit(1)", True),
    ],
)
def test_ends_of_processes_are_told_apart(tmp_path: Path, signature: Signature, text: str, shown: bool) -> None:
    (tmp_path / "repro.py").write_text(text)
    seconds = 1.0 if "sleep" in text else 60.0

    assert once(tmp_path / "repro.py", signature, Bounds(seconds, bounds_for(signature, 1 << 28).memory))[0] == shown


def test_memory_is_limited_where_the_failure_is_about_it() -> None:
    assert bounds_for(Signature(Kind.EXCEPTION, message="can't allocate memory"), 5).memory == 5
    assert bounds_for(FAILURE, 5).memory is None


ORACLE = """
import sys
text = open(sys.argv[1]).read()
sys.exit(0 if "bad(" in text and "def bad" in text else 125 if not text.strip() else 1)
"""
PROGRAM = """
import math

def good(x):
    return math.sin(x)

def bad(x):
    return x + 1

print(good(2), bad(3))
"""


def test_script_is_reduced_under_a_command(tmp_path: Path) -> None:
    write(tmp_path, ORACLE, "oracle.py")
    command = f"{sys.executable} oracle.py"
    done = run("minify", write(tmp_path, PROGRAM), "--oracle", command, "--json", "--jobs", "1", cwd=tmp_path, timeout=400)
    report = json.loads(done.stdout)
    validate("minify", report)

    assert done.returncode == 1, done.stderr
    said = [report[k] for k in ("status", "stage", "graph", "one_minimal", "reproduction_rate")]
    assert said == ["reproduced", "oracle", None, True, 1.0]
    left = [line for line in (tmp_path / report["repro"]).read_text().splitlines() if not line.startswith("#")]
    assert left[0].startswith("def bad(")
    assert len(left) == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["minified", "oracle.py", "script.py"]


@pytest.mark.slow
@pytest.mark.parametrize("answer, code, says", [("sys.exit(3)", 4, "never exit code 0"), ("sys.exit(0)", 2, "an empty script interesting")])
def test_command_that_tells_nothing(tmp_path: Path, answer: str, code: int, says: str) -> None:
    write(tmp_path, f"import sys\n{answer}\n", "oracle.py")
    done = run("minify", write(tmp_path, PROGRAM), "--oracle", f"{sys.executable} oracle.py", cwd=tmp_path)

    assert done.returncode == code
    assert says in done.stderr
    assert not (tmp_path / "minified" / "repro.py").exists()


def test_place_of_what_a_script_itself_raises_is_no_part_of_its_signature() -> None:
    """The candidate is `script.py`, the repro is not; and any other check of the script stands at the same place."""
    with pytest.raises(AssertionError) as raised:
        exec(compile("assert False, 'NaN at call 1'", "/somewhere/script.py", "exec"))
    own, other = signature_of(raised.value, "script.py"), signature_of(raised.value, "library.py")

    assert (own.frame, own.message, other.frame) == ("", "NaN at call N", "script.py:<module>")


BACKENDS = """
import dynamo

def raises(gm, inputs):
    raise RuntimeError(gm.__class__.__name__)

def returns(gm, inputs):
    return 3

def first(text):
    raise RuntimeError(text)
"""


def test_a_backend_fails_where_it_raises_and_not_where_that_is_told() -> None:
    names: dict[str, Any] = {}
    exec(compile(BACKENDS, "/somewhere/backends.py", "exec"), names)
    found = []
    for backend in (names["raises"], names["returns"], lambda gm, inputs: names["first"]("refused")):
        with pytest.raises(dynamo.BackendError) as raised, dynamo.config.patch(suppress_errors=False):
            dynamo.compile(lambda x: x + 1, backend=backend)(torch.ones(1))
        found.append((signature_of(raised.value, "script.py").frame, signature_of(raised.value, "backends.py").frame))

    assert found == [("backends.py:raises", ""), ("", ""), ("backends.py:first", "")]
