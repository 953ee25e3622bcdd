"""Isolation: whatever a candidate does has a typed answer, and nothing of it is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from minifier.engine import Candidate, Kind, Options, Outcome, Signature, Verdict, minimise
from minifier.isolation import IsolationError, Limits, LocalTransport, OracleSpec, local
from minifier.isolation.linux import below, parents
from minifier.isolation.standing import readable
from tests.minifier.toys import NumberList

SPEC = OracleSpec("tests.minifier.oracles:behave", warm=("tests.minifier.oracles:warm",))
LIMITS = {"timeout": 2.0, "memory": 256 << 20}


@pytest.fixture(scope="module")
def transport(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalTransport]:
    made = LocalTransport(SPEC, tmp_path_factory.mktemp("work"), jobs=4, limits=Limits(**LIMITS))
    yield made
    made.close()


def ask(transport: LocalTransport, behaviour: str) -> Outcome:
    return transport.submit(Candidate(behaviour, behaviour.encode())).result(timeout=30)


@pytest.mark.parametrize(
    "behaviour, verdict, signature",
    [
        ("ok", "boring", None),
        ("fails", "interesting", None),
        ("wrong_value", "interesting", Signature(Kind.ACCURACY, accuracy="value")),
        (
            "raises",
            "interesting",
            Signature(Kind.EXCEPTION, ("ValueError", "KeyError"), "N of relu", "oracles.py:_inner", stage="compiled"),
        ),
        ("escapes", "other", Signature(Kind.EXCEPTION, ("ImportError",), "a mistake of the harness", "oracles.py:escapes")),
        ("segfaults", "interesting", Signature(Kind.SIGNAL, frame="__init__.py:string_at", code=11, stage="compiled")),
        ("aborts", "interesting", Signature(Kind.SIGNAL, frame="oracles.py:aborts", code=6, stage="compiled")),
        ("hangs", "interesting", Signature(Kind.HANG, frame="oracles.py:hangs", stage="compiled")),
        ("hangs_with_family", "interesting", Signature(Kind.HANG, frame="oracles.py:hangs", stage="compiled")),
        ("ignores_sigterm", "interesting", Signature(Kind.HANG, frame="oracles.py:hangs", stage="compiled")),
        ("takes_memory", "other", Signature(Kind.MEMORY)),
        ("family_takes_memory", "interesting", Signature(Kind.MEMORY, stage="compiled")),
        ("exits_three", "interesting", Signature(Kind.EXIT, code=3, stage="compiled")),
        ("exits_zero", "interesting", Signature(Kind.EXIT, stage="compiled")),
        ("leaves", "interesting", Signature(Kind.EXIT, code=4, stage="compiled")),
        ("exits_in_atexit", "interesting", Signature(Kind.EXIT, code=7, stage="exit")),
        ("hangs_in_atexit", "interesting", Signature(Kind.HANG, frame="oracles.py:hangs", stage="exit")),
        ("reference segfaults", "invalid", Signature(Kind.SIGNAL, frame="__init__.py:string_at", code=11, stage="eager")),
        ("reference exits_three", "invalid", Signature(Kind.EXIT, code=3, stage="eager")),
        ("talks_much", "interesting", None),
        ("lies", "boring", None),
        ("leaves_daemon", "interesting", None),
        ("is_warm", "interesting", None),
        ("is_let_alone", "interesting", None),
    ],
)
def test_ends_are_typed(transport: LocalTransport, behaviour: str, verdict: str, signature: Signature | None) -> None:
    found = ask(transport, behaviour)

    assert (found.verdict, found.signature) == (Verdict(verdict), signature), found.detail
    assert processes(transport) == []
    assert list((transport.folder / "queries").iterdir()) == []


def processes(transport: LocalTransport) -> list[int]:
    """What lives below the warmed process once there was time to end, on a busy machine too."""
    deadline = time.monotonic() + 60
    while (found := below(transport._zygote.pid)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


@pytest.mark.parametrize(
    "behaviour, frame, is_patient, verdict, most",
    [
        ("hangs", "oracles.py:hangs", False, "interesting", 3.0),
        ("hangs_with_family", "oracles.py:hangs", False, "interesting", 3.0),
        ("hangs", "oracles.py:rests", False, "interesting", 30.0),
        ("rests", "oracles.py:hangs", False, "boring", 30.0),
        ("rests", "oracles.py:rests", False, "interesting", 3.5),
        ("rests", "oracles.py:rests", True, "boring", 30.0),
        ("waits_for_work", "selectors.py:select", False, "boring", 30.0),
        ("waits_for_work", "", False, "boring", 30.0),
    ],
)
def test_what_stands_still_where_it_hung_before_is_not_waited_for(
    transport: LocalTransport, behaviour: str, frame: str, is_patient: bool, verdict: str, most: float
) -> None:
    """A frame that is another's leaves it all its time; and so does work that is done below it."""
    before, transport.limits.timeout = transport.limits.timeout, 8.0
    transport.looks(0.5, frame)
    try:
        found = transport.submit(Candidate(behaviour, behaviour.encode(), is_patient)).result(timeout=30)
    finally:
        transport.looks(0.0)
        transport.limits.timeout = before

    assert (found.verdict.value, found.seconds < most) == (verdict, True), found
    if found.signature is not None:
        assert found.signature == Signature(Kind.HANG, frame=f"oracles.py:{behaviour.partition('_')[0]}", stage="compiled")
    assert processes(transport) == []


