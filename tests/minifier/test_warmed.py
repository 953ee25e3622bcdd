"""Repros run in forks of a warmed process beside one new interpreter, which has the last word."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from minifier.engine import Kind, Signature
from minifier.isolation import LocalTransport, OracleSpec
from minifier.verify import Bounds, Rate, environment, measured, once
from minifier.warmed import Warmed, beside, code_of

FAILURE = Signature(Kind.EXCEPTION, ("RuntimeError",), "no")
COUNTING = """
import os, sys
from pathlib import Path

home = Path(__file__).with_name("runs")
is_new = "minifier.isolation.zygote" not in sys.orig_argv
home.open("a").write("new " if is_new else "fork ")
"""


@pytest.fixture(scope="module")
def transport(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalTransport]:
    transport = LocalTransport(OracleSpec("tests.minifier.oracles:behave"), tmp_path_factory.mktemp("work"))
    yield transport
    transport.close()


@pytest.fixture
def warmed(transport: LocalTransport) -> Iterator[Warmed]:
    made = Warmed(transport, ["import math"], environment())
    yield made
    made.close()


def counted(folder: Path, text: str, warmed: Warmed | None, signature: Signature = FAILURE, rate: float = 1.0) -> tuple[Rate, str]:
    """What was measured of a repro, and where it ran."""
    (folder / "repro.py").write_text(COUNTING + text)
    found = measured(folder / "repro.py", signature, rate, warmed=warmed)
    return found, " ".join(sorted((folder / "runs").read_text().split()))


HOOK = """
def end(kind, error, trace):
    os._exit(1 if "bad" in str(error) else 4)

sys.excepthook = end
raise ValueError("bad")
"""


@pytest.mark.parametrize(
    "text", ["raise SystemExit(1)", "raise ValueError", HOOK, "raise SystemExit(__name__ == '__main__' and sys.argv == [__file__])"]
)
def test_one_new_interpreter_and_forks(tmp_path: Path, warmed: Warmed, text: str) -> None:
    assert counted(tmp_path, text, warmed) == (Rate(3, 3), "fork fork new")


@pytest.mark.parametrize(
    "text, rate, where",
    [
        ("raise SystemExit(int(is_new))", Rate(3, 3), "fork fork new new new"),
        ("raise SystemExit(int(not is_new))", Rate(0, 3, ("exit code 0",)), "fork fork new new new"),
        ("raise SystemExit(4)", Rate(0, 3, ("exit code 4",)), "fork fork new new new"),
    ],
)
def test_new_interpreters_have_the_last_word(tmp_path: Path, warmed: Warmed, text: str, rate: Rate, where: str) -> None:
    assert counted(tmp_path, text, warmed) == (rate, where)


def test_ends_of_processes_are_seen_in_new_interpreters(tmp_path: Path, warmed: Warmed) -> None:
    found = counted(tmp_path, "os.kill(os.getpid(), 11)", warmed, Signature(Kind.SIGNAL, code=11))

    assert found == (Rate(3, 3), "new new new")


def test_flaky_failures_are_counted_in_new_interpreters(tmp_path: Path, warmed: Warmed) -> None:
    rate, where = counted(tmp_path, "raise SystemExit(1)", warmed, rate=0.5)

    assert (rate, where) == (Rate(12, 12), " ".join(["new"] * 12))


@pytest.mark.parametrize("text, code", [("", 0), ("raise SystemExit(7)", 7), ("os.kill(os.getpid(), 9)", -9), ("1 / 0", 1)])
def test_exit_codes_of_forks(tmp_path: Path, warmed: Warmed, text: str, code: int) -> None:
    (tmp_path / "repro.py").write_text(f"import os\n{text}")

    assert code_of(warmed.run(tmp_path / "repro.py").result(timeout=60)) == code


def test_new_interpreter_has_what_is_known_of_the_machine_and_no_graph(tmp_path: Path) -> None:
    transport = LocalTransport(OracleSpec("tests.minifier.oracles:behave", lends=True), tmp_path)
    early = beside(transport, ["import os"], environment())  # before anything is known
    for name in ("fxgraph/g", "aotautograd/g", "locks/l", "ab/kernel.so", "ab/locks"):
        (tmp_path / "cache" / "inductor" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cache" / "inductor" / name).write_text(name)
    (tmp_path / "repro.py").write_text("import os\nprint(os.environ['TORCHINDUCTOR_CACHE_DIR'], os.environ['TMPDIR'])")
    made = Warmed(transport, ["import os"], environment(), early)
    once(tmp_path / "repro.py", FAILURE, Bounds(), made.early)
    early.said.seek(0)
    folder, temporary = map(Path, early.said.read().decode().split())
    made.close()
    transport.close()

    assert made.early is early
    assert temporary == folder / "tmp"
    assert sorted(str(p.relative_to(folder)) for p in folder.glob("ab/*")) == ["ab/kernel.so", "ab/locks"]
    assert sorted(p.name for p in folder.iterdir()) == ["ab", "tmp"]


def test_interpreter_that_has_run_other_lines_is_not_taken(transport: LocalTransport) -> None:
    early = beside(transport, ["import math"], environment())
    made = Warmed(transport, ["import os"], environment(), early)
    made.close()
    early.close()

    assert made.early is not early


def test_interpreter_that_is_started_early_runs_the_repro_as_a_reader_would(tmp_path: Path, warmed: Warmed) -> None:
    (tmp_path / "repro.py").write_text("import os, sys\nprint(__name__, sys.argv, os.getcwd(), sys.path[0], 'math' in sys.modules)\n1 / 0")
    shown, how = once(tmp_path / "repro.py", FAILURE, Bounds(), warmed.early)
    warmed.early.said.seek(0)

    assert shown
    assert how == "exit code 1: ZeroDivisionError: division by zero"
    said = warmed.early.said.read().decode()
    assert said.startswith(f"__main__ ['{tmp_path}/repro.py'] {tmp_path} {tmp_path} True\n")


OLD = """
import gc

raise SystemExit(len(gc.get_objects(generation=2)) < 100_000)
"""


def test_what_is_loaded_early_is_not_looked_through_for_garbage(tmp_path: Path, transport: LocalTransport) -> None:
    (tmp_path / "repro.py").write_text(OLD)
    many = "kept = [[] for _ in range(100_000)]"
    made = Warmed(transport, [many], environment())
    made.early.run(tmp_path / "repro.py")
    code = made.early.process.wait(60)
    made.close()

    assert code == 0


def test_interpreter_that_nobody_needs_is_ended(transport: LocalTransport) -> None:
    made = Warmed(transport, ["import time", "time.sleep(100)"], environment())
    made.close()

    assert made.early.process.returncode == -9
