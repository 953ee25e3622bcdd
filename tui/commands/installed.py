"""What `doctor` asks of an installed torch: importing it loads torch, which takes a second."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from dynamo import torch_facts as facts

Facts = dict[str, Any]

_CPU_FLAGS = ("avx", "avx2", "fma", "avx512f", "avx512_bf16", "amx_tile", "neon", "asimd", "sve")


def torch_facts() -> Facts:
    """Processor, threads and devices as torch sees them."""
    threads = torch.get_num_threads()
    found: Facts = {"cpu": f"{torch.backends.cpu.get_cpu_capability()}, {threads} threads of {os.cpu_count()}"}
    found["cpu features"] = ", ".join(_cpu_flags()) or "unknown"
    found["openmp"] = "available" if torch.backends.openmp.is_available() else "not available in this torch"
    found["omp_num_threads"] = os.environ.get("OMP_NUM_THREADS", "(not set)")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    found["cuda"] = f"{torch.version.cuda or 'not built into this torch'}, {count} devices"
    for index in range(count):
        found[f"cuda:{index}"] = torch.cuda.get_device_name(index)
    return found


def _cpu_flags() -> list[str]:
    """CPU features that change generated code; Linux lists them per core, the first will do."""
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return []
    for line in info.read_text().splitlines():
        if line.startswith(("flags", "Features")):
            have = line.partition(":")[2].split()
            return [flag for flag in _CPU_FLAGS if flag in have]
    return []


def torch_version() -> Facts:
    """Which versions of torch ours is tested with, and what this one lacks of them."""
    (oldest, newest), lacks = facts.TESTED, facts.missing()
    return {
        "tested with": f"torch {oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}",
        "private names it lacks": ", ".join(lacks) or "none",
    }
