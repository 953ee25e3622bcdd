"""A suite of a user's tests, run by pytest; one of them fails.

run: -m pytest -qq -p no:cacheprovider --no-header -rN --tb=no -c /dev/null --rootdir=. --confcutdir=. suite.py
exit: 1
first: what the tests compiled, and that pytest failed for a reason of its own
says: the script ended itself with exit code 1; f is compiled 2 times
report: compiled
"""

import pytest
import torch


@torch.compile(backend="eager")
def f(x):
    return x * 2


@pytest.mark.parametrize("n", [1, 2])
def test_doubles(n):
    assert f(torch.ones(n)).sum().item() == 2 * n


def test_halves():
    assert f(torch.ones(1)).item() == 0.5
