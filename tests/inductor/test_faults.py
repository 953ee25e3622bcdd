"""What can go wrong around a build or a call gives right results or one clear error."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path

import pytest
import torch

from dynamo import config
from inductor.errors import BuildError
from inductor.runtime import cache
from inductor.targets.cpu import build
from tests.inductor.helpers import assert_same, compiled

PROGRAM = """
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from inductor.compile import compile_graph
fn = lambda x: (x.exp() + 1).sum(1)
x = torch.ones(40, 50)
run = compile_graph(make_fx(fn, tracing_mode="fake")(x), [x])
torch.testing.assert_close(run([x])[0], fn(x))
"""


@pytest.fixture
def cache_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNAMO_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def fn(x):
    return (x.exp() + 1).sum(1)


X = torch.ones(40, 50)


def libraries(folder: Path) -> list[Path]:
    return sorted(folder.glob("kernels/*/*.so"))


def run_python(tmp_path: Path, **environment: str) -> subprocess.Popen[str]:
    env = os.environ | {"PYTHONPATH": os.getcwd(), "OMP_NUM_THREADS": "1"} | environment
    return subprocess.Popen([sys.executable, "-c", PROGRAM], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return str(path)


def test_missing_compiler_warns_and_runs_in_eager(cache_dir, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.warns(UserWarning, match=r"no C compiler: no-such-compiler.*DI001"):
        run = compiled(fn, [X])
    assert_same(run(X), fn(X))


def test_a_compiler_may_have_arguments(cache_dir, monkeypatch, tmp_path):
    """`CC="ccache gcc -pipe"`, and a program whose path has a space; an empty `CC` is none."""
    monkeypatch.delenv("CC", raising=False)
    log = tmp_path / "called"
    (tmp_path / "my tools").mkdir()
    wrapper = script(tmp_path / "my tools" / "wrapper", f'echo "$1" >> "{log}"\nexec "$@"')
    real = " ".join(build.compiler())
    identities = set()
    for cc in (f"'{wrapper}' {real} -pipe", f"'{wrapper}' {real}", "", real):
        monkeypatch.setenv("CC", cc)
        with warnings.catch_warnings(record=True) as said:
            assert_same(compiled(fn, [X])(X), fn(X))
        assert not said
        identities.add(build.compiler_identity(build.compiler()))
    assert log.read_text().split() == [real, real]
    assert len(identities) == 3
    monkeypatch.setenv("CC", script(tmp_path / "my tools" / "cc", f'exec {real} "$@"'))
    assert_same(compiled(fn, [X])(X), fn(X))
    assert build.compiler() == (str(tmp_path / "my tools" / "cc"),)


def test_missing_compiler_is_an_error_when_errors_are_wanted(cache_dir, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with config.patch(suppress_errors=False), pytest.raises(BuildError, match="install gcc or set CC"):
        compiled(fn, [X])


@pytest.mark.parametrize(
    "text, message", [("kill -9 $$", "killed by signal 9"), ("echo it is broken >&2; exit 3", "exit code 3"), ("exit 0", "exit code 0")]
)
def test_failing_compiler_warns_and_runs_in_eager(cache_dir, monkeypatch, tmp_path, text, message):
    monkeypatch.setenv("CC", script(tmp_path / "cc", text))
    with pytest.warns(UserWarning, match=message):
        run = compiled(fn, [X])
    assert_same(run(X), fn(X))
    assert not libraries(cache_dir)


def test_what_a_killed_compiler_leaves_goes_with_the_folder_of_the_build(cache_dir, monkeypatch, tmp_path):
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("CC", script(tmp_path / "cc", "touch $TMPDIR/ccAb12.s; kill -9 $$"))
    with pytest.warns(UserWarning, match="killed by signal 9"):
        compiled(fn, [X])
    assert list(place.iterdir()) == []


def test_second_build_comes_from_the_cache(cache_dir, monkeypatch):
    compiled(fn, [X])
    monkeypatch.setattr(build, "run_compiler", lambda *a: pytest.fail("built again"))
    assert_same(compiled(fn, [X])(X), fn(X))


DAMAGES = {"cut": lambda p: p.write_bytes(p.read_bytes()[:1000]), "emptied": lambda p: p.write_bytes(b""), "gone": lambda p: p.unlink()}
QUICK_DAMAGES = {(".so", "cut"), (".sum", "gone")}  # each takes 9 s of a processor
ENTRIES = [pytest.param(s, d, marks=[] if (s, d) in QUICK_DAMAGES else pytest.mark.slow) for s in (".so", ".sum") for d in DAMAGES]


@pytest.mark.parametrize("suffix, damage", ENTRIES)
def test_damaged_entries_are_rebuilt(cache_dir, tmp_path, suffix, damage):
    with run_python(tmp_path) as first:
        assert first.wait() == 0, first.stderr.read()
    (library,) = libraries(cache_dir)
    DAMAGES[damage](library.with_suffix(suffix))
    with run_python(tmp_path) as second:
        assert second.wait() == 0, second.stderr.read()
    assert cache.find(library.stem) == library


def test_read_only_cache_still_compiles(cache_dir, monkeypatch):
    def refuse(*args):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(cache, "write", refuse)
    assert_same(compiled(fn, [X])(X), fn(X))
    assert not libraries(cache_dir)


def test_full_disk_leaves_nothing_half_written(cache_dir, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert_same(compiled(fn, [X])(X), fn(X))
    assert not [p for p in cache_dir.rglob("*") if p.is_file()]


def test_two_processes_build_the_same_graph(cache_dir, tmp_path):
    processes = [run_python(tmp_path) for _ in range(2)]
    for process in processes:
        with process:
            assert process.wait() == 0, process.stderr.read()
    assert len(libraries(cache_dir)) == 1


def test_cache_drops_what_was_used_longest_ago(cache_dir, monkeypatch):
    compiled(fn, [X])
    (first,) = libraries(cache_dir)
    os.utime(first, (1, 1))
    allowed = cache.info().bytes
    monkeypatch.setattr(cache, "limit", lambda: allowed)
    compiled(lambda x: x.sin() * 3, [X])
    assert first not in libraries(cache_dir)
    assert cache.clear() == 1
    assert cache.info().entries == 0


def test_eight_threads_call_one_graph():
    def program(x):
        y = x.exp()
        return (y @ y.t()).relu().sum(1), y.softmax(1)

    inputs = [torch.randn(30, 30) for _ in range(8)]
    run, wrong = compiled(program, [inputs[0]]), []

    def call(x):
        expected = program(x)
        for _ in range(200):
            for found, wanted in zip(run(x), expected, strict=True):
                if not torch.allclose(found, wanted, rtol=1e-4, atol=1e-4):
                    wrong.append(x)

    threads = [threading.Thread(target=call, args=(x,)) for x in inputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_fork_after_a_parallel_call():
    x = torch.randn(2000, 500)
    run = compiled(lambda t: t.exp().sum(1), [x])
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    expected = run(x)[0]
    child = os.fork()
    if child == 0:
        os._exit(0 if torch.equal(run(x)[0], expected) else 1)
    _, status = os.waitpid(child, 0)
    torch.set_num_threads(before)
    assert status == 0


def test_same_bits_from_run_to_run_and_for_any_number_of_threads():
    x = torch.randn(3000, 700)
    run = compiled(lambda t: (t.sum(), t.sum(0), t.softmax(1), t.var(1)), [x])
    before, results = torch.get_num_threads(), []
    for threads in (1, 2, 2, 1):
        torch.set_num_threads(threads)
        results.append(run(x))
    torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_errors_of_operators_reach_the_caller_and_leave_the_program_usable():
    def program(a, b):
        return torch.linalg.cholesky(a + 0.0) @ b

    good = torch.eye(4)
    run = compiled(program, [good, good.clone()])
    with pytest.raises(RuntimeError, match="positive-definite"):
        run(-good, good)
    assert_same(run(good, good), program(good, good))


def test_wrong_number_of_inputs_is_refused():
    run = compiled(lambda a, b: a + b, [X, X])
    with pytest.raises(TypeError, match="takes 2 inputs, got 1"):
        run(X)


def test_results_do_not_share_memory_between_calls():
    run = compiled(lambda x: (x * 2, (x * 2) @ x.t()), [X])
    first = run(X)
    copies = [t.clone() for t in first]
    run(X * 3)
    assert_same(list(first), copies)
