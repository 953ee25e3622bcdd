"""Logging that a dictionary configures for all loggers, and a compiled function that logs.

first: the call of the logger breaks the graph, by its line
says: log.info
report: compiled, some-breaks
"""

import logging.config

import torch

FORMAT = "%(name)s %(levelname)s %(filename)s:%(lineno)d %(message)s"
logging.config.dictConfig(
    {
        "version": 1,
        "disable_existing_loggers": True,
        "formatters": {"plain": {"format": FORMAT}},
        "handlers": {"out": {"class": "logging.StreamHandler", "formatter": "plain", "stream": "ext://sys.stdout"}},
        "root": {"handlers": ["out"], "level": "INFO"},
    }
)
log = logging.getLogger("train")


@torch.compile(backend="eager")
def f(x):
    log.info("batch of %d", x.shape[0])
    return x * 2 + 1


log.info("begin")
print(f(torch.ones(2)).tolist())
