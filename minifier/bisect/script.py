"""Running a script with every graph that it compiles checked where it is called first.

    python -m minifier.bisect.script REQUEST SCRIPT [ARGS]...

REQUEST is JSON: `pipe` (a file descriptor for one report per line), `backend` ('' for what the script asks for), `draws`, `graph`.
Graphs run in eager, so the script takes the way that it takes without a compiler; compiled code only runs inside the check.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from typing import Any

from dynamo.backends.registry import Backend, stand_between
from dynamo.peer.script_adapter import install_when_torch_loads


def main() -> None:
    request, script = json.loads(sys.argv[1]), sys.argv[2]
    pipe = os.fdopen(request["pipe"], "w")

    def tell(data: dict[str, Any]) -> None:
        pipe.write(json.dumps(data) + "\n")
        pipe.flush()

    def between(name: str, backend: Backend) -> Backend:
        from minifier.bisect.checker import Checker  # noqa: PLC0415  # loads torch, which the script may want to prepare first

        return Checker(tell, request["backend"], request["draws"], request["graph"]).between(name, backend)

    stand_between(between)
    install_when_torch_loads()
    sys.argv[:] = sys.argv[2:]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
