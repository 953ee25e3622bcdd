"""The table of machine facts: read, measured once, kept, and what generated code makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from inductor import _host
from inductor.targets.cpu import build, host, machine
from tests.inductor.helpers import assert_same, check, compiled, texts
from tui.commands import doctor

LARGE = replace(machine.REFERENCE, cpus=16)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache folder of its own, and nothing known from before."""
    tmp_path.chmod(0o700)
    monkeypatch.setenv("DYNAMO_CACHE_DIR", str(tmp_path))
    machine.region_us.cache_clear()
    yield tmp_path
    machine.region_us.cache_clear()


def test_caches_are_read_from_sysfs(tmp_path: Path) -> None:
    listed = [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2048K"), ("3", "Unified", "300M")]
    for number, (level, kind, size) in enumerate(listed):
        index = tmp_path / f"index{number}"
        index.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (index / name).write_text(text + "\n")
    assert machine.read_caches(tmp_path) == {1: 48 << 10, 2: 2 << 20, 3: 300 << 20}


def test_a_kernel_without_caches_in_sysfs(tmp_path: Path) -> None:
    (tmp_path / "index0").mkdir()
    assert machine.read_caches(tmp_path) == {}
    assert machine.read_caches(tmp_path / "missing") == {}


def test_what_follows_from_cache_sizes() -> None:
    small = machine.Machine(cpus=4, l1=32 << 10, l2=256 << 10)
    assert (small.tile_bytes, small.stream_bytes, small.least_blocks) == (64 << 10, 256 << 10, 8)
    assert (machine.REFERENCE.tile_bytes, machine.REFERENCE.stream_bytes, machine.REFERENCE.row_bytes) == (64 << 10, 1 << 20, 32 << 10)
    assert LARGE.least_blocks == 16


def test_wide_vectors_where_they_are_free() -> None:
    assert machine.vector_bits(frozenset({"avx512f", "avx512_vbmi2"})) == 512
    assert machine.vector_bits(frozenset({"avx512f"})) == 0  # the first generation lowers its clock
    assert machine.vector_bits(frozenset({"asimd"})) == 0
    with machine.use(replace(machine.REFERENCE, vector_bits=512)):
        assert "-mprefer-vector-width=512" in build.flags()
    with machine.use(machine.REFERENCE):
        assert not any("vector-width" in flag for flag in build.flags())


def test_a_region_is_measured_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def measure(threads: int) -> float:
        calls.append(threads)
        return 3.25

    monkeypatch.setattr(machine, "measure_region", measure)
    monkeypatch.setattr(machine, "cpus", lambda: 64)
    assert machine.region_us(8) == 3.25
    machine.region_us.cache_clear()  # as another process would
    assert machine.region_us(8) == 3.25
    assert calls == [8]
    assert list(json.loads((folder / "machine.json").read_text()).values()) == [{"8": 3.25}]
    assert machine.region_us(1) == 0.0
    assert "measured" in machine.rows()["team of 8 threads"]


def test_a_doubtful_measurement_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds in its process: the next one may find the machine less busy."""
    found = [12_600.0, 4.0]
    monkeypatch.setattr(machine, "measure_region", lambda threads: found.pop(0))
    monkeypatch.setattr(machine, "cpus", lambda: 64)
    assert [machine.region_us(8), machine.region_us(8)] == [12_600.0, 12_600.0]
    assert not (folder / "machine.json").exists()
    machine.region_us.cache_clear()
    assert machine.region_us(8) == 4.0
    assert list(json.loads((folder / "machine.json").read_text()).values()) == [{"8": 4.0}]


def test_a_damaged_file_is_measured_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "machine.json").write_text("{")
    monkeypatch.setattr(machine, "measure_region", lambda threads: 2.5)
    monkeypatch.setattr(machine, "cpus", lambda: 64)
    assert machine.region_us(4) == 2.5


def test_without_openmp_the_rule_holds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "openmp_library", lambda: None)
    assert machine.measure_region(2) is None
    assert machine.region_us(2) == machine.assumed_region_us(2)


def test_a_real_measurement() -> None:
    cost = machine.measure_region(2)
    assert cost is None or 0.1 <= cost < 1e6


def test_when_work_is_shared_out() -> None:
    assert machine.team_work(2, 1.7) == 200_000
    assert machine.team_work(8, 3.3) == 75_428
    assert machine.team_work(16, 4.9) > machine.team_work(8, 3.3)
    assert machine.team_work(8, 1e9) == machine.MOST_WORK
    assert machine.team_work(64, 0.1) == machine.SERIAL_WORK


def test_the_program_knows_the_table() -> None:
    with pytest.raises(ValueError, match="257"):
        _host.set_team_work((1, 2))
    assert host.LARGEST_TEAM == 256


def test_the_team_is_always_whole() -> None:
    """A team of another size than torch's makes OpenMP end threads and start them again."""
    source = texts(lambda x: x.exp() + x.sin(), (torch.randn(512, 512),))["kernels"]
    assert "num_threads(threads)" in source
    assert "threads = " not in source.replace("omp_get_num_threads", "")


def test_loops_are_cut_for_all_processors() -> None:
    """Columns, and the rows of a scatter, in as many pieces as there are processors, where they are wide enough."""
    x, index = torch.randn(2048, 1024), torch.randint(0, 512, (512,))

    def blocks(fn: Callable[..., Any], *args: torch.Tensor) -> tuple[str, str]:
        with machine.use(LARGE):
            many = texts(fn, args)["kernels"]
        with machine.use(machine.REFERENCE):
            few = texts(fn, args)["kernels"]
        return few, many

    few, many = blocks(lambda a: (a * a).sum(0), x)
    assert "* 128L" in few and "* 64L" in many
    few, many = blocks(lambda a, i: torch.zeros(512, 1024).index_add(0, i, a), torch.randn(512, 1024), index)
    assert few != many


@pytest.mark.parametrize("cpus", [1, 2, 5, 16, 64])
def test_results_do_not_depend_on_the_machine(cpus: int) -> None:
    with machine.use(replace(machine.REFERENCE, cpus=cpus, l2=512 << 10)):
        check(lambda x: (x.softmax(1), (x * x).sum(0)), torch.randn(300, 129), rtol=1e-5, atol=1e-5)
        index = torch.randint(0, 300, (300,))
        check(lambda x, i: torch.zeros(300, 96).index_add(0, i, x), torch.randn(300, 96), index, rtol=1e-5, atol=1e-5)


def test_threads_of_any_number() -> None:
    """The same kernels with teams of 1 to 3, shared out whatever it costs."""
    x, before = torch.randn(600, 500), torch.get_num_threads()

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.exp().sum(1), F.gelu(x), x.t().contiguous()

    run = compiled(fn, (x,))
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            assert_same(run(x), fn(x), rtol=1e-5, atol=1e-5)
    finally:
        torch.set_num_threads(before)


def test_doctor_shows_the_table() -> None:
    shown = doctor.SECTIONS["machine"]()
    assert "sysfs" in shown["l2 cache"] or "assumed" in shown["l2 cache"]
    assert any(name.startswith("team of") for name in shown) or torch.get_num_threads() == 1
