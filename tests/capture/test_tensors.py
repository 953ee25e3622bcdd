"""Tensor methods, functions, properties, indexing, in-place operators, `out=`, factories, and gradients."""

from __future__ import annotations

import pytest

from tests.capture.language import Case

TWO = ["t(3), t(3)", "t(3), t(3)"]
MATRIX = ["t(2, 3)", "t(2, 3)"]

OPERATORS = [
    Case("arithmetic", "def f(x, y): return x + y - x * y / 2 // 1 % 3 ** 1", TWO, ["add mul truediv floordiv mod sub"]),
    Case("power and matmul", "def f(x): return (x @ x.T) ** 2", MATRIX, 1),
    Case("reflected operators", "def f(x): return 2 - x, 2 / x, 2 ** x, 5 // x, 7 % x", graphs=["sub truediv pow floordiv mod"]),
    Case("comparisons", "def f(x, y): return x < y, x <= y, x > y, x >= y, x == y, x != y", TWO, ["lt le gt ge eq ne"]),
    Case("bitwise", "def f(x, y): return ~x & y | x ^ y", ["t(3, dtype=torch.bool), t(3, dtype=torch.bool)"] * 2, ["invert and_ xor or_"]),
    Case("shifts", "def f(x): return x << 2, x >> 1", ["t(3, dtype=torch.int64)"] * 2, ["lshift rshift"]),
    Case("unary", "def f(x): return -x, +x, abs(x)", graphs=["neg pos abs"]),
    Case("comparison with None", "def f(x): return x + 1 if x is not None else 0", graphs=["add"]),
    Case("equality with None", "def f(x): return x + 1 if not (x == None) else 0", compiles=None),
    Case("round", "def f(x): return round(x)", fullgraph=False, compiles=None),
    Case("divmod", "def f(x): return divmod(x, 2)", graphs=None, fullgraph=False, compiles=None),
]

