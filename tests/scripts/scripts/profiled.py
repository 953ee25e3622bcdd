"""A compiled model under `torch.profiler`, with a schedule and ranges of the program's own.

first: profiling does not keep the model from being compiled whole
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles | Sequential.forward
report: compiled
"""

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

torch.manual_seed(0)
model = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), backend="aot_eager")
traces = []
with torch.no_grad(), profile(
    activities=[ProfilerActivity.CPU],
    schedule=schedule(wait=1, warmup=1, active=2),
    on_trace_ready=lambda p: traces.append({e.key for e in p.key_averages()}),
) as profiler:
    for _ in range(4):
        with record_function("step of mine"):
            model(torch.ones(2, 4))
        profiler.step()
print(len(traces), "step of mine" in traces[0], "aten::addmm" in traces[0] or "aten::linear" in traces[0])
