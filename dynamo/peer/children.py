"""Python processes that a program starts: before they load torch they do what they are asked here.

Their environment says it, so they may be started by anything: `subprocess`, a launcher, `multiprocessing` with `spawn`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLLOW = "DYNAMO_DEBUG_FOLLOW"
PLACE = str(Path(__file__).parent / "follow")  # first in PYTHONPATH, so that its `sitecustomize` is run
ROOT = str(Path(__file__).resolve().parents[2])


def follow(begin: str, request: Mapping[str, Any]) -> None:
    """From now on, Python processes that this one starts call `begin` (`module:function`) with a request, which is to be JSON."""
    os.environ[FOLLOW] = json.dumps({**request, "begin": begin, "root": ROOT, "pid": os.getpid()})
    path = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part not in ("", PLACE)]
    os.environ["PYTHONPATH"] = os.pathsep.join([PLACE, *path])


def unfollowed(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment less what `follow` puts there: a run inside of another follows its own processes."""
    env = {name: value for name, value in environment.items() if name != FOLLOW}
    path = [part for part in env.get("PYTHONPATH", "").split(os.pathsep) if part != PLACE]
    return {**env, "PYTHONPATH": os.pathsep.join(path)} if "PYTHONPATH" in env else env
