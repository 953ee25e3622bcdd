"""A file that tests itself: `doctest` finds the examples in the docstrings of compiled functions.

first: the examples ran compiled
says: compiled whole: 1 function
report: compiled, breaks=0
"""

import doctest

import torch


@torch.compile(backend="eager")
def double(x):
    """Twice and one more.

    >>> double(torch.zeros(1)).item()
    1.0
    >>> double(torch.ones(1)).item()
    3.0
    """
    return x * 2 + 1


print(doctest.testmod())
