"""A driver that starts its training in another interpreter.

first: what the other interpreter compiled
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles (in 1 child process)
report: compiled, children=1
"""

import subprocess
import sys

CHILD = "import torch; print(torch.compile(lambda x: x + 1, backend='eager')(torch.ones(1)).item())"
done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True)
print(done.returncode, done.stdout.strip(), done.stderr.strip())
