"""What a repro says of itself: `repro.json` beside `repro.py`, and first in a bundle."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dynamo.trace.plain import open_plain
from minifier.engine import Signature
from minifier.places import MANIFEST

FORMAT = "dynamo-debug repro"
VERSION = 1
LARGEST = 4 << 20  # bytes of a manifest


class BundleError(ValueError):
    """A file or folder is no repro, or a damaged one; the message names it and says why."""


@dataclass(frozen=True)
class Manifest:
    """`main` is the script to run and `files` all that belong to it. `rate` is hits and runs; `setting` how a graph is judged.

    `memory` and `seconds` are what a run may use; without a limit on memory a failure for lack of it would not show.
    """

    main: str
    signature: Signature
    stage: str = ""
    graph: str = ""
    rate: tuple[int, int] = (0, 0)
    versions: dict[str, str] = field(default_factory=dict)
    setting: dict[str, Any] | None = None
    files: tuple[str, ...] = ()
    memory: int | None = None
    seconds: float = 120.0

    def text(self) -> str:
        data = {"format": FORMAT, "version": VERSION, **asdict(self), "signature": self.signature.to_json()}
        return json.dumps(data, indent=2) + "\n"

    @classmethod
    def from_text(cls, text: str | bytes, home: str) -> Manifest:
        """Raises BundleError with `home`, the file that it was read from."""
        try:
            data = json.loads(text)
            if data.pop("format") != FORMAT:
                raise BundleError(f"{home}: not a repro of dynamo-debug")
            if (version := data.pop("version")) != VERSION:
                raise BundleError(f"{home}: format version {version!r:.20}, this dynamo-debug reads {VERSION}")
            hits, runs = data["rate"]
            return cls(
                main=_text(data["main"]),
                signature=Signature.from_json(data["signature"]),
                stage=_text(data["stage"]),
                graph=_text(data["graph"]),
                rate=(int(hits), int(runs)),
                versions={_text(k): _text(v) for k, v in data["versions"].items()},
                setting=data["setting"] if data["setting"] is None else dict(data["setting"]),
                files=tuple(_text(f) for f in data["files"]),
                memory=None if data["memory"] is None else int(data["memory"]),
                seconds=float(data["seconds"]),
            )
        except BundleError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as e:
            raise BundleError(f"{home}: damaged manifest: {type(e).__name__}: {e}") from e


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def of_folder(folder: Path) -> Manifest:
    """The manifest in a folder. Raises BundleError where there is none."""
    path = folder / MANIFEST
    try:
        with open_plain(path) as f:
            data = f.read(LARGEST + 1)
    except OSError as e:
        raise BundleError(f"{folder}: no repro in it: {path.name}: {e.strerror}") from e
    if len(data) > LARGEST:
        raise BundleError(f"{path}: more than {LARGEST} bytes")
    manifest = Manifest.from_text(data, str(path))
    if Path(manifest.main).name != manifest.main or manifest.main in ("", ".", ".."):
        raise BundleError(f"{path}: {manifest.main!r:.60} is no file in that folder")
    if not (folder / manifest.main).is_file():
        raise BundleError(f"{folder}: {manifest.main} is missing")
    return manifest
