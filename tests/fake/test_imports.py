"""Fakes must work in a process that never loads torch's compiler or sympy."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import torch

from dynamo.fake.standins import _ANSWERS

PROGRAM = """
import sys, types, torch
import torch.nn.functional as F
from dynamo.fake import FakeMode
from tests.models.torchvision_ops import declare

# torchvision asks torch's compiler one question on import
for name in ("torch._dynamo", "torch._dynamo.utils"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["torch._dynamo.utils"].is_compile_supported = lambda device: False
declare()
import torchvision
for name in ("torch._dynamo", "torch._dynamo.utils"):
    del sys.modules[name]
mode = FakeMode()
def step(model, *inputs):
    names = dict(model.named_parameters())
    fakes = {n: mode.from_real(p) for n, p in {**names, **dict(model.named_buffers())}.items()}
    out = torch.func.functional_call(model, fakes, tuple(mode.from_real(i) for i in inputs))
    out = out.float().sum()
    torch.autograd.grad(out, [fakes[n] for n in names])

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.norm = torch.nn.Embedding(50, 32), torch.nn.LayerNorm(32)
        self.qkv, self.up, self.down = torch.nn.Linear(32, 96), torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)
    def forward(self, ids):
        x = self.emb(ids)
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        split = lambda t: t.unflatten(-1, (4, 8)).transpose(1, 2)
        mask = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
        a = F.scaled_dot_product_attention(split(q), split(k), split(v))
        w = (split(q) @ split(k).mT).masked_fill(~mask, float("-inf")).softmax(-1)
        a = F.dropout(w @ split(v) + a, 0.1)
        x = x + a.transpose(1, 2).flatten(2)
        x = x + self.down(F.gelu(self.up(x), approximate="tanh"))
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        return F.cross_entropy(x.flatten(0, 1), ids.flatten())

with mode:
    images = torch.randn(2, 3, 64, 64)
    vision = torchvision.models
    for build in ("resnet18", "densenet121", "mobilenet_v3_small", "convnext_tiny"):
        with torch.utils._python_dispatch._disable_current_modes():
            model = getattr(vision, build)(weights=None)
        step(model, images)
    with torch.utils._python_dispatch._disable_current_modes():
        vit = vision.VisionTransformer(image_size=64, patch_size=16, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=64)
        block = Block()
    step(vit, images)
    step(block, torch.zeros(2, 6, dtype=torch.int64))
    x = torch.randn(4, 6, requires_grad=True)
    for f in (
        lambda: x.cumsum(0), lambda: x.sort()[0], lambda: x.topk(2)[0], lambda: x.logsumexp(1), lambda: x.norm(), lambda: x.var(1),
        lambda: x.log_softmax(1), lambda: torch.where(x > 0, x, 0.), lambda: x.roll(1, 0), lambda: x.flip(0), lambda: x.tril(),
        lambda: F.interpolate(torch.randn(1, 3, 8, 8, requires_grad=True), scale_factor=2, mode="bilinear"),
        lambda: F.group_norm(torch.randn(2, 4, 3, requires_grad=True), 2), lambda: F.pad(x, (1, 1)), lambda: x.std(),
        lambda: torch.einsum("ij,kj->ik", x, x), lambda: x.repeat(2, 1), lambda: x.gather(1, torch.zeros(4, 2, dtype=torch.int64)),
        lambda: F.huber_loss(x, x * 2), lambda: F.smooth_l1_loss(x, x * 2), lambda: F.kl_div(x, x * 2), lambda: torch.stack([x, x]),
        lambda: F.elu(x), lambda: F.softplus(x), lambda: F.mish(x), lambda: x.clamp(0, 1), lambda: x.prod(1), lambda: x.amax(1),
        lambda: torch.linalg.solve(torch.randn(3, 3, requires_grad=True), torch.randn(3)), lambda: torch.fft.fft(x).abs(),
        lambda: x[:, [0, 2]], lambda: x.index_add(0, torch.zeros(4, dtype=torch.int64), x),
        lambda: x.scatter_add(0, torch.zeros(4, 6, dtype=torch.int64), x),
        lambda: F.glu(x), lambda: F.logsigmoid(x),
    ):
        y = f()
        torch.autograd.grad(y.sum(), [t for t in (x,) if y.requires_grad], allow_unused=True)
    params = [torch.randn(3) for _ in range(3)]
    torch._foreach_add_(params, torch._foreach_mul(params, 2.0))

BAD = ("torch._dynamo", "torch._inductor", "torch._functorch.aot_autograd", "sympy", "torch.fx.experimental.symbolic_shapes")
found = [m for m in BAD if m in sys.modules]
assert not found, found
"""


def test_models_and_common_ops_load_neither_sympy_nor_the_peer() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr[-3000:]


def test_stand_ins_answer_every_question_of_torch_s_kernels() -> None:
    """The names torch's Python kernels import from its symbolic shapes, in the installed version."""
    root = Path(torch.__file__).parent
    files = [root / "_meta_registrations.py", *(root / "_refs").rglob("*.py"), *(root / "_prims_common").rglob("*.py")]
    files += [*(root / "_prims").rglob("*.py"), *(root / "_decomp").rglob("*.py"), root / "__init__.py"]
    asked = {
        alias.name
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "torch.fx.experimental.symbolic_shapes"
        for alias in node.names
    }
    assert asked <= set(_ANSWERS)