IN_PLACE = [
    Case(
        "in-place add on an argument",
        """
        def f(x):
            x += 1
            return x * 2
        """,
        graphs=["iadd|add_ mul"],
    ),
    Case(
        "in-place operators",
        """
        def f(x):
            x -= 1
            x *= 2
            x /= 4
            return x
        """,
        graphs=1,
    ),
    Case(
        "in-place on a local",
        """
        def f(x):
            y = x.clone()
            y += x
            return y
        """,
        graphs=["clone iadd|add_"],
    ),
    Case("in-place methods", "def f(x): return x.add_(1).mul_(2).relu_()", graphs=["add_ mul_ relu_"]),
    Case(
        "in-place through a view",
        """
        def f(x):
            x[0].zero_()
            x.view(-1)[1:3].add_(5)
            return x.sum()
        """,
        inputs=MATRIX,
        graphs=["getitem zero_ view getitem add_ sum"],
    ),
    Case(
        "item assignment",
        """
        def f(x):
            x[1] = 5
            return x
        """,
        graphs=["setitem"],
    ),
    Case(
        "slice assignment",
        """
        def f(x, y):
            x[:, 1:] = y
            return x
        """,
        inputs=["t(2, 3), t(2, 2)", "t(2, 3), t(2, 2)"],
        graphs=["setitem"],
    ),
    Case(
        "mask assignment",
        """
        def f(x):
            x[x > 0] = 0
            return x
        """,
        graphs=["gt setitem"],
    ),
    Case(
        "in-place then returned with original",
        """
        def f(x):
            y = x.add_(1)
            return x, y
        """,
        graphs=["add_"],
    ),
    Case("ReLU in place", "def f(x): return F.relu(x, inplace=True) + x", graphs=["relu add"]),
    Case(
        "copy_ and fill_",
        """
        def f(x, y):
            x.copy_(y)
            y.fill_(3)
            return x + y
        """,
        inputs=TWO,
        graphs=["copy_ fill_ add"],
    ),
    Case(
        "in-place in a list",
        """
        def f(xs):
            for x in xs: x.mul_(2)
            xs[0] += 1
        """,
        inputs=["[t(3), t(3)]", "[t(3), t(3)]"],
        graphs=1,
    ),
    Case(
        "chained augmented item",
        """
        def f(x):
            x[0] += 1
            x[1] *= x[0]
            return x
        """,
        inputs=MATRIX,
        graphs=1,
    ),
    Case(
        "attribute augmented",
        """
        class A: pass
        def f(x, a):
            a.x = x
            a.x += 1
            return a.x * 2
        """,
        inputs=["t(3), A()", "t(3), A()"],
        graphs=["iadd|add_ mul"],
    ),
    Case(
        "out= with a tensor",
        """
        def f(x, o):
            torch.sin(x, out=o)
            return o + 1
        """,
        inputs=TWO,
        graphs=["sin add"],
    ),
    Case(
        "out= with a local",
        """
        def f(x):
            o = torch.empty(3)
            torch.add(x, 1, out=o)
            return o
        """,
        graphs=["empty add"],
    ),
    Case(
        "out= with a tuple",
        """
        def f(x, v, i):
            torch.max(x, 0, out=(v, i))
            return v * 2
        """,
        inputs=["t(2, 3), t(3), t(3, dtype=torch.int64)"] * 2,
        graphs=1,
    ),
    Case(
        "detach and mutate",
        """
        def f(x):
            x.detach().zero_()
            return x + 1
        """,
        graphs=["detach zero_ add"],
    ),
    Case(
        "requires_grad_ on a local",
        """
        def f(x):
            w = torch.ones(3)
            w.requires_grad_()
            return x * w
        """,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
]

PROPERTIES = [
    Case(
        "shape, ndim, dim, numel",
        "def f(x): return x * x.shape[0] + x.ndim + x.dim() + x.numel() + len(x)",
        inputs=MATRIX,
        graphs=["mul add add add add"],
    ),
    Case(
        "size with index and unpacking",
        """
        def f(x):
            a, b = x.shape
            return x.reshape(b, a) + x.size(1) + x.size(-2)
        """,
        inputs=MATRIX,
        graphs=["reshape add add"],
    ),
    Case(
        "stride and contiguity",
        "def f(x): return x + 1 if x.is_contiguous() and x.stride(0) == 3 and x.stride() == (3, 1) else x",
        inputs=MATRIX,
        graphs=["add"],
    ),
    Case(
        "dtype and device",
        "def f(x): return x + 1 if x.dtype is torch.float32 and x.device.type == 'cpu' and x.device == torch.device('cpu') else x",
        graphs=["add"],
    ),
    Case(
        "dtype methods",
        """
        def f(x): return x * x.dtype.itemsize if x.is_floating_point() and x.dtype.is_floating_point and not x.is_complex() else x
        """,
        graphs=["mul"],
    ),
    Case(
        "requires_grad and is_leaf",
        "def f(x): return x * 2 if x.requires_grad and x.is_leaf else x",
        inputs=["t(3, grad=True)", "t(3)"],
        graphs=None,
        compiles=2,
    ),
    Case(
        "is_cuda and layout",
        "def f(x): return x + 1 if not x.is_cuda and x.layout is torch.strided and not x.is_sparse else x",
        graphs=["add"],
    ),
    Case(
        "shape of a local",
        """
        def f(x):
            y = torch.cat([x, x])
            return y.view(y.shape[0] // 2, 2)
        """,
        graphs=["cat view"],
    ),
    Case("T, mT, H", "def f(x): return x.T @ x, x.mT, x.mH", MATRIX, 1),
    Case("real and imag", "def f(x): return x.real + x.imag", ["t(3, dtype=torch.complex64)"] * 2, 1),
    Case(".data read", "def f(x): return x.data + 1", ["t(3, grad=True)", "t(3, grad=True)"], 1),
    Case(".data written", "def f(x, y): x.data = y + 1", TWO, None, fullgraph=False, compiles=None),
    Case(
        ".grad of an argument without gradient",
        "def f(x): return x + 1 if x.grad is None else x + x.grad",
        inputs=["t(3, grad=True)", "t(3, grad=True)"],
        graphs=["add"],
    ),
    Case(".grad read", "def f(x): return x.grad * 2", ["(lambda w: w.sum().backward() or w)(t(3, grad=True))"] * 2, ["mul"], compiles=None),
    Case(
        ".grad cleared",
        """
        def f(x):
            x.grad = None
            return x.detach() + 1
        """,
        inputs=["(lambda w: w.sum().backward() or w)(t(3, grad=True))"] * 2,
        graphs=None,
        compiles=None,
        fullgraph=False,
    ),
    Case("grad_fn test", "def f(x): return (x * 2).grad_fn is None", fullgraph=False, compiles=None),
    Case(
        "result_type and can_cast",
        "def f(x, y): return x.to(torch.result_type(x, y)) + y",
        inputs=["t(3, dtype=torch.int64), t(3)"] * 2,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case("finfo", "def f(x): return x.clamp(min=torch.finfo(x.dtype).tiny, max=torch.iinfo(torch.int8).max)", graphs=["clamp"]),
    Case(
        "isinstance of tensors",
        """
        def f(x, y): return x + 1 if isinstance(x, torch.Tensor) and torch.is_tensor(y) and not isinstance(x, nn.Parameter) else x
        """,
        inputs=TWO,
        graphs=["add"],
    ),
    Case(
        "is_nonzero free tests",
        "def f(x): return x + 1 if torch.is_floating_point(x) and torch.is_grad_enabled() else x",
        graphs=["add"],
    ),
    Case(
        "attribute set on a tensor",
        """
        def f(x):
            x.tag = 'seen'
            return x + 1
        """,
        graphs=["add"],
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "user attribute of a tensor",
        """
        def tagged(x, tag):
            x.tag = tag
            return x
        def f(x): return x * x.tag
        """,
        inputs=["tagged(t(3), 2)", "tagged(t(3), 3)"],
        graphs=["mul"],
        compiles=2,
    ),
    Case("tensor identity", "def f(x, y): return x + 1 if x is y else x - y", ["*[t(3)] * 2", "t(3), t(3)"], ["add", "sub"], compiles=2),
    Case("tensor type call", "def f(x): return x.type(torch.float64) + x.double() + x.float()", graphs=["type double add float add"]),
]

INDEXING = [
    Case(name, f"def f(x): return x[{index}] + 1", ["t(4, 5, 6)", "t(4, 5, 6)"], ["getitem add"])
    for name, index in [
        ("integer index", "1"),
        ("negative index", "-1, 2"),
        ("slices", "1:3, ::2"),
        ("ellipsis", "..., 0"),
        ("None index", "None, :, 1"),
        ("list index", "[0, 2]"),
        ("tuple in a variable", "(slice(None), 1)"),
        ("mixed advanced", ":, [0, 1], 2:"),
    ]
] + [
    Case("tensor index", "def f(x, i): return x[i].T + x[:, i]", ["t(4, 4), t(2, dtype=torch.int64) % 4"] * 2, 1),
    Case("loop over indices", "def f(x): return [x[i] for i in range(len(x))]", MATRIX, ["getitem getitem"]),
    Case(
        "gather and scatter",
        "def f(x, i): return x.gather(1, i).scatter(1, i, 0.0)",
        inputs=["t(4, 4), t(4, 2, dtype=torch.int64) % 4"] * 2,
        graphs=["gather scatter"],
    ),
    Case("split results indexed", "def f(x): return x.split([1, 2], dim=1)[1] * 2", MATRIX, ["split getitem mul"]),
    Case("where with three arguments", "def f(x): return torch.where(x > 0, x, -x)", graphs=["gt neg where"]),
    Case("narrow, select, index_select", "def f(x): return x.narrow(0, 0, 1) + x.select(0, 1)", MATRIX, ["narrow select add"]),
]

FUNCTIONS = [
    Case(
        "factories",
        """
        def f(x): return torch.zeros(3) + torch.ones_like(x) + torch.arange(3) + torch.full((3,), 2.0) + x.new_tensor([1.0, 2, 3])
        """,
        graphs=1,
    ),
    Case("tensor constant", "def f(x): return x + torch.tensor([1.0, 2.0, 3.0])", graphs=1),
    Case("tensor of a number", "def f(x): return x * torch.tensor(2.5)", graphs=1),
    Case(
        "factory with device of the input",
        "def f(x): return torch.zeros(x.shape, device=x.device, dtype=x.dtype) + x",
        graphs=["zeros add"],
    ),
    Case("random numbers follow the seed", "def f(x): return x + torch.rand(3) + torch.randn_like(x)", graphs=["rand add randn_like add"]),
    Case("dropout follows the seed", "def f(x): return F.dropout(x, 0.5)", ["t(30)", "t(30)"], ["dropout"]),
    Case(
        "manual_seed inside",
        """
        def f(x):
            torch.manual_seed(3)
            return x + torch.rand(3)
        """,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case("bernoulli in place", "def f(x): return x.clone().bernoulli_(0.5)", graphs=["clone bernoulli_"]),
    Case(
        "shape functions",
        "def f(x): return torch.stack([x, x]).permute(2, 0, 1).flatten(1).unsqueeze(0).squeeze().transpose(0, 1)",
        inputs=MATRIX,
        graphs=["stack permute flatten unsqueeze squeeze transpose"],
    ),
    Case(
        "expand, repeat, broadcast",
        "def f(x): return x.expand(2, 3) + x.repeat(2, 1) + torch.broadcast_to(x, (2, 3))",
        graphs=["expand repeat add broadcast_to add"],
    ),
    Case(
        "reductions",
        "def f(x): return x.sum(), x.mean(1), x.std(0, keepdim=True), x.amax((0, 1)), x.argmax(-1), x.any(), x.norm()",
        inputs=MATRIX,
        graphs=["sum mean std amax argmax any norm"],
    ),
    Case(
        "cumulative and sorting",
        """
        def f(x): return x.cumsum(0), x.sort(dim=1), x.flip(0), torch.unique_consecutive(x.new_ones(3))[0] if False else x.roll(1, 0)
        """,
        inputs=MATRIX,
        graphs=1,
    ),
    Case("einsum", "def f(x, y): return torch.einsum('ij,jk->ik', x, y)", ["t(2, 3), t(3, 4)"] * 2, ["einsum"]),
    Case(
        "linear algebra",
        "def f(x): return torch.bmm(x, x).diagonal(dim1=1, dim2=2).sum(-1), torch.addmm(x[0], x[0], x[1])",
        inputs=["t(2, 3, 3)"] * 2,
        graphs=1,
    ),
    Case(
        "functional layers",
        "def f(x, w, b): return F.softmax(F.gelu(F.layer_norm(F.linear(x, w, b), (4,))), dim=-1)",
        inputs=["t(2, 3), t(4, 3), t(4)"] * 2,
        graphs=["linear layer_norm gelu softmax"],
    ),
    Case(
        "convolution and pooling",
        "def f(x, w): return F.adaptive_avg_pool2d(F.max_pool2d(F.conv2d(x, w, padding=1), 2), 1)",
        inputs=["t(1, 2, 6, 6), t(3, 2, 3, 3)"] * 2,
        graphs=["conv2d max_pool2d|boolean_dispatch|fn adaptive_avg_pool2d"],
    ),
    Case(
        "attention",
        "def f(q, k, v): return F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        inputs=["*[t(1, 2, 4, 8) for _ in range(3)]"] * 2,
        graphs=["scaled_dot_product_attention"],
    ),
    Case(
        "losses",
        "def f(x, y): return F.cross_entropy(x, y) + F.mse_loss(x, x * 2)",
        inputs=["t(4, 10), t(4, dtype=torch.int64)"] * 2,
        graphs=["cross_entropy mul mse_loss add"],
    ),
    Case("embedding", "def f(i, w): return F.embedding(i, w)", ["t(5, dtype=torch.int64), t(10, 3)"] * 2, ["embedding"]),
    Case(
        "interpolate and pad",
        "def f(x): return F.pad(F.interpolate(x, scale_factor=2, mode='nearest'), (1, 1))",
        inputs=["t(1, 2, 3, 3)"] * 2,
        graphs=1,
    ),
    Case("dtype conversion", "def f(x): return x.to(torch.float64) + x.half().float() + x.to(dtype=torch.int32) + x.to('cpu')", graphs=1),
    Case(
        "to another tensor's type",
        "def f(x, y): return x.to(y) + x.type_as(y)",
        inputs=["t(3), t(3, dtype=torch.float64)"] * 2,
        graphs=["to type_as add"],
    ),
    Case("complex numbers", "def f(x): return torch.view_as_real(torch.fft.fft(x)).sum(-1)", ["t(4)"] * 2, 1),
    Case(
        "keyword arguments",
        "def f(x): return torch.sum(input=x, dim=0, keepdim=True) + x.mean(dim=[0], dtype=torch.float64)",
        inputs=MATRIX,
        graphs=["sum mean add"],
    ),
    Case("torch.add with alpha", "def f(x, y): return torch.add(x, y, alpha=2)", TWO, ["add"]),
    Case("nan_to_num and clamp", "def f(x): return x.clamp(0, 1).nan_to_num(0.0).lerp(x, 0.5)", graphs=["clamp nan_to_num lerp"]),
    Case(
        "broadcast_tensors and meshgrid",
        """
        def f(x, y):
            a, b = torch.meshgrid(x, y, indexing='ij')
            return a * b
        """,
        inputs=TWO,
        graphs=1,
    ),
    Case("tensor as a default of where", "def f(x): return torch.where(x > 0, 1.0, torch.zeros(()))", graphs=1),
    Case(
        "contiguous and clone with format",
        "def f(x): return x.contiguous(memory_format=torch.channels_last).clone(memory_format=torch.preserve_format)",
        inputs=["t(1, 2, 3, 3)"] * 2,
        graphs=["contiguous clone"],
    ),
    Case(
        "masked_fill and tril",
        "def f(x): return x.masked_fill(torch.tril(torch.ones(3, 3)) == 0, float('-inf'))",
        inputs=["t(3, 3)"] * 2,
        graphs=["ones tril eq masked_fill"],
    ),
    Case("vmap", "def f(x): return torch.vmap(lambda r: r.sum() * r)(x)", MATRIX, None, fullgraph=False, compiles=None),
    Case("torch.func.grad", "def f(x): return torch.func.grad(lambda v: (v ** 2).sum())(x)", graphs=None, fullgraph=False, compiles=None),
    Case(
        "tensor subclass",
        """
        class S(torch.Tensor): pass
        def f(x): return x + 1
        """,
        inputs=["t(3).as_subclass(S)"] * 2,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "sparse tensor",
        "def f(x): return torch.sparse.mm(x, torch.ones(3, 2))",
        inputs=["t(2, 3).to_sparse()"] * 2,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "double in list arithmetic",
        "def f(x): return torch.stack([x[i] * w for i, w in enumerate((0.1, 0.2))])",
        inputs=MATRIX,
        graphs=["getitem mul getitem mul stack"],
    ),
]

GRADIENTS = [
    Case("gradient of an argument", "def f(x): return (x.sin() * 2).sum()", ["t(3, grad=True)"] * 2, ["sin mul sum"]),
    Case("gradient of two outputs", "def f(x, y): return x * y, x + y", ["t(3, grad=True), t(3, grad=True)"] * 2, ["mul add"]),
    Case(
        "gradient through an in-place operator",
        """
        def f(x):
            y = x * 2
            y.add_(x)
            return y
        """,
        inputs=["t(3, grad=True)"] * 2,
        graphs=["mul add_"],
    ),
    Case(
        "gradient with no_grad part",
        """
        def f(x):
            with torch.no_grad():
                y = x * 2
            return x * y
        """,
        inputs=["t(3, grad=True)"] * 2,
        graphs=1,
    ),
    Case("detach stops the gradient", "def f(x): return x * x.detach()", ["t(3, grad=True)"] * 2, ["detach mul"]),
    Case(
        "gradient of a global parameter",
        """
        w = nn.Parameter(torch.ones(3))
        def f(x): return x * w
        """,
        graphs=["mul"],
    ),
    Case(
        "backward inside",
        """
        def f(x):
            y = (x * 2).sum()
            y.backward()
            return y.detach()
        """,
        inputs=["t(3, grad=True)"] * 2,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "autograd.grad inside",
        """
        def f(x):
            y = (x ** 2).sum()
            return torch.autograd.grad(y, x)[0]
        """,
        inputs=["t(3, grad=True)"] * 2,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case("output aliasing an input with gradient", "def f(x): return x.view(-1), x * 2", ["t(2, 2, grad=True)"] * 2, ["view mul"]),
    Case(
        "tensor hook",
        """
        def f(x):
            y = x * 2
            y.register_hook(lambda g: g * 3)
            return y
        """,
        inputs=["t(3, grad=True)"] * 2,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
]


@pytest.mark.parametrize("case", OPERATORS + IN_PLACE, ids=lambda case: case.name)
def test_operators(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("case", PROPERTIES + INDEXING, ids=lambda case: case.name)
def test_properties(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("case", FUNCTIONS + GRADIENTS, ids=lambda case: case.name)
def test_tensor_functions(case: Case) -> None:
    case.check()
