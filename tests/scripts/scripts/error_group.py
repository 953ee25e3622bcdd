"""A group of errors, one of them of a compiled function's own call.

exit: 1
first: the group that ended the script
says: ExceptionGroup: both
report: compiled
"""

import torch


@torch.compile(backend="eager")
def f(x, y):
    return x @ y


def parts():
    try:
        f(torch.ones(2, 3), torch.ones(2, 3))
    except RuntimeError as e:
        raise ExceptionGroup("both", [e, ValueError("second")]) from None


print(f(torch.ones(2, 2), torch.ones(2, 2)).tolist(), flush=True)
parts()
