"""`dynamo-debug run`: run a repro, from a bundle or a folder, and say whether it shows its failure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dynamo.surroundings.temporary import own_folder
from minifier import bundle
from minifier.bundle import Manifest
from minifier.verify import Bounds, run_times
from tui import options
from tui.console import put, put_json, say
from tui.errors import CliError, check_script
from tui.exits import Exit

File = Annotated[Path, typer.Argument(metavar="FILE", help="A bundle (.ddbg), folder or script of a repro.", show_default=False)]
Times = Annotated[int, typer.Option(help="How often to run it, each time in a new process.", min=1)]
To = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Unpack the bundle there and keep it.", show_default=False)]
Show = Annotated[bool, typer.Option("--show", help="Say what is in it, and run nothing.")]


def run(file: File, times: Times = 1, to: To = None, show: Show = False, as_json: options.AsJson = False) -> int:
    """Run a repro of `minify` and say whether it shows the failure it was made for.

    Opening a bundle executes nothing; `--show` stops there. Its script is a program like any other: run those of people you trust.

    Example: dynamo-debug run repro.ddbg
    """
    if file.suffix == ".py":
        check_script(str(file))
    try:
        if not file.is_dir() and file.suffix != ".py":
            opened = bundle.read(file)
            if show:
                return _show(opened.manifest, opened.sizes, as_json)
            if to is not None:
                return _run(to, bundle.unpack(file, to), times, as_json)
            with own_folder() as temporary:
                place = temporary / "repro"
                return _run(place, bundle.unpack(file, place), times, as_json)
        folder = file.parent if file.suffix == ".py" else file
        if file.is_file() and not (folder / bundle.MANIFEST).exists():
            raise bundle.BundleError(f"{file}: a script and no repro, which has a {bundle.MANIFEST} beside it; `explain` runs scripts")
        manifest = bundle.of_folder(folder)
        if file.suffix == ".py" and file.name != manifest.main:
            raise bundle.BundleError(f"{file}: the repro in this folder is {manifest.main}")
        if show:
            return _show(manifest, {name: (folder / name).stat().st_size for name in manifest.files if (folder / name).is_file()}, as_json)
        return _run(folder, manifest, times, as_json)
    except bundle.BundleError as e:
        raise CliError("CL021", str(e)) from e
    except OSError as e:
        raise CliError("CL021", f"{e.filename or file}: {e.strerror or e}") from e


def _show(manifest: Manifest, sizes: dict[str, int], as_json: bool) -> int:
    told: dict[str, Any] = {"stage": manifest.stage, "graph": manifest.graph or None, "signature": manifest.signature.to_json()}
    told |= {"rate": list(manifest.rate), "versions": manifest.versions, "files": sizes}
    if as_json:
        put_json(told)
        return Exit.OK
    where = manifest.stage + (f", graph {manifest.graph}" if manifest.graph else "")
    versions = ", ".join(f"{name} {version}" for name, version in manifest.versions.items())
    put(f"{where}: {manifest.signature}\nseen in {manifest.rate[0]} of {manifest.rate[1]} runs with {versions}\n")
    put("".join(f"{size:>12}  {name}\n" for name, size in sizes.items()))
    return Exit.OK


def _run(folder: Path, manifest: Manifest, times: int, as_json: bool) -> int:
    rate = run_times(folder / manifest.main, manifest.signature, times, Bounds(manifest.seconds, manifest.memory))
    for end in rate.ends:
        say(f"another end: {end}")
    status = "reproduced" if rate.hits == rate.runs else "flaky" if rate.hits else "not reproduced"
    if as_json:
        put_json({"status": status, "signature": manifest.signature.to_json(), "reproduction_rate": rate.value, "runs": rate.runs})
    else:
        put(f"{status}, {rate} runs\n{manifest.signature}\n")
    return {"reproduced": Exit.FINDING, "flaky": Exit.FLAKY}.get(status, Exit.NOT_REPRODUCED)
