"""Settings of the default backend: the module's attributes, `patch`, and options of one compile.

first: one function, compiled once for each set of options
says: compiled whole: 1 function, 2 graphs, no breaks, no recompiles
report: compiled, breaks=0
"""

import torch
import torch._inductor.config as inductor_config
from torch._inductor import config

config.fx_graph_cache = False
config.max_autotune = False
inductor_config.triton.cudagraphs = False


def f(x):
    return (x.sin() * 2 + x.cos()).sum(-1)


x = torch.arange(12.0).reshape(3, 4)
with config.patch({"epilogue_fusion": False, "max_fusion_size": 8}):
    print([f"{v:.3f}" for v in torch.compile(f)(x).tolist()], config.max_fusion_size)
print([f"{v:.3f}" for v in torch.compile(f, options={"shape_padding": False, "trace.enabled": False})(x).tolist()])
print(config.fx_graph_cache, "max_autotune" in torch._inductor.list_options())
