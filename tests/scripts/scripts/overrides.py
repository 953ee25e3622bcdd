"""A command line of overrides as hydra has it: dotted names, an enum, a folder of its own for outputs.

run: overrides.py opt.lr=0.5 mode=eval
first: the learning rate is a constant of the compiled code, so each new one compiles anew
says: step is compiled 3 times because cfg.opt.lr changes
report: compiled, breaks=0, recompiles=step
"""

import dataclasses
import enum
import os
import pathlib
import sys
import tempfile

import torch


class Mode(enum.Enum):
    TRAIN = "train"
    EVAL = "eval"


@dataclasses.dataclass
class Opt:
    lr: float = 0.1
    betas: tuple[float, float] = (0.9, 0.99)


@dataclasses.dataclass
class Config:
    opt: Opt = dataclasses.field(default_factory=Opt)
    mode: Mode = Mode.TRAIN


def overridden(arguments):
    cfg = Config()
    for argument in arguments:
        name, _, value = argument.partition("=")
        *path, last = name.split(".")
        owner = cfg
        for part in path:
            owner = getattr(owner, part)
        setattr(owner, last, type(getattr(owner, last))(value))
    return cfg


def run(cfg):
    @torch.compile(backend="eager")
    def step(x, cfg):
        y = x * cfg.opt.lr
        if cfg.mode is Mode.TRAIN:
            y = y + cfg.opt.betas[0]
        return {"y": y, **dataclasses.asdict(cfg.opt)}

    for lr in (cfg.opt.lr, 0.25, 0.125):
        cfg.opt.lr = lr
        out = step(torch.ones(1), cfg)
        print(out["y"].item(), out["lr"], out["betas"])
    pathlib.Path("result.txt").write_text("done")
    print(os.listdir())


with tempfile.TemporaryDirectory() as folder:
    before = os.getcwd()
    os.chdir(folder)
    run(overridden(sys.argv[1:]))
    os.chdir(before)