def test_a_controller_that_goes_before_the_warmed_process_is_ready_leaves_no_trace(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    made = LocalTransport(SPEC, tmp_path, limits=Limits(**LIMITS), in_background=True)
    hello = made._control.recv(1, socket.MSG_PEEK)  # it is ready, and nobody reads that
    made._control.close()
    made._zygote.wait(30)

    assert (hello, made._zygote.returncode, capfd.readouterr().err) == (b"\0", 0, "")


def test_four_at_a_time_don_t_mix(transport: LocalTransport) -> None:
    names = ["ok", "fails", "exits_three", "segfaults"] * 5
    runs = [transport.submit(Candidate(n, n.encode())) for n in names]

    assert [r.result(timeout=60).verdict.value for r in runs] == ["boring", "interesting", "interesting", "interesting"] * 5
    assert processes(transport) == []


def test_given_up_query_ends_at_once(transport: LocalTransport) -> None:
    transport.limits.timeout, before = 100.0, transport.limits.timeout
    run = transport.submit(Candidate("h", b"hangs_with_family"))
    time.sleep(0.5)
    began = time.monotonic()
    transport.cancel(run)

    assert run.result(timeout=10).verdict is Verdict.INVALID
    assert time.monotonic() - began < 2
    assert processes(transport) == []
    transport.limits.timeout = before


def test_warmed_process_that_died_is_started_again(transport: LocalTransport) -> None:
    os.kill(transport._zygote.pid, signal.SIGKILL)
    transport._zygote.wait()

    assert ask(transport, "is_warm").verdict is Verdict.INTERESTING


def test_new_interpreter_when_asked(tmp_path: Path) -> None:
    made = LocalTransport(SPEC, tmp_path / "work", limits=Limits(**LIMITS), fresh=True)

    assert [ask(made, b).verdict.value for b in ("is_fresh", "is_warm", "exits_in_atexit")] == ["interesting", "boring", "interesting"]
    made.close()


def test_random_numbers_of_forks_differ(tmp_path: Path) -> None:
    transport = LocalTransport(replace(SPEC, warm=("tests.minifier.oracles:warm_torchs_compiler",)), tmp_path)
    try:
        one, two = (ask(transport, "draws").detail.split() for _ in range(2))
    finally:
        transport.close()

    assert all(first != second for first, second in zip(one, two, strict=True))
    assert len(one) == 3


def test_no_fork_after_use_of_a_gpu(tmp_path: Path) -> None:
    made = LocalTransport(OracleSpec(SPEC.function, warm=("tests.minifier.oracles:touch_gpu",)), tmp_path / "work")

    assert ask(made, "is_fresh").verdict is Verdict.INTERESTING
    made.close()


def test_backward_in_a_fork_of_a_process_that_had_fake_tensors(tmp_path: Path) -> None:
    made = LocalTransport(OracleSpec(SPEC.function, warm=("tests.minifier.oracles:warm_torchs_compiler",)), tmp_path / "work", jobs=2)

    runs = [made.submit(Candidate("goes_backward", b"goes_backward")) for _ in range(60)]
    ends = {str(run.result(timeout=60).signature) for run in runs}
    made.close()

    assert ends == {"None"}


def test_a_lost_device_costs_one_process(tmp_path: Path) -> None:
    made = LocalTransport(OracleSpec(SPEC.function, warm=("tests.minifier.oracles:touch_gpu",)), tmp_path / "work")

    lost = ask(made, "loses_device")
    assert (lost.verdict, lost.signature and lost.signature.message) == (
        Verdict.INTERESTING,
        "CUDA error: an illegal memory access was encountered",
    )
    assert ask(made, "uses_device").verdict is Verdict.BORING
    made.close()


def test_stack_of_a_crash_leaves_out_what_the_tool_has_below_the_program() -> None:
    ours = Path(local.__file__).with_name("child.py")
    frames = [("ctypes/__init__.py", 519, "string_at"), ("lowering.py", 3, "lower"), (str(ours), 93, "run"), ("runpy.py", 88, "_run_code")]
    lines = [f'  File "{file}", line {line} in {name}' for file, line, name in frames]
    dump = "\n".join(
        ["Fatal Python error: Segmentation fault", "", "Current thread (most recent call first):", *lines, "", "Extension modules: a"]
    )

    assert readable(dump).splitlines() == [*dump.splitlines()[:1], "Current thread (most recent call first):", *lines[:2]]
    assert readable("") == ""
    assert readable("killed") == "killed"


def test_no_files_outside_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    made = LocalTransport(SPEC, tmp_path / "work")
    assert ask(made, "leaves_files").verdict is Verdict.INTERESTING
    made.close()

    assert [p.name for p in tmp_path.iterdir()] == ["work"]
    assert [p for p in (tmp_path / "work").rglob("*") if p.is_file()] == []


def test_warmed_process_that_can_t_start(tmp_path: Path) -> None:
    with pytest.raises(IsolationError, match="no such model"):
        LocalTransport(OracleSpec("x:y", warm=("tests.minifier.oracles:refuse",)), tmp_path)


def test_queries_wait_for_a_process_that_is_made_ready_in_background(tmp_path: Path) -> None:
    made = LocalTransport(SPEC, tmp_path, jobs=2, in_background=True)
    runs = [made.submit(Candidate("w", b"is_warm")) for _ in range(2)]

    assert [run.result(timeout=30).verdict for run in runs] == [Verdict.INTERESTING] * 2
    made.close()


def test_nobody_waits_for_a_process_that_is_not_needed(tmp_path: Path) -> None:
    made = LocalTransport(replace(SPEC, warm=("tests.minifier.oracles:warm_for_long",)), tmp_path, in_background=True)
    zygote = made._zygote.pid
    began = time.monotonic()
    made.close()

    assert time.monotonic() - began < 5
    assert zygote not in parents()


def test_another_function_is_asked_in_the_same_process(transport: LocalTransport) -> None:
    asked = transport.ask("tests.minifier.oracles:other", Candidate("o", b"ok"))

    assert (asked.result(timeout=30).verdict, ask(transport, "ok").verdict) == (Verdict.INTERESTING, Verdict.BORING)


def test_warming_up_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "WARMING", 2.0)
    made = LocalTransport(OracleSpec(SPEC.function, warm=("tests.minifier.oracles:warm_for_long",)), tmp_path)

    assert ask(made, "fails").verdict is Verdict.INTERESTING
    made.close()


