"""Modules: hooks, buffers that change, modes, parametrizations, shared parameters, and the layers that break most often."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize

from repro_corpus.program import Compile, program


class Symmetric(nn.Module):
    def forward(self, w: torch.Tensor) -> torch.Tensor:
        return w.triu() + w.triu(1).mT

    def right_inverse(self, w: torch.Tensor) -> torch.Tensor:
        return w.triu()


def _gradients(module: nn.Module) -> dict[str, Any]:
    return {name: p.grad for name, p in module.named_parameters()}


def _state(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: t.clone() for name, t in module.state_dict().items()}


@program("pytorch#117758", "hooks registered after the first call are ignored")
def hooks_added_later(compile: Compile) -> Any:
    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    fast = compile(module)
    x = torch.ones(1, 2)
    seen: list[str] = []
    out = [fast(x)]
    one = module[0].register_forward_hook(lambda m, args, y: seen.append("hook") or y * 2)
    out.append(fast(x))
    two = module.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    out.append(fast(x))
    one.remove()
    out.append(fast(x))
    two.remove()
    return [*out, fast(x)], seen


@program("pytorch#117584", "a pre-hook of the root gives one value instead of a tuple; hooks with keyword arguments")
def hooks_of_the_root(compile: Compile) -> Any:
    class Net(nn.Module):
        def forward(self, x, *, scale=1):
            return {"y": x * scale}

    module = Net()
    module.register_forward_pre_hook(lambda m, args: args[0] + 1)
    module.register_forward_pre_hook(lambda m, args, kwargs: (args, {**kwargs, "scale": 3}), with_kwargs=True)
    module.register_forward_hook(lambda m, args, kwargs, out: {**out, "scale": kwargs["scale"], "x": args[0]}, with_kwargs=True)
    module.register_forward_hook(lambda m, args, out: {**out, "last": True}, always_call=True)
    return compile(module)(torch.ones(2)), compile(module)(torch.ones(2), scale=2)


@program("pytorch#91665", "full backward hooks and pre-hooks run and may change the gradient")
def backward_hooks(compile: Compile) -> Any:
    seen: list[Any] = []
    module = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    module[0].register_full_backward_hook(lambda m, gi, go: seen.append(("full", len(gi), go[0].shape)))
    module[1].register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
    x = torch.ones(4, 2, requires_grad=True)
    compile(module)(x).sum().backward()
    return seen, x, _gradients(module)


@program("pytorch#110803", "train and eval in turn: dropout and statistics follow")
def train_and_eval_in_turn(compile: Compile) -> Any:
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    fast = compile(module)
    x = torch.linspace(-1, 1, 12).view(4, 3)
    out = []
    for mode in (True, False, True, False):
        module.train(mode)
        out.append((fast(x), _state(module)["1.num_batches_tracked"]))
    module[2].eval()
    module[1].train()
    return out, fast(x), module[1].running_mean, module[1].running_var


@program("pytorch#132986", "train() and eval() of the compiled module")
def mode_of_the_compiled_module(compile: Compile) -> Any:
    module = nn.Sequential(nn.Dropout(0.9), nn.Linear(3, 3))
    fast = compile(module)
    x = torch.ones(2, 3)
    fast.eval()
    first = fast(x), module.training, fast.training
    fast.train()
    return first, module.training, fast.training, module[0].training


@program("pytorch#104984", "weights loaded after a call in eval mode are used")
def weights_loaded_later(compile: Compile) -> Any:
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).eval()
    fast = compile(module)
    x = torch.linspace(0, 1, 16).view(1, 1, 4, 4)
    with torch.no_grad():
        first = fast(x)
        module.load_state_dict({k: v + 1 for k, v in module.state_dict().items()})
        second = fast(x)
        module.load_state_dict({k: v * 2.0 for k, v in module.state_dict().items()}, assign=True)
        third = fast(x)
        module[0].weight.data = torch.zeros(2, 1, 3, 3)
        return first, second, third, fast(x)


@program("pytorch#115774", "an attribute that is a plain tensor is written, then replaced from outside")
def tensor_attribute_replaced(compile: Compile) -> Any:
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = torch.zeros(2, dtype=torch.int64)

        def forward(self, x, at):
            self.cache[at] = x
            return self.cache + 0

    module = Cache()
    fast = compile(module)
    out = [fast(torch.tensor([2]), torch.tensor([0]))]
    module.cache = torch.zeros(2, dtype=torch.int64)
    out.append(fast(torch.tensor([1]), torch.tensor([1])))
    return out, module.cache


@program("pytorch#133509", "a buffer that is replaced by its own conversion")
def buffer_replaced_by_its_conversion(compile: Compile) -> Any:
    class Rotary(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.arange(4.0), persistent=False)
            self.register_buffer("count", torch.zeros((), dtype=torch.int64))

        def forward(self, x):
            self.table = self.table.to(x.device, dtype=x.dtype)
            self.count = self.count + 1
            return x * self.table + self.count

    module = Rotary()
    fast = compile(module)
    out = [fast(torch.ones(4)), fast(torch.ones(4, dtype=torch.float64)), fast(torch.ones(4))]
    return out, module.table, module.count, list(module.state_dict())


@program("pytorch#114967", "a slice of a buffer is written")
def slice_of_a_buffer(compile: Compile) -> Any:
    class Keys(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("cache", torch.zeros(4, 3))
            self.at = 0

        def forward(self, x):
            self.cache[self.at : self.at + x.shape[0]] = x
            self.at += x.shape[0]
            return self.cache[: self.at].sum(0), self.at

    module = Keys()
    fast = compile(module)
    return fast(torch.ones(1, 3)), fast(torch.ones(2, 3) * 2), fast(torch.ones(1, 3) * 5), module.cache


@program("pytorch#102877", "iterating over the buffers, parameters and children of a module")
def iterating_over_members(compile: Compile) -> Any:
    module = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2)))
    module.register_buffer("own", torch.ones(3))

    @compile
    def f(x):
        out = [b.sum() for b in module.buffers()]
        for name, p in module.named_parameters():
            if name.endswith("bias"):
                x = x + p.sum()
        kinds = [type(m).__name__ for m in module.modules()]
        return out, x, kinds, [n for n, _ in module.named_children()], sum(p.numel() for p in module.parameters())

    return f(torch.ones(2))


@program("pytorch#120914", "a parametrized weight: trained, replaced, cached, removed")
def parametrized_weight(compile: Compile) -> Any:
    layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    fast = compile(layer)
    x = torch.linspace(-1, 1, 6).view(2, 3)
    fast(x).sum().backward()
    out = [fast(x)]
    layer.weight = torch.arange(9.0).view(3, 3)
    out.append(fast(x))
    with parametrize.cached():
        out.append(fast(x) + fast(x))
    grads = _gradients(layer)
    parametrize.remove_parametrizations(layer, "weight")
    return out, fast(x), grads


@program("pytorch#121304", "weight_norm, spectral_norm and orthogonal of torch")
def norms_of_weights(compile: Compile) -> Any:
    one = parametrizations.weight_norm(nn.Linear(3, 2))
    two = parametrizations.spectral_norm(nn.Linear(2, 2))
    three = parametrizations.orthogonal(nn.Linear(2, 2))
    module = nn.Sequential(one, two, three)
    x = torch.linspace(-1, 1, 6).view(2, 3)
    fast = compile(module)
    first = fast(x)
    first.sum().backward()
    grads = _gradients(module)
    second = fast(x)
    module.eval()
    return first, second, fast(x), grads


@program("pytorch#99735", "ParameterDict, ParameterList and ModuleDict, changed between calls")
def dicts_and_lists_of_parameters(compile: Compile) -> Any:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.d = nn.ParameterDict({"a": nn.Parameter(torch.ones(2))})
            self.l = nn.ParameterList([torch.ones(2) * i for i in range(3)])
            self.m = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})

        def forward(self, x, key):
            for p in self.l:
                x = x + p
            return self.m[key](x) * self.d["a"], "b" in self.d, [*self.d], len(self.l), self.l[-1].sum()

    module = Net()
    fast = compile(module)
    x = torch.linspace(-1, 1, 2)
    out = [fast(x, "relu"), fast(x, "tanh")]
    module.d["b"] = nn.Parameter(torch.ones(1))
    module.l.append(nn.Parameter(torch.ones(2)))
    module.m["tanh"] = nn.Sigmoid()
    return out, fast(x, "tanh")


@program("pytorch#114743", "one parameter under two names: the gradient is the sum; then they are separated")
def shared_parameters(compile: Compile) -> Any:
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(5, 3)
            self.out = nn.Linear(3, 5, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, tokens):
            return self.out(self.embed(tokens).tanh())

    module = Tied()
    fast = compile(module)
    tokens = torch.tensor([0, 3, 3])
    F.cross_entropy(fast(tokens), torch.tensor([1, 2, 0])).backward()
    first = module.embed.weight.grad.clone()
    module.out.weight = nn.Parameter(module.embed.weight.detach() * 2)
    module.zero_grad()
    fast(tokens).sum().backward()
    return first, module.out.weight.grad, module.embed.weight.grad, fast(tokens)


@program("pytorch#194504", "BatchNorm with momentum None: the cumulative average needs the count")
def cumulative_batch_norm(compile: Compile) -> Any:
    module = nn.BatchNorm1d(2, momentum=None)
    fast = compile(module)
    out = [fast(torch.linspace(0, i, 8).view(4, 2)) for i in (1, 2, 5)]
    return out, _state(module)


@program("pytorch#20967", "BatchNorm without statistics, without affine weights, and both switched later")
def batch_norm_variants(compile: Compile) -> Any:
    plain = nn.BatchNorm1d(2, affine=False, track_running_stats=False)
    later = nn.BatchNorm1d(2)
    fast, fast_later = compile(plain), compile(later)
    x = torch.linspace(-1, 3, 8).view(4, 2)
    out = [fast(x), fast_later(x)]
    plain.eval()
    later.eval()
    later.track_running_stats = False
    out += [fast(x), fast_later(x)]
    later.momentum = 0.9
    later.train()
    return [*out, fast_later(x)], _state(later), _state(plain)


@program("pytorch#158007", "LSTM with two layers, both directions and a state that is given")
def lstm_with_state(compile: Compile) -> Any:
    module = nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True)
    x = torch.linspace(-1, 1, 18).view(2, 3, 3).requires_grad_()
    state = (torch.ones(4, 2, 4) * 0.1, torch.zeros(4, 2, 4))
    out, (h, c) = compile(module)(x, state)
    (out.sum() + h.mean() + c.sum()).backward()
    return out, h, c, x, _gradients(module)


@program("pytorch#91439", "GRU, RNN with relu, and cells in a loop")
def recurrent_modules(compile: Compile) -> Any:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru = nn.GRU(2, 3)
            self.rnn = nn.RNN(3, 3, nonlinearity="relu", bias=False)
            self.cell = nn.LSTMCell(3, 2)

        def forward(self, x):
            y, h = self.gru(x)
            z, _ = self.rnn(y, h)
            state = None
            outs = []
            for step in z:
                state = self.cell(step, state)
                outs.append(state[0])
            return torch.stack(outs), state, h

    module = Net()
    x = torch.linspace(-1, 1, 16).view(4, 2, 2).requires_grad_()
    out, state, h = compile(module)(x)
    out.sum().backward()
    return out, state, h, x


@program("pytorch#116858", "packed sequences through an LSTM")
def packed_sequences(compile: Compile) -> Any:
    module = nn.LSTM(2, 3, batch_first=True)

    @compile
    def f(x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, (h, _) = module(packed)
        padded, sizes = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
        return padded, sizes, h

    return f(torch.linspace(-1, 1, 12).view(2, 3, 2), torch.tensor([2, 3]))


@program("pytorch#97605", "attention with masks of each kind, in training, in eval, with and without gradients")
def attention_with_masks(compile: Compile) -> Any:
    module = nn.MultiheadAttention(4, 2, batch_first=True)
    fast = compile(module)
    x = torch.linspace(-1, 1, 24).view(2, 3, 4)
    causal = nn.Transformer.generate_square_subsequent_mask(3)
    padding = torch.tensor([[False, False, True], [False, False, False]])
    out = [fast(x, x, x, attn_mask=causal, is_causal=True), fast(x, x + 1, x, key_padding_mask=padding, average_attn_weights=False)]
    module.eval()
    with torch.no_grad():
        out += [fast(x, x, x, attn_mask=causal, key_padding_mask=padding.float(), need_weights=False), fast(x, x, x)]
    return out


@program("pytorch#97409", "a transformer encoder layer in eval: fast path and slow path")
def encoder_layer(compile: Compile) -> Any:
    module = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), 2, enable_nested_tensor=False)
    fast = compile(module)
    x = torch.linspace(-1, 1, 24).view(2, 3, 4)
    mask = torch.tensor([[False, False, True], [False, False, False]])
    out = [fast(x), fast(x, src_key_padding_mask=mask)[mask.logical_not()]]
    module.eval()
    with torch.no_grad():
        return [*out, fast(x), fast(x, src_key_padding_mask=mask)[mask.logical_not()]]


@program("pytorch#143697", "a module with a data class of numbers, and ints and floats that it changes itself")
def module_with_numbers(compile: Compile) -> Any:
    class Schedule(nn.Module):
        def __init__(self):
            super().__init__()
            self.step, self.rate, self.log = 0, 1.0, []

        def forward(self, x):
            self.step += 1
            self.rate *= 0.5
            if self.step % 2:
                self.log.append(self.rate)
            return x * self.rate + self.step

    module = Schedule()
    fast = compile(module)
    return [fast(torch.ones(2)) for _ in range(4)], module.step, module.rate, module.log


@program("", "__getattr__ and __setattr__ of a module's own, with names that are no attributes")
def modules_with_their_own_getattr(compile: Compile) -> Any:
    class Wrapper(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.inner, name)

        def __setattr__(self, name, value):
            super().__setattr__(name.lower(), value)

        def forward(self, x):
            self.LAST = x.shape[0]
            return self.inner(x) @ self.weight, self.bias, getattr(self, "nothing", "default"), hasattr(self, "in_features")

    module = Wrapper(nn.Linear(2, 2))
    return compile(module)(torch.ones(3, 2)), module.last


@program("", "a module that is swapped, frozen, or removed between calls")
def children_changed_between_calls(compile: Compile) -> Any:
    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    fast = compile(module)
    x = torch.ones(1, 2)
    out = [fast(x)]
    module[1] = nn.Tanh()
    out.append(fast(x))
    module[0].requires_grad_(False)
    out.append(fast(x))
    fast(x).sum().backward()
    grads = _gradients(module)
    del module[2]
    out.append(fast(x))
    module.append(nn.Softmax(dim=1))
    module[0].weight = nn.Parameter(torch.zeros(2, 2))
    module.forward = lambda x: x * 7
    return [*out, fast(x)], grads, len(module)


@program("", "one module called three times in a graph, with hooks that count and gradients that add up")
def one_module_many_times(compile: Compile) -> Any:
    layer = nn.Linear(2, 2)
    calls: list[int] = []
    layer.register_forward_pre_hook(lambda m, args: calls.append(len(calls)))

    @compile
    def f(x):
        for _ in range(3):
            x = layer(x).sin()
        return x

    x = torch.ones(2, requires_grad=True)
    f(x).sum().backward()
    return calls, x, _gradients(layer)


@program("", "a compiled module is copied, its copy trained apart, its state saved and loaded")
def copies_of_compiled_modules(compile: Compile) -> Any:
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    fast = compile(module)
    x = torch.linspace(-1, 1, 6).view(3, 2)
    first = fast(x)
    other = copy.deepcopy(fast)
    for p in other.parameters():
        p.data.add_(1)
    second = other(x)
    return first, second, fast(x), module[1].num_batches_tracked, [v.shape for v in fast.state_dict().values()]


@program("", "functional_call with other weights, also with tied ones")
def functional_call(compile: Compile) -> Any:
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    module[1].weight = module[0].weight

    @compile
    def f(x, weights):
        return torch.func.functional_call(module, weights, (x,))

    x = torch.ones(2)
    weights = {"0.weight": torch.eye(2).requires_grad_()}
    y = f(x, weights)
    y.sum().backward()
    return y, weights["0.weight"], module[0].weight.grad, module(x)


@program("", "an embedding with max_norm changes its weight; one with padding has no gradient there")
def embeddings_that_change(compile: Compile) -> Any:
    one, two = nn.Embedding(4, 3, max_norm=0.5), nn.Embedding(4, 3, padding_idx=1)
    bag = nn.EmbeddingBag(4, 3, mode="mean")

    @compile
    def f(tokens):
        return one(tokens) + two(tokens), bag(tokens, torch.tensor([0, 2]))

    out = f(torch.tensor([0, 1, 2, 1]))
    (out[0].sum() + out[1].sum()).backward()
    return out, one.weight, two.weight.grad, bag.weight.grad


@program("pytorch#115744", "a parametrization that is registered inside")
def parametrization_inside(compile: Compile) -> Any:
    @compile
    def f(x):
        layer = nn.Linear(3, 3, bias=False)
        parametrize.register_parametrization(layer, "weight", Symmetric())
        return layer(x), layer.weight, parametrize.is_parametrized(layer)

    y, weight, is_parametrized = f(torch.linspace(0, 1, 3))
    return y, weight, torch.equal(weight, weight.mT), is_parametrized


@program("pytorch#127697", "modules made inside: the same random numbers, parameters that can be trained")
def modules_made_inside(compile: Compile) -> Any:
    @compile
    def f(x):
        layer = nn.Linear(3, 4)
        norm = nn.LayerNorm(4)
        nn.init.constant_(layer.bias, 0.5)
        return norm(layer(x)), layer, isinstance(layer.weight, nn.Parameter), layer.weight.requires_grad

    torch.manual_seed(3)
    y, layer, *rest = f(torch.ones(4, 3))
    y[:, 0].sum().backward()
    return y, layer.weight, layer.bias, rest, layer.training, torch.rand(1)
