"""The launch path in C on a device: the driver is found, streams and threads are respected, buffers may begin anywhere."""

from __future__ import annotations

import threading

import pytest
import torch

from inductor.compile import compile_graph
from inductor.targets.triton import launcher
from tests.inductor.helpers import trace

pytestmark = pytest.mark.gpu


def test_the_driver_is_found() -> None:
    assert launcher.driver() == ""


def test_a_graph_is_a_program_in_c() -> None:
    x = torch.randn(1001, device="cuda")
    run = compile_graph(trace(lambda x: (x + 1,), [x]), [x])
    assert type(run).__name__ == "Program"
    for part in (x, x.clone()):
        torch.testing.assert_close(run([part])[0], part + 1)


def test_buffers_that_begin_elsewhere() -> None:
    x = torch.randn(1004, device="cuda")
    run = compile_graph(trace(lambda x: (x * 2 + 1,), [x[1:1001]]), [x[1:1001]])
    for start in (1, 0, 2, 3, 4, 1):
        part = x[start : start + 1000]
        torch.testing.assert_close(run([part])[0], part * 2 + 1)


def test_the_current_stream_of_any_thread_is_used() -> None:
    x = torch.zeros(1 << 20, device="cuda")
    run = compile_graph(trace(lambda x: (x + 1,), [x]), [x])
    run([x])
    torch.cuda.synchronize()
    found = []

    def work() -> None:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)
            x.add_(1)
            found.append(run([x])[0])
        stream.synchronize()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found[0].unique().tolist() == [2.0]
