"""Models that no list here names: the smallest of each family that timm has, and transformers' architectures with small sizes.

    python -m tests.models.elsewhere [--device cuda] [--library timm] [--jobs 16] [--seconds 580] [--part 0/3] [NAME ...]

Each runs in a process of its own: the forward pass in evaluation twice, then outputs and gradients of a training step, in eager and
compiled, both measured by their distance from the same in float64. A line per model says `same`, `differs`, `internal` (a graph that
ran uncompiled after an internal error), `raised`, `late`, or `unmade` where eager itself has no result; graphs captured; seconds, and
those of processors that compilers took. What differs may be the model's own choice: some ask `torch.compiler.is_compiling()`.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import inspect
import multiprocessing
import multiprocessing.connection
import resource
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from tests.models import torchvision_ops
from tests.models.training import distance, in_double
from tests.models.zoo import awake

FLOOR = {"outputs": 2e-5, "gradients": 2e-3}  # a kink next to zero moves a whole gradient
WORSE = 4.0  # than eager
LIMIT = 150.0  # seconds for one model
SMALL_NAMES = "test_ atto femto pico nano tiny xxs 18 s0 b0 m0 small xs t0 26 50 base".split()

# Sizes of configurations, and what they are here; each where a configuration has it.
SIZES: dict[str, int] = {
    **dict.fromkeys("hidden_size d_model n_embd dim embed_dim embedding_size word_embed_proj_dim hidden_dim projection_dim".split(), 32),
    **dict.fromkeys("num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_decoder_layers".split(), 2),
    **dict.fromkeys("num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads".split(), 4),
    **dict.fromkeys("intermediate_size ffn_dim encoder_ffn_dim decoder_ffn_dim d_ff n_inner moe_intermediate_size".split(), 64),
    **dict.fromkeys("num_experts num_local_experts n_routed_experts".split(), 4),
    **dict.fromkeys("num_experts_per_tok num_key_value_heads num_kv_heads".split(), 2),
    **dict.fromkeys("max_position_embeddings n_positions n_ctx max_source_positions max_target_positions".split(), 64),
    **dict.fromkeys("head_dim d_kv".split(), 8),
    **dict.fromkeys("pad_token_id bos_token_id eos_token_id decoder_start_token_id".split(), 1),
    "vocab_size": 99,
    "image_size": 32,
    "patch_size": 8,
    "num_mel_bins": 8,
}

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    word: str
    text: str = ""
    graphs: int = 0
    seconds: float = 0.0
    compilers: float = 0.0


def timm_names() -> Iterator[str]:
    """One small model of each family."""
    torchvision_ops.declare()
    import timm

    for family in timm.list_modules():
        names = timm.list_models(module=family)
        if names:
            yield min(names, key=lambda name: next((k for k, hint in enumerate(SMALL_NAMES) if hint in name), len(SMALL_NAMES)))


def transformers_names() -> Iterator[str]:
    torchvision_ops.declare()
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    found = (names if isinstance(names, str) else names[0] for names in MODEL_MAPPING_NAMES.values())
    yield from dict.fromkeys(found)


NAMES: dict[str, Callable[[], Iterator[str]]] = {"timm": timm_names, "transformers": transformers_names}


def made(library: str, name: str) -> tuple[torch.nn.Module, Inputs]:
    return made_timm(name) if library == "timm" else made_transformer(name)


def made_timm(name: str) -> tuple[torch.nn.Module, Inputs]:
    import timm

    model = timm.create_model(name, pretrained=False, num_classes=10)
    size = model.default_cfg["input_size"]
    smaller = [min(s, 64) if not model.default_cfg.get("fixed_input_size") else s for s in size[1:]]
    inputs = (torch.randn(2, size[0], *smaller),)
    try:
        model.eval()(*inputs)
    except (RuntimeError, AssertionError, ValueError):
        inputs = (torch.randn(2, *size),)
    return model, (inputs, {})


def made_transformer(name: str) -> tuple[torch.nn.Module, Inputs]:
    import transformers

    cls = getattr(transformers, name)
    config = shrunk(cls.config_class())
    model = cls(config)
    return model, ((), transformer_inputs(model, config))


def shrunk(config: Any) -> Any:
    """The same kind of configuration with small sizes, of its parts too."""
    for key, value in list(vars(config).items()):
        if key == "head_dim" and hasattr(config, "qk_rope_head_dim"):
            continue  # a sum of two others there
        if key in SIZES and isinstance(value, int) and not isinstance(value, bool):
            setattr(config, key, SIZES[key])
        elif hasattr(value, "model_type"):
            shrunk(value)
        elif key == "layer_types" and isinstance(value, list):
            setattr(config, key, value[: SIZES["num_hidden_layers"]])
    return config


def transformer_inputs(model: Any, config: Any) -> dict[str, Any]:
    wanted = inspect.signature(model.forward).parameters
    tokens = torch.randint(3, 99, (2, 8))
    seen = getattr(config, "vision_config", config)
    size, channels = getattr(seen, "image_size", 32), getattr(seen, "num_channels", 3)
    have = {
        "input_ids": lambda: tokens,
        "attention_mask": lambda: torch.ones(2, 8, dtype=torch.int64),
        "decoder_input_ids": lambda: torch.randint(3, 99, (2, 6)),
        "pixel_values": lambda: torch.randn(2, channels, size, size),
        "input_values": lambda: torch.randn(2, 4000),
        "input_features": lambda: torch.randn(2, SIZES["num_mel_bins"], 2 * SIZES["max_source_positions"]),
    }
    main = [model.main_input_name, "decoder_input_ids"]
    if model.main_input_name == "input_ids":
        main += ["attention_mask"] if seen is config else ["attention_mask", "pixel_values"]
    return {name: have[name]() for name in main if name in wanted}


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of a result in order; caches, which have a form for each architecture, are left out."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from tensors(item)


def forward(call: Callable[..., Any], inputs: Inputs) -> list[torch.Tensor]:
    args, kwargs = copy.deepcopy(inputs)
    with torch.no_grad():
        return [t.double() for t in tensors(call(*args, **kwargs)) if t.is_floating_point()]


def step(module: torch.nn.Module, call: Callable[..., Any], inputs: Inputs) -> dict[str, list[torch.Tensor]]:
    """Outputs, and gradients of their mean squares; norms of batches train, nothing is dropped."""
    for part in module.modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
            part.train()
    args, kwargs = copy.deepcopy(inputs)
    outputs = [t for t in tensors(call(*args, **kwargs)) if t.is_floating_point()]
    loss = torch.stack([t.square().mean() for t in outputs if t.grad_fn is not None]).sum()
    loss.backward()
    grads = [torch.zeros(()) if p.grad is None else p.grad for p in module.parameters()]
    return {"outputs": [t.detach().double() for t in outputs], "gradients": [g.double() for g in grads]}


def compared(library: str, name: str, device: str) -> Outcome:
    import dynamo
    from dynamo import internal_errors
    from dynamo.trace import session
    from dynamo.trace.events import GraphCaptured
    from dynamo.trace.model import CAPTURE

    begun = time.perf_counter()
    torch.manual_seed(0)
    try:
        module, inputs = made(library, name)
        module = awake(module).eval().float().to(device)
        inputs = tree_map_only(torch.Tensor, lambda t: t.to(device), inputs)
        eager = copy.deepcopy(module)
        plain = forward(eager, inputs)
        reference, steps = plain, (step(eager, eager, inputs),) * 2
        with contextlib.suppress(RuntimeError):  # some operators have no float64
            exact, twice = in_double((copy.deepcopy(module), inputs))
            reference, steps = forward(exact, twice), (step(exact, exact, twice), steps[1])
    except Exception as e:  # noqa: BLE001  # whatever keeps the model from running without us
        return Outcome("unmade", f"{type(e).__name__}: {e}".splitlines()[0][:120])
    try:
        with session() as store:
            compiled = dynamo.compile(module, backend="inductor")
            found = forward(compiled, inputs), forward(compiled, inputs)
            trained = step(module, compiled, inputs)
        graphs = sum(event.stage == CAPTURE for event in store.of(GraphCaptured))
    except Exception as e:  # noqa: BLE001  # told, with where it came from
        where = traceback.extract_tb(e.__traceback__)[-1]
        return Outcome("raised", f"{type(e).__name__}: {e} ({where.filename}:{where.lineno})".replace("\n", " ")[:400])
    seconds, compilers = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    if internal_errors.internal_errors():
        return Outcome("internal", str(internal_errors.internal_errors()[0])[:400], graphs, seconds, compilers)
    rows = {f"call {k + 1}": (f, plain, reference) for k, f in enumerate(found)}
    rows |= {what: (trained[what], steps[1][what], steps[0][what]) for what in trained}
    wrong = [f"{what} {off}" for what, row in rows.items() if (off := further(what, *row))]
    return Outcome("differs" if wrong else "same", "; ".join(wrong), graphs, seconds, compilers)


def further(what: str, found: list[torch.Tensor], plain: list[torch.Tensor], exact: list[torch.Tensor]) -> str:
    """How much further from float64 than eager, where that is more than it may be."""
    if [t.shape for t in found] != [t.shape for t in plain]:
        return f"{[tuple(t.shape) for t in found]} for {[tuple(t.shape) for t in plain]}"[:200]
    if [t.isnan().sum() for t in found] != [t.isnan().sum() for t in plain]:
        return "other numbers are NaN"
    found, plain, exact = ([t.nan_to_num() for t in which] for which in (found, plain, exact))
    ours, eagers = distance(found, exact), distance(plain, exact)
    return "" if ours <= WORSE * eagers + FLOOR.get(what, FLOOR["outputs"]) else f"{ours:.1e} from float64, eager {eagers:.1e}"


def child(library: str, name: str, device: str, pipe: Any) -> None:
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False  # which convolutions would use it depends on the layout
    warnings.simplefilter("ignore")
    pipe.send(compared(library, name, device))


class Running:
    """One model in its process."""

    def __init__(self, library: str, name: str, device: str) -> None:
        self.library, self.name = library, name
        self.pipe, other = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.get_context("fork").Process(target=child, args=(library, name, device, other))
        self.process.start()
        other.close()
        self.ends = time.monotonic() + LIMIT

    def outcome(self) -> Outcome | None:
        """None while it runs."""
        if self.pipe.poll():
            try:
                return self.pipe.recv()  # type: ignore[no-any-return]  # what the other end sends
            except EOFError:
                self.process.join()
                return Outcome("raised", f"the process ended with {self.process.exitcode}")
        return Outcome("late", f"more than {LIMIT:.0f} s") if time.monotonic() > self.ends else None

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def sweep(todo: list[tuple[str, str]], options: argparse.Namespace) -> Iterator[tuple[Running, Outcome]]:
    begun, running = time.monotonic(), list[Running]()
    while (todo or running) and time.monotonic() - begun < options.seconds:
        while todo and len(running) < options.jobs:
            running.append(Running(*todo.pop(0), options.device))
        multiprocessing.connection.wait([r.pipe for r in running], 1.0)
        for one in list(running):
            outcome = one.outcome()
            if outcome is not None:
                one.end()
                running.remove(one)
                yield one, outcome
    for one in running:
        one.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="models to run; all without")
    parser.add_argument("--library", choices=NAMES, action="append", help="only models of this library")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="the run ends after this many")
    parser.add_argument("--part", default="0/1", metavar="K/N", help="every Nth model from the Kth on")
    options = parser.parse_args()
    todo = [(library, name) for library in options.library or NAMES for name in NAMES[library]()]
    k, n = map(int, options.part.split("/"))
    todo = [(library, name) for library, name in todo[k::n] if not options.names or name in options.names]
    count, words = len(todo), Counter[str]()
    for one, outcome in sweep(todo, options):
        words[outcome.word] += 1
        times = f"{outcome.graphs:3} graphs {outcome.seconds:6.1f} s {outcome.compilers:6.1f} s"
        print(f"{outcome.word:9}{one.name:45}{times}  {outcome.text}", flush=True)
    print(f"{words.total()} of {count} models on {options.device}: {', '.join(f'{n} {word}' for word, n in words.most_common())}")


if __name__ == "__main__":
    main()
