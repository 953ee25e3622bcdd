"""All cases without pytest: `python -m tests.gpu`. One line per case; the exit code says whether all are equal to eager."""

from __future__ import annotations

import sys
import time
import traceback

import torch

from tests.gpu.cases import CASES, check


def main() -> int:
    wrong = 0
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Python {sys.version.split()[0]}", flush=True)
    for name in CASES:
        began = time.perf_counter()
        try:
            notes = check(name)
        except Exception as error:  # noqa: BLE001  the next case may tell more
            wrong += 1
            print(f"WRONG {name}: {type(error).__name__}: {' '.join(str(error).split())[:600]}", flush=True)
            print("    " + "    ".join(traceback.format_exc().splitlines(keepends=True)[-6:]), flush=True)
            if "CUDA error" in str(error):
                print("the device's context is gone", flush=True)
                return 1
        else:
            print(f"equal {name} ({time.perf_counter() - began:.1f} s){''.join(f' [{n}]' for n in notes)}", flush=True)
    print(f"{len(CASES) - wrong} of {len(CASES)} equal", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
