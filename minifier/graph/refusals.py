"""What a C++ compiler has refused, for the forks of one warmed process: it says of the same text what it said before.

Torch's compiler keeps what was built and asks again for what was refused, so that of a failure to build each run asks.
"""

from __future__ import annotations

import functools
import hashlib
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_ACCIDENTS = (b"internal compiler error", b"fatal error")  # of the machine, maybe: those are asked again
_original = subprocess.run


def keep(folder: Path) -> None:
    """Have `subprocess.run` answer from `folder` where it is to run a command that refused the same C++ text there."""
    folder.mkdir(parents=True, exist_ok=True)

    @functools.wraps(_original)
    def run(command: Any, *args: Any, **kwargs: Any) -> Any:
        key = _key(command) if kwargs.get("check") and isinstance(command, list) else ""
        if not key:
            return _original(command, *args, **kwargs)
        refused = folder / key
        if refused.exists():
            raise subprocess.CalledProcessError(1, command, refused.read_bytes())
        try:
            return _original(command, *args, **kwargs)
        except subprocess.CalledProcessError as e:
            if e.returncode == 1 and _is_of_the_text(e.stdout):
                partial = refused.with_suffix(f".{hash(e)}")
                partial.write_bytes(e.stdout)
                partial.rename(refused)
            raise

    vars(subprocess)["run"] = run


def forget() -> None:
    """Run each command again."""
    vars(subprocess)["run"] = _original


def _key(command: Sequence[str]) -> str:
    """Names a command and the text it compiles; '' where it compiles none."""
    texts = [Path(word) for word in command if word.endswith(".cpp")]
    if len(texts) != 1 or not texts[0].is_file():
        return ""
    return hashlib.sha256(json.dumps(command).encode() + texts[0].read_bytes()).hexdigest()


def _is_of_the_text(said: bytes | None) -> bool:
    return said is not None and b" error: " in said and not any(a in said for a in _ACCIDENTS)