def test_crash_while_warming_up(tmp_path: Path) -> None:
    made = LocalTransport(OracleSpec(SPEC.function, warm=("tests.minifier.oracles:crash",)), tmp_path)

    assert ask(made, "fails").verdict is Verdict.INTERESTING
    made.close()


CONTROLLER = """
import sys, time
from pathlib import Path
from minifier.engine import Candidate
from minifier.isolation import LocalTransport, OracleSpec
transport = LocalTransport(OracleSpec("tests.minifier.oracles:behave"), Path(sys.argv[1]))
transport.submit(Candidate("h", b"hangs_with_family"))
print(transport._zygote.pid, flush=True)
time.sleep(100)
"""


def test_killed_controller_leaves_nothing(tmp_path: Path) -> None:
    controller = subprocess.Popen([sys.executable, "-c", CONTROLLER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert controller.stdout is not None
    zygote = int(controller.stdout.readline())
    time.sleep(1.0)
    started = [zygote, *below(zygote)]
    controller.kill()
    controller.communicate()
    assert len(started) >= 4
    deadline = time.monotonic() + 60  # on a busy machine not at once
    while set(started) & set(parents()) and time.monotonic() < deadline:
        time.sleep(0.02)

    assert set(started) & set(parents()) == set()


def test_goes_on_where_a_killed_controller_was(tmp_path: Path) -> None:
    left = tmp_path / "queries" / "1" / "tmp" / "file"
    left.parent.mkdir(parents=True)
    left.write_text("of a candidate that was under way")
    made = LocalTransport(SPEC, tmp_path)

    assert ask(made, "fails").verdict is Verdict.INTERESTING
    made.close()
    assert not left.exists()


@pytest.mark.parametrize("code, verdict", [(0, "interesting"), (1, "boring"), (101, "other"), (125, "invalid")])
def test_command_as_oracle(tmp_path: Path, code: int, verdict: str) -> None:
    script = f"import sys; sys.exit({code} if open(sys.argv[1]).read() == 'text' and sys.argv[1].endswith('/a.py') else 55)"
    made = LocalTransport(OracleSpec(command=(sys.executable, "-c", script), name="a.py"), tmp_path)

    assert ask(made, "text").verdict.value == verdict
    made.close()


def test_reduction_with_a_command(tmp_path: Path) -> None:
    script = "import json,sys; s = json.load(open(sys.argv[1])); sys.exit(0 if 3 in s and 11 in s else 1)"
    made = LocalTransport(OracleSpec(command=(sys.executable, "-c", script)), tmp_path / "work", jobs=2)
    result = minimise(NumberList(lowers=False), tuple(range(16)), made, Options(journal=tmp_path / "j", calibration=2, confirm=1))
    made.close()

    assert (result.state, result.certificate is not None) == ((3, 11), True)
    assert made.limits.timeout < 300


def test_command_that_is_not_there(tmp_path: Path) -> None:
    made = LocalTransport(OracleSpec(command=("/no/such/command",)), tmp_path)

    found = ask(made, "text")
    made.close()
    assert found.verdict is Verdict.BORING
    assert "No such file" in found.detail
