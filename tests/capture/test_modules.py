"""`nn.Module`: forward, containers, parameters, buffers, hooks, train and eval, mutation, and module guards."""

from __future__ import annotations

import pytest

from tests.capture.language import Case

NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.scale = 2.0
        self.register_buffer('mean', torch.ones(3))
    def forward(self, x):
        return self.lin(x).relu() * self.scale - self.mean
net = Net()
"""


def _net(
    name: str,
    body: str,
    graphs: list[str] | int | None = None,
    compiles: int | None = 1,
    fullgraph: bool = True,
    inputs: list[str] | None = None,
) -> Case:
    return Case(name, body, inputs or ["t(2, 3)", "t(2, 3)"], graphs, compiles=compiles, fullgraph=fullgraph, prelude=NET)


MODULES = [
    _net("module called", "def f(x): return net(x)", ["linear relu mul sub"]),
    _net("module compiled itself", "f = net", ["linear relu mul sub"]),
    _net("module as argument", "def f(x, m): return m(x)", ["linear relu mul sub"], inputs=["t(2, 3), net", "t(2, 3), net"]),
    _net("two modules of one class", "def f(x, m): return m(x)", ["linear relu mul sub"], None, inputs=["t(2, 3), net", "t(2, 3), Net()"]),
    _net("forward called directly", "def f(x): return net.forward(x)", ["linear relu mul sub"]),
    _net("submodule called", "def f(x): return net.lin(x)", ["linear"]),
    _net("parameter read", "def f(x): return x @ net.lin.weight + net.lin.bias", ["matmul add"]),
    _net("buffer read", "def f(x): return x + net.mean", ["add"]),
    _net(
        "buffer changed in place",
        """
        def f(x):
            net.mean.add_(1)
            return x + net.mean
        """,
        ["add_ add"],
    ),
    _net(
        "buffer replaced",
        """
        def f(x):
            net.mean = net.mean * 2
            return x + net.mean
        """,
        ["mul add"],
        None,
    ),
    _net(
        "attribute written",
        """
        def f(x):
            net.calls = getattr(net, 'calls', 0) + 1
            return net(x)
        """,
        ["linear relu mul sub"],
        None,
    ),
    _net(
        "attribute that matters",
        """
        def f(x):
            net.scale += 1
            return net(x)
        """,
        ["linear relu mul sub"],
        None,
    ),
    _net(
        "tensor attribute written",
        """
        def f(x):
            net.last = net.lin(x)
            return net.last + 1
        """,
        ["linear add"],
        None,
    ),
    _net(
        "train and eval recompile",
        """
        def f(x, training):
            return F.dropout(net(x), 0.5, net.training)
        """,
        None,
        2,
        inputs=["t(2, 3), net.train()", "t(2, 3), net.eval()"],
    ),
    _net(
        "mode switched inside",
        """
        def f(x):
            net.eval()
            return net(x) if not net.training else x
        """,
        None,
        None,
        False,
    ),
    _net(
        "named_parameters",
        "def f(x): return x + len([n for n, p in net.named_parameters()]) + sum(p.sum() for p in net.parameters())",
        1,
    ),
    _net("named_modules and children", "def f(x): return x + len(list(net.named_modules())) + len(list(net.children()))", ["add add"]),
    _net("named_buffers", "def f(x): return x + dict(net.named_buffers())['mean'] + len(list(net.buffers()))", ["add add"]),
    _net("state_dict keys", "def f(x): return x + len(net.state_dict())", None, None, False),
    _net("get_submodule and get_parameter", "def f(x): return net.get_submodule('lin')(x) + net.get_parameter('lin.bias')", ["linear add"]),
    _net(
        "apply and requires_grad_",
        """
        def f(x):
            net.requires_grad_(False)
            return net(x)
        """,
        None,
        None,
        False,
    ),
    _net(
        "zero_grad",
        """
        def f(x):
            net.zero_grad()
            return net(x)
        """,
        None,
        None,
        False,
    ),
    _net(
        "isinstance on modules",
        "def f(x): return net.lin(x) if isinstance(net.lin, nn.Linear) and hasattr(net, 'scale') else x",
        ["linear"],
    ),
    _net("_modules and __dict__", "def f(x): return net._modules['lin'](x) + len(net._parameters)", ["linear add"]),
    _net(
        "no_grad forward",
        """
        def f(x):
            with torch.no_grad():
                return net(x)
        """,
        1,
    ),
    _net("module made inside", "def f(x): return nn.ReLU()(x) + nn.Identity()(x)", 1),
    _net("module with parameters made inside", "def f(x): return Net()(x)", None, None, False),
]

CONTAINERS = [
    Case(
        "Sequential",
        """
        m = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        def f(x): return m(x)
        """,
        inputs=["t(2, 3)"] * 2,
        graphs=["linear relu linear"],
    ),
    Case(
        "Sequential indexed and sliced",
        """
        m = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Sigmoid())
        def f(x): return m[1](m[0](x)) + m[1:](x) + len(m)
        """,
        inputs=["t(2, 3)"] * 2,
        graphs=1,
    ),
    Case(
        "Sequential iterated",
        """
        m = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
        def f(x):
            for layer in m: x = layer(x)
            return x
        """,
        inputs=["t(2, 3)"] * 2,
        graphs=["linear tanh"],
    ),
    Case(
        "nested Sequential",
        """
        m = nn.Sequential(nn.Sequential(nn.Linear(3, 3)), nn.Sequential(nn.ReLU(), nn.Linear(3, 1)))
        def f(x): return m(x)
        """,
        inputs=["t(2, 3)"] * 2,
        graphs=["linear relu linear"],
    ),
    Case(
        "ModuleList",
        """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.ls = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
            def forward(self, x):
                for i, l in enumerate(self.ls): x = l(x) * i
                return x + len(self.ls)
        f = M()
        """,
        inputs=["t(2, 3)"] * 2,
        graphs=["linear mul linear mul linear mul add"],
    ),
    Case(
        "ModuleList indexed and zipped",
        """
        ls = nn.ModuleList([nn.Linear(3, 3), nn.ReLU()])
        def f(x): return sum(l(x) * k for l, k in zip(ls, (1, 2))) + ls[-1](x)
        """,
        inputs=["t(2, 3)"] * 2,
        graphs=1,
    ),
    Case(
        "ModuleDict",
        """
        d = nn.ModuleDict({'a': nn.Linear(3, 3), 'b': nn.ReLU()})
        def f(x, k): return d[k](x) if k in d else x
        """,
        inputs=["t(2, 3), 'a'", "t(2, 3), 'b'"],
        graphs=["linear", "relu"],
        compiles=2,
    ),
    Case(
        "ModuleDict items",
        """
        d = nn.ModuleDict({'a': nn.Linear(3, 3), 'b': nn.ReLU()})
        def f(x):
            for name, m in d.items(): x = m(x) + len(name)
            return x
        """,
        inputs=["t(2, 3)"] * 2,
        graphs=["linear add relu add"],
    ),
    Case(
        "ParameterList",
        """
        ps = nn.ParameterList([nn.Parameter(torch.ones(3) * i) for i in (1, 2)])
        def f(x):
            for p in ps: x = x * p
            return x + ps[0]
        """,
        graphs=["mul mul add"],
    ),
    Case(
        "ParameterDict",
        """
        pd = nn.ParameterDict({'w': nn.Parameter(torch.ones(3))})
        def f(x): return x * pd['w']
        """,
        graphs=["mul"],
    ),
    Case(
        "modules in a plain list",
        """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.ls = [nn.Linear(3, 3), nn.ReLU()]
            def forward(self, x):
                for l in self.ls: x = l(x)
                return x
        f = M()
        """,
        inputs=["t(2, 3)"] * 2,
        graphs=["linear relu"],
    ),
    Case(
        "shared submodule",
        """
        l = nn.Linear(3, 3)
        m = nn.Sequential(l, nn.ReLU(), l)
        def f(x): return m(x)
        """,
        inputs=["t(2, 3)"] * 2,
        graphs=["linear relu linear"],
    ),
    Case(
        "tied parameters",
        """
        a, b = nn.Linear(3, 3), nn.Linear(3, 3)
        b.weight = a.weight
        def f(x): return b(a(x))
        """,
        inputs=["t(2, 3)"] * 2,
        graphs=["linear linear"],
    ),
    Case(
        "module without forward arguments",
        """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.w = nn.Parameter(torch.ones(3))
            def forward(self): return self.w * 2
        f = M()
        """,
        inputs=["", ""],
        graphs=["mul"],
    ),
    Case(
        "module with kwargs and defaults",
        """
        class M(nn.Module):
            def forward(self, x, *rest, scale=2, **kw): return x * scale + len(rest) + len(kw)
        f = M()
        """,
        inputs=["t(3), 1, scale=3, q=1"] * 2,
        graphs=["mul add add"],
    ),
    Case(
        "module returning a dict",
        """
        class M(nn.Module):
            def forward(self, x): return {'out': x + 1, 'in': x}
        f = M()
        """,
        graphs=["add"],
    ),
    Case(
        "module with a property and method",
        """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.k = 3
            @property
            def double(self): return self.k * 2
            def helper(self, x): return x * self.double
            def forward(self, x): return self.helper(x)
        f = M()
        """,
        graphs=["mul"],
    ),
    Case(
        "module with super().forward",
        """
        class A(nn.Module):
            def forward(self, x): return x + 1
        class B(A):
            def forward(self, x): return super().forward(x) * 2
        f = B()
        """,
        graphs=["add mul"],
    ),
    Case(
        "module with __getattr__",
        """
        class M(nn.Module):
            def __getattr__(self, name):
                try: return super().__getattr__(name)
                except AttributeError:
                    if name != 'anything': raise
                    return 5
            def forward(self, x): return x * self.anything
        f = M()
        """,
        graphs=["mul"],
    ),
    Case(
        "module with a None submodule",
        """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.down = None
                self.register_parameter('bias', None)
            def forward(self, x): return x + 1 if self.down is None and self.bias is None else x
        f = M()
        """,
        graphs=["add"],
    ),
    Case(
        "lambda and function attributes",
        """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.act = F.gelu
                self.post = lambda v: v * 2
            def forward(self, x): return self.post(self.act(x))
        f = M()
        """,
        graphs=["gelu mul"],
    ),
    Case(
        "module counter in a loop",
        """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.n = 0
            def forward(self, x):
                self.n += 1
                return x + 1
        m = M()
        def f(x):
            for _ in range(3): x = m(x)
            return x
        """,
        graphs=["add add add"],
        compiles=None,
    ),
]


def _layer(layer: str, shape: str, ops: list[str] | int) -> Case:
    return Case(layer, f"m = nn.{layer}\ndef f(x): return m(x)", [f"t({shape})"] * 2, ops)


LAYERS = [
    _layer("Linear(3, 4, bias=False)", "2, 3", ["linear"]),
    _layer("Conv1d(2, 3, 3, padding='same')", "1, 2, 5", ["conv1d"]),
    _layer("Conv2d(2, 4, 3, groups=2, stride=2)", "1, 2, 6, 6", ["conv2d"]),
    _layer("Conv2d(2, 4, 3, padding=1, padding_mode='circular')", "1, 2, 6, 6", 1),
    _layer("ConvTranspose2d(2, 3, 2)", "1, 2, 4, 4", 1),
    _layer("BatchNorm2d(2)", "2, 2, 3, 3", 1),
    _layer("BatchNorm1d(3, momentum=None).eval()", "2, 3", ["batch_norm"]),
    _layer("LayerNorm(3)", "2, 3", ["layer_norm"]),
    _layer("GroupNorm(2, 4)", "2, 4, 3", ["group_norm"]),
    _layer("RMSNorm(3)", "2, 3", ["rms_norm"]),
    _layer("InstanceNorm1d(2)", "2, 2, 4", ["instance_norm"]),
    _layer("MaxPool2d(2, ceil_mode=True)", "1, 2, 5, 5", 1),
    _layer("AvgPool2d(2)", "1, 2, 4, 4", ["avg_pool2d"]),
    _layer("AdaptiveAvgPool2d((1, 1))", "1, 2, 4, 4", ["adaptive_avg_pool2d"]),
    _layer("Dropout(0.5).eval()", "2, 3", 1),
    _layer("Softmax(dim=-1)", "2, 3", ["softmax"]),
    _layer("LeakyReLU(0.1)", "2, 3", ["leaky_relu"]),
    _layer("PReLU()", "2, 3", ["prelu"]),
    _layer("SiLU(inplace=True)", "2, 3", ["silu"]),
    _layer("Hardswish()", "2, 3", ["hardswish"]),
    _layer("Flatten()", "2, 3, 2", ["flatten"]),
    _layer("Unflatten(1, (3, 2))", "2, 6", ["unflatten"]),
    _layer("Upsample(scale_factor=2)", "1, 2, 2, 2", 1),
    _layer("PixelShuffle(2)", "1, 4, 2, 2", ["pixel_shuffle"]),
    _layer("ZeroPad2d(1)", "1, 2, 2, 2", 1),
    _layer("TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0)", "1, 3, 4", 1),
    Case(
        "Embedding",
        """
        m = nn.Embedding(10, 3, padding_idx=0)
        def f(i): return m(i)
        """,
        inputs=["t(4, dtype=torch.int64)"] * 2,
        graphs=["embedding"],
    ),
    Case(
        "EmbeddingBag",
        """
        m = nn.EmbeddingBag(10, 3)
        def f(i): return m(i)
        """,
        inputs=["t(2, 4, dtype=torch.int64)"] * 2,
        graphs=1,
    ),
    Case(
        "MultiheadAttention",
        """
        m = nn.MultiheadAttention(4, 2, batch_first=True)
        def f(x): return m(x, x, x, need_weights=False)[0]
        """,
        inputs=["t(1, 3, 4)"] * 2,
        graphs=1,
    ),
    Case(
        "LSTM",
        """
        m = nn.LSTM(3, 4)
        def f(x): return m(x)[0]
        """,
        inputs=["t(5, 1, 3)"] * 2,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "CrossEntropyLoss",
        """
        m = nn.CrossEntropyLoss(label_smoothing=0.1)
        def f(x, y): return m(x, y)
        """,
        inputs=["t(4, 5), t(4, dtype=torch.int64) % 5"] * 2,
        graphs=["cross_entropy"],
    ),
    Case(
        "Bilinear",
        """
        m = nn.Bilinear(3, 3, 2)
        def f(x): return m(x, x)
        """,
        inputs=["t(2, 3)"] * 2,
        graphs=["bilinear"],
    ),
]

HOOKS = [
    Case(
        "forward pre-hook",
        """
        m = nn.Linear(3, 3)
        m.register_forward_pre_hook(lambda mod, args: (args[0] * 2,))
        def f(x): return m(x)
        """,
        inputs=["t(2, 3)"] * 2,
        graphs=["mul linear"],
    ),
    Case(
        "forward hook",
        """
        m = nn.Linear(3, 3)
        m.register_forward_hook(lambda mod, args, out: out + 1)
        def f(x): return m(x)
        """,
        inputs=["t(2, 3)"] * 2,
        graphs=["linear add"],
    ),
    Case(
        "hook that records",
        """
        seen = []
        m = nn.Linear(3, 3)
        m.register_forward_hook(lambda mod, args, out: seen.append(out))
        def f(x): return m(x)
        """,
        inputs=["t(2, 3)"] * 2,
        graphs=["linear"],
        compiles=None,
    ),
    Case(
        "hook with kwargs",
        """
        class M(nn.Module):
            def forward(self, x, k=1): return x * k
        m = M()
        m.register_forward_pre_hook(lambda mod, a, kw: (a, {'k': 5}), with_kwargs=True)
        def f(x): return m(x, k=2)
        """,
        graphs=["mul"],
    ),
    Case(
        "hook on a child",
        """
        m = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        m[1].register_forward_hook(lambda mod, a, o: o * 3)
        def f(x): return m(x)
        """,
        inputs=["t(2, 3)"] * 2,
        graphs=["linear relu mul"],
    ),
    Case(
        "hook added between calls recompiles",
        """
        m = nn.Linear(3, 3)
        def g(): m.register_forward_hook(lambda mod, a, o: o * 3)
        def f(x, _): return m(x)
        """,
        inputs=["t(2, 3), None", "t(2, 3), g()"],
        graphs=["linear", "linear mul"],
        compiles=2,
    ),
    Case(
        "weight_norm parametrization",
        """
        from torch.nn.utils.parametrizations import weight_norm
        m = weight_norm(nn.Linear(3, 3))
        def f(x): return m(x)
        """,
        inputs=["t(2, 3)"] * 2,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "full backward hook",
        """
        m = nn.Linear(3, 3)
        m.register_full_backward_hook(lambda mod, gi, go: None)
        def f(x): return m(x)
        """,
        inputs=["t(2, 3)"] * 2,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
]

GUARDED = [
    _net(
        "parameter replaced between calls",
        """
        def renew(): net.lin.weight = nn.Parameter(torch.zeros(3, 3))
        def f(x, _): return net(x)
        """,
        ["linear relu mul sub"],
        2,
        inputs=["t(2, 3), None", "t(2, 3), renew()"],
    ),
    _net(
        "parameter changed in place between calls",
        """
        def renew():
            with torch.no_grad(): net.lin.weight.zero_()
        def f(x, _): return net(x)
        """,
        ["linear relu mul sub"],
        1,
        inputs=["t(2, 3), None", "t(2, 3), renew()"],
    ),
    _net(
        "submodule replaced between calls",
        """
        def renew(): net.lin = nn.Identity()
        def f(x, _): return net(x)
        """,
        ["linear relu mul sub", "relu mul sub"],
        2,
        inputs=["t(2, 3), None", "t(2, 3), renew()"],
    ),
    _net(
        "number attribute changed between calls",
        """
        def renew(): net.scale = 5.0
        def f(x, _): return net(x)
        """,
        ["linear relu mul sub"],
        2,
        inputs=["t(2, 3), None", "t(2, 3), renew()"],
    ),
    _net(
        "unread attribute changed between calls",
        """
        def renew(): net.unrelated = 5.0
        def f(x, _): return net(x)
        """,
        ["linear relu mul sub"],
        None,
        inputs=["t(2, 3), None", "t(2, 3), renew()"],
    ),
    _net(
        "forward replaced on the instance",
        """
        def renew(): net.forward = lambda x: x * 7
        def f(x, _): return net(x)
        """,
        ["linear relu mul sub", "mul"],
        2,
        inputs=["t(2, 3), None", "t(2, 3), renew()"],
    ),
    _net(
        "moved to another dtype",
        """
        def renew(): net.double()
        def f(x, _): return net(x)
        """,
        ["linear relu mul sub"],
        2,
        inputs=["t(2, 3), None", "t(2, 3, dtype=torch.float64), renew()"],
    ),
    _net(
        "frozen between calls",
        """
        def renew(): net.requires_grad_(False)
        def f(x, _): return net(x)
        """,
        ["linear relu mul sub"],
        None,
        inputs=["t(2, 3), None", "t(2, 3), renew()"],
    ),
    _net(
        "state loaded between calls",
        """
        def renew(): net.load_state_dict({k: v * 2 for k, v in net.state_dict().items()})
        def f(x, _): return net(x)
        """,
        ["linear relu mul sub"],
        1,
        inputs=["t(2, 3), None", "t(2, 3), renew()"],
    ),
]


@pytest.mark.parametrize("case", MODULES + CONTAINERS, ids=lambda case: case.name)
def test_modules(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("case", LAYERS, ids=lambda case: case.name)
def test_layers(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("case", HOOKS + GUARDED, ids=lambda case: case.name)
def test_hooks_and_changes(case: Case) -> None:
    case.check()
