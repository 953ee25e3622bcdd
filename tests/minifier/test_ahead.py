"""What is made ready before it is known to be needed: processes for graphs, and headers that torch's compiler has compiled before."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dynamo.peer import patient
from minifier import ahead, doors
from minifier.engine import Candidate, Verdict
from minifier.graph import warming
from minifier.graph.oracle import Setting, known
from minifier.isolation import Limits, LocalTransport, OracleSpec
from minifier.isolation.lent import give_back, headers, lend
from minifier.ladder.probe import spec_for
from minifier.programs import program

HEADERS = "torchinductor_me/precompiled_headers"


def test_processes_are_started_before_torch_is_loaded() -> None:
    check = "import sys, tui.commands.minify, minifier.ahead; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}).returncode == 0


def test_processes_that_are_started_early_are_those_of_the_ladder() -> None:
    early = {"backend": "aot_eager", "after": "aot", "accuracy": True, "engine": "torch"}
    setting = Setting("aot_eager", "aot", True, engine="torch")

    assert Setting.from_json(early) == setting
    assert warming.spec(warming.OF_MANY, early).environment.keys() == spec_for(setting).environment.keys()


@pytest.mark.parametrize("text, after, starts", [("", "auto", True), ("", "capture", False), ("compile(f, backend=b)", "auto", False)])
def test_nothing_is_started_that_may_not_be_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, after: str, starts: bool
) -> None:
    monkeypatch.setattr(doors, "close", lambda: None)  # which is for good
    (tmp_path / "script.py").write_text(text)
    made = ahead.started(program(str(tmp_path / "script.py"), []), after, "dynamo", "", False, tmp_path, 1, Limits())

    assert (made is not None) == starts
    if made is not None:
        made.close()


def test_headers_are_found_and_cannot_be_changed(tmp_path: Path) -> None:
    home, target = tmp_path / "home", tmp_path / "target"
    (home / HEADERS / "locks").mkdir(parents=True)
    for name in ("a.h", "a.h.gch"):
        (home / HEADERS / name).write_text(name)

    assert lend(home, target)
    assert lend(home, target)
    assert [(target / HEADERS / name).read_text() for name in ("a.h", "a.h.gch")] == ["a.h", "a.h.gch"]
    (target / HEADERS / "a.h").unlink()
    assert (home / HEADERS / "a.h").read_text() == "a.h"
    assert not lend(tmp_path / "nothing", target)


@pytest.mark.parametrize("lends", [False, True])
def test_only_what_asks_torchs_compiler_gets_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lends: bool) -> None:
    (tmp_path / HEADERS).mkdir(parents=True)
    (tmp_path / HEADERS / "a.h").write_text("")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    LocalTransport(OracleSpec("tests.minifier.oracles:behave", lends=lends), tmp_path / "work").close()

    assert (tmp_path / "work" / "tmp" / HEADERS / "a.h").exists() == lends


def test_headers_are_given_back_once(tmp_path: Path) -> None:
    home, target = tmp_path / "home", tmp_path / "target"
    for place, name, text in ((home, "a.h", "theirs"), (target, "a.h", "ours"), (target, "old.h.gch", "half of"), (home, "lent.h", "lent")):
        (place / HEADERS).mkdir(parents=True, exist_ok=True)
        (place / HEADERS / name).write_text(text)
    lend(home, target)
    known = headers(target) - {Path(HEADERS, "a.h")}
    (target / HEADERS / "new.h.gch").write_text("new")
    give_back(target, home, known)

    found = {p.name: p.read_text() for p in (home / HEADERS).iterdir()}
    assert found == {"a.h": "theirs", "lent.h": "lent", "new.h.gch": "new"}
    assert not (target / HEADERS / "new.h.gch").samefile(home / HEADERS / "new.h.gch")


def test_a_header_that_cannot_be_given_back_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(source: Path, target: str) -> None:
        Path(target).write_text("half")
        raise OSError

    (tmp_path / "target" / HEADERS).mkdir(parents=True)
    (tmp_path / "target" / HEADERS / "a.h").write_text("a")
    monkeypatch.setattr(shutil, "copyfile", fails)
    give_back(tmp_path / "target", tmp_path / "home", frozenset())

    assert list((tmp_path / "home" / HEADERS).iterdir()) == []


@pytest.mark.parametrize("lends", [False, True])
def test_headers_that_the_warmed_process_compiles_are_there_for_the_next_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lends: bool
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spec = OracleSpec("tests.minifier.oracles:behave", warm=("tests.minifier.oracles:warm_with_a_header",), lends=lends)
    LocalTransport(spec, tmp_path / "one").close()

    assert headers(tmp_path) == ({Path(HEADERS, "b.h.gch")} if lends else set())
    LocalTransport(replace(spec, warm=()), tmp_path / "two").close()
    assert headers(tmp_path / "two" / "tmp") == headers(tmp_path)


class Kind:
    """A kind of instructions, which can be built or not."""

    def __init__(self, builds: bool) -> None:
        self.builds, self.tried = builds, 0

    def __bool__(self) -> bool:
        self.tried += 1
        return self.builds


WORKS, RAISES, ONE_BY_ONE = (True, 1), (False, 0), (True, 0)  # whether a kernel works, and how many were vectorised


@pytest.mark.parametrize(
    "count, told, asked, kernel, tried, found",
    [
        (2, None, "", WORKS, 1, True),
        (2, None, "", RAISES, 2, False),
        (2, None, "", ONE_BY_ONE, 2, False),
        (0, None, "", ONE_BY_ONE, 0, False),
        (2, False, "", WORKS, 1, False),
        (2, None, "avx2", WORKS, 1, False),
    ],
    ids=["works", "raises", "not vectorised", "none", "told by the user", "another is asked for"],
)
def test_instructions_are_tried_by_a_kernel_where_they_are_taken(
    monkeypatch: pytest.MonkeyPatch, count: int, told: bool | None, asked: str, kernel: tuple[bool, int], tried: int, found: bool
) -> None:
    is_fine, vectorised = kernel
    kinds, ran = [Kind(True) for _ in range(count)], list[bool | None]()
    torchs = SimpleNamespace(
        cpp=SimpleNamespace(vec_isa_ok=told),
        generated_cpp_vec_kernel_count=0,
        valid_vec_isa_list=SimpleNamespace(cache_clear=lambda: None),
    )

    def small() -> None:
        ran.append(torchs.cpp.vec_isa_ok)
        torchs.generated_cpp_vec_kernel_count += vectorised
        if not is_fine:
            raise RuntimeError

    monkeypatch.setattr(patient, "_kinds", lambda: kinds)
    monkeypatch.setattr(patient, "_of", lambda name: torchs)
    monkeypatch.setattr(patient, "_compile_small", lambda backend: None)
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", asked) if asked else monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)

    assert patient.know_first_kind(small) == ({"TORCHINDUCTOR_VEC_ISA_OK": "1"} if found else {})
    assert [k.tried for k in kinds] == [tried] * count
    assert ran == ([True] if found else [True, told] if tried == 2 else [told])
    assert torchs.cpp.vec_isa_ok is (True if found else told)


KERNEL = """
import os, subprocess, sys
import torch
import torch._inductor.cpu_vec_isa as isa
from dynamo.peer import patient

