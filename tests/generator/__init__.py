"""Random programs, compared with eager."""

import time

BEGAN = time.monotonic()  # before torch is loaded, which counts too
