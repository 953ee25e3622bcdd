"""How a script is judged."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

VARIABLE = "DYNAMO_DEBUG_SCRIPT"


@dataclass(frozen=True)
class ScriptSetting:
    """The script's own name and arguments, the folder it imports from, and whose compiler with which backend it runs under.

    `backend` '' is what the script asks for. A script that fails with `backend` `eager` fails while it is captured. `is_fresh`: torch's
    compiler uses nothing again that it compiled for an earlier call. `data` is a folder with copies of the files that the script names.
    """

    name: str
    folder: str
    args: tuple[str, ...] = ()
    engine: str = "dynamo"
    backend: str = "eager"
    is_fresh: bool = False
    data: str = ""

    def environment(self) -> dict[str, str]:
        """What a child reads this setting from."""
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls) -> ScriptSetting:
        data = json.loads(os.environ[VARIABLE])
        return cls(**{**data, "args": tuple(data["args"])})
