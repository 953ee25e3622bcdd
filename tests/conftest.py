"""What all tests share: fixed random seeds, Hypothesis profiles, and a closing word on the tests that were not selected."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import settings

import dynamo
from dynamo import config, internal_errors
from repro_corpus.observe import seed

settings.register_profile("ci", derandomize=True, deadline=None, database=None, print_blob=True)
settings.register_profile("dev", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# Tests replace parts of the compiler, which no key knows of: kept graphs are for the tests that are about them.
os.environ.setdefault("DYNAMO_GRAPH_CACHE", "0")

# Files with tests of a minute and more, which run first: met at the end of a run, such a test leaves all workers but one idle.
_LONG = ("tests/fake/test_op_db.py", "tests/aot/test_op_db.py", "tests/ops/test_eager.py", "tests/models/test_training.py")

_TARGETS = {"slow": "make test-slow", "gpu": "make test-gpu", "fuzz": "make fuzz"}
_not_run: dict[str, Counter[str]] = {}


@pytest.fixture(autouse=True)
def _same_random_numbers() -> None:
    seed(0)


@pytest.fixture(autouse=True)
def _nothing_compiled() -> None:
    """What an earlier test of this worker compiled would be found again, though it may have been compiled with other fuel."""
    dynamo.reset()


@pytest.fixture(autouse=True)
def _no_absent_devices() -> None:
    """Once there was a fake of a device that this machine lacks, `meta` names that device."""
    tensors = sys.modules.get("dynamo.fake.tensor")
    if tensors is not None:
        tensors._phantom.pop("cuda", None)


@pytest.fixture(autouse=True)
def _no_internal_errors(request: pytest.FixtureRequest) -> Iterator[None]:
    """A failure of the compiler's own fails the test, whatever came out, unless the test is about one: `@pytest.mark.internal_error`."""
    internal_errors.forget()
    yield
    found = internal_errors.internal_errors()
    assert not found or request.node.get_closest_marker("internal_error"), f"internal errors: {found}"


@pytest.fixture(autouse=True)
def _same_options() -> Iterator[None]:
    """Options that a test leaves set would change what later tests of this worker mean."""
    before = {row.name: row.value for row in config.rows() if row.source == "set"}
    yield
    assert {row.name: row.value for row in config.rows() if row.source == "set"} == before


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(_LONG))


def pytest_collection_finish() -> None:
    """All tests live on to the end, and a full collection would walk them, and torch, each time."""
    gc.collect()
    gc.freeze()


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    counts = _not_run.setdefault("here", Counter())
    for item in items:
        counts.update(marker for marker in _TARGETS if item.get_closest_marker(marker))


def pytest_sessionfinish(session: pytest.Session) -> None:
    gc.unfreeze()
    output = getattr(session.config, "workeroutput", None)  # set in the workers of pytest-xdist only
    if output is not None:
        output["not_run"] = dict(_not_run.get("here", {}))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Every worker of pytest-xdist collects, and so leaves out, the same tests."""
    _not_run["here"] = Counter(getattr(node, "workeroutput", {}).get("not_run", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for marker, count in _not_run.get("here", Counter()).items():
        terminalreporter.write_line(f"not run: {count} tests marked {marker} ({_TARGETS[marker]})")
