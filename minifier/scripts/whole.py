"""Running a whole script under a compiler.

python -m minifier.scripts.whole dynamo|torch BACKEND SCRIPT [ARGS]...
"""

from __future__ import annotations

import sys
from pathlib import Path

from minifier import stands
from minifier.isolation.standing import tell_parent_when_asked
from minifier.scripts.oracle import run
from minifier.scripts.setting import ScriptSetting


def main() -> None:
    tell_parent_when_asked()
    engine, backend, script, *args = sys.argv[1:]
    path = Path(script).absolute()
    del sys.path[0]
    setting = ScriptSetting(script, str(path.parent), tuple(args), engine, backend)
    stands.of(engine).enter(backend)
    run(path, setting)


if __name__ == "__main__":
    main()