broken, texts, original = len(sys.argv) > 1, [], subprocess.run

def run(command, *args, **kwargs):
    texts.extend(open(word).read() for word in command if str(word).endswith(".cpp"))
    if broken and any("exp()" in text for text in texts[-1:]):
        raise subprocess.CalledProcessError(1, command, b"no such instructions")
    return original(command, *args, **kwargs)

subprocess.run = run

def kernel():
    torch.compiler.reset()
    torch.compile(torch.exp)(torch.ones(64))

told = patient.know_first_kind(kernel)
tries = sum("__avx_chk_kernel" in text for text in texts)
known = bool(isa.valid_vec_isa_list())
sys.exit((told, tries > 0, known) != (({}, True, False) if broken else ({"TORCHINDUCTOR_VEC_ISA_OK": "1"}, False, True)))
"""


@pytest.mark.parametrize("broken", [[], pytest.param(["broken"], marks=pytest.mark.slow)], ids=["works", "does not"])
def test_torchs_own_try_is_left_out_where_a_kernel_works(tmp_path: Path, broken: list[str]) -> None:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TORCHINDUCTOR_", "ATEN_"))}
    variables = {"PYTHONPATH": os.pathsep.join(sys.path), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    assert subprocess.run([sys.executable, "-c", KERNEL, *broken], env={**kept, **variables}).returncode == 0


def test_the_first_graph_of_our_compiler_is_one_that_few_failures_are_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMO_FAULT", "lower-hang:op=exp")
    transport = LocalTransport(spec_for(Setting()), tmp_path, in_background=True)
    try:
        waited = threading.Thread(target=transport.found, daemon=True)
        waited.start()
        waited.join(60)
        assert not waited.is_alive()
    finally:
        transport.close()


WIDTH = "torch._inductor.config.cpp.simdlen"
INSTRUCTIONS = f"""
import os, sys
import torch
import torch._inductor.cpu_vec_isa as isa
from dynamo.peer import patient

told = patient.know_first_kind(lambda: torch.compile(torch.exp)(torch.ones(64)))
isa.valid_vec_isa_list()
patient.set_options({{{WIDTH!r}: 256}})
config = torch._inductor.config.cpp
sys.exit(not (config.vec_isa_ok is None and isa.valid_vec_isa_list.cache_info().currsize == 0))
"""


@pytest.mark.slow
def test_an_option_for_other_instructions_has_them_tried(tmp_path: Path) -> None:
    variables = {"PYTHONPATH": os.pathsep.join(sys.path), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    assert subprocess.run([sys.executable, "-c", INSTRUCTIONS], env={**os.environ, **variables}).returncode == 0


def test_what_the_warmed_process_found_out_is_known_to_others(tmp_path: Path) -> None:
    spec = OracleSpec("tests.minifier.oracles:variable", warm=("tests.minifier.oracles:warm_with_a_variable",))
    transport = LocalTransport(spec, tmp_path, in_background=True)
    try:
        assert known(Setting(engine="torch"), transport) == {"FOUND_OUT": "yes"}
        assert known(Setting(engine="torch", options={WIDTH: 256}), transport) == {}
        assert transport.submit(Candidate("x", b"")).result().verdict is Verdict.INTERESTING
    finally:
        transport.close()
