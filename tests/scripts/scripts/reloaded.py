"""A module that is imported, reloaded, and run once more by `runpy`: three functions of one source.

first: each of the three is compiled for itself, though their lines are the same
says: compiled whole: 1 function, 3 graphs | 3 compiles
report: compiled, breaks=0
"""

import importlib
import runpy

import torch

import reloaded_layer

first = reloaded_layer.layer
importlib.reload(reloaded_layer)
again = runpy.run_path(reloaded_layer.__file__)["layer"]
print(first is reloaded_layer.layer, [layer(torch.ones(2)).tolist() for layer in (first, reloaded_layer.layer, again)])
