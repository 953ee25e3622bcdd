"""A script with modules of its own that have the names of ours.

first: one graph; the script's own modules were used
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles | largest step k0
report: compiled, breaks=0
every run
"""

import pickle

import dynamo
import inductor
import torch
import tui
from inductor.coil import turns

f = torch.compile(lambda x: (x * dynamo.FIELD).sin().sum(), backend="inductor")
print(tui.draw(turns()), inductor.turns(), dynamo.__name__, dynamo.__file__.endswith("clash/dynamo.py"))
print(round(f(torch.ones(4)).item(), 4), pickle.loads(pickle.dumps(turns))())
