"""A suite of unittest, run as `python -m unittest`.

run: -m unittest -q unit_tests
first: what the tests compiled; unittest ended with success
says: -m unittest finished | clamp
report: compiled
"""

import unittest

import torch


@torch.compile(backend="eager")
def clamp(x, low=0.0):
    return torch.where(x < low, low, x)


class TestClamp(unittest.TestCase):
    def setUp(self):
        self.x = torch.tensor([-1.0, 2.0])

    def test_default(self):
        self.assertEqual(clamp(self.x).tolist(), [0.0, 2.0])

    def test_bound(self):
        for low in (1.0, 3.0):
            with self.subTest(low=low):
                self.assertEqual(clamp(self.x, low).min().item(), low)
