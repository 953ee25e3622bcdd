"""Real models with random weights and small inputs. One row per model; adding one is adding a row.

Required rows run in `make test`, the others in `make test-slow`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tests.models import torchvision_ops


@dataclass(frozen=True)
class Model:
    """`make` builds the module, `inputs` its keyword or positional arguments."""

    name: str
    make: Callable[[], torch.nn.Module]
    inputs: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]
    required: bool


def awake(module: torch.nn.Module) -> torch.nn.Module:
    """Some weights start as zeros (heads, last layers of a branch); outputs or gradients would be zero whatever is computed."""
    for parameter in module.parameters():
        if parameter.dim() > 1 and not parameter.any():
            torch.nn.init.normal_(parameter, std=0.02)
    return module


def _image(size: int, batch: int = 2) -> Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]:
    return lambda: ((torch.randn(batch, 3, size, size),), {})


def _torchvision(name: str, size: int, required: bool, batch: int = 2, **arguments: Any) -> Model:
    def make() -> torch.nn.Module:
        torchvision_ops.declare()
        from torchvision import models

        return awake(models.get_model(name, weights=None, num_classes=10, **arguments))

    return Model(f"torchvision {name}", make, _image(size, batch), required)


def _timm(name: str, size: int, required: bool, **arguments: Any) -> Model:
    def make() -> torch.nn.Module:
        torchvision_ops.declare()
        import timm

        return awake(timm.create_model(name, pretrained=False, num_classes=10, **arguments))

    return Model(f"timm {name}", make, _image(size), required)


SMALL = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
DECODER = {**SMALL, "max_position_embeddings": 64, "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def _tokens(**more: tuple[int, ...]) -> Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]:
    """Random token ids with an attention mask; `more` adds further inputs: ids for names ending in `ids`, floats otherwise."""

    def inputs() -> tuple[tuple[Any, ...], dict[str, Any]]:
        kwargs: dict[str, Any] = {"input_ids": torch.randint(3, 99, (2, 8)), "attention_mask": torch.ones(2, 8, dtype=torch.int64)}
        for name, shape in more.items():
            kwargs[name] = torch.randint(3, 99, shape) if name.endswith("ids") else torch.randn(shape)
        return (), kwargs

    return inputs


def _only(name: str, *shape: int) -> Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]:
    return lambda: ((), {name: torch.randn(shape)})


def _speech() -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (), {"input_features": torch.randn(2, 8, 32), "decoder_input_ids": torch.randint(3, 99, (2, 6))}


def _transformers(
    model: str,
    config: dict[str, Any],
    required: bool = False,
    inputs: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]] | None = None,
    config_class: str | None = None,
) -> Model:
    def make() -> torch.nn.Module:
        torchvision_ops.declare()
        import transformers

        cls = getattr(transformers, model)
        settings = getattr(transformers, config_class) if config_class else cls.config_class
        return awake(cls(settings(**config)))

    return Model(f"transformers {model}", make, inputs or _tokens(), required)


GPT2 = {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2}
T5 = {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
BART = {
    "vocab_size": 99,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
}
VIT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "image_size": 32, "patch_size": 8}
OPT = {**SMALL, "ffn_dim": 64, "word_embed_proj_dim": 32}
WHISPER = {
    **BART,
    "num_mel_bins": 8,
    "max_source_positions": 16,
    "max_target_positions": 32,
    "decoder_start_token_id": 1,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

VISION = [
    _torchvision("resnet18", 32, True),
    _torchvision("densenet121", 32, True),
    _torchvision("mobilenet_v3_small", 32, True),
    _torchvision("vit_b_16", 224, True),
    _torchvision("squeezenet1_1", 64, False),
    _torchvision("shufflenet_v2_x0_5", 32, False),
    _torchvision("efficientnet_b0", 32, False),
    _torchvision("regnet_y_400mf", 32, False),
    _torchvision("convnext_tiny", 32, False),
    _torchvision("swin_t", 64, False),
    _torchvision("googlenet", 64, False),
    _torchvision("mnasnet0_5", 32, False),
    _torchvision("vgg11_bn", 32, False),
    _torchvision("alexnet", 64, False),
    _timm("resnext101_32x8d", 32, True),
    _timm("convnext_tiny", 32, True),
    _timm("efficientnet_b0", 32, False),
    _timm("deit_tiny_patch16_224", 224, False),
    _timm("swin_tiny_patch4_window7_224", 224, False),
    _timm("regnetx_002", 32, False),
    _timm("mixer_s32_224", 224, False),
    _timm("vit_tiny_patch16_224", 224, False),
    _timm("mobilenetv2_050", 32, False),
    _timm("mobilevit_xxs", 64, False),
    _timm("resmlp_12_224", 224, False),
    _timm("poolformer_s12", 64, False),
    _timm("dla34", 64, False),
    _timm("hrnet_w18_small", 64, False),
    _timm("ghostnet_050", 64, False),
    _timm("gmlp_s16_224", 224, False),
    _timm("levit_128s", 224, False),
    _timm("xcit_nano_12_p16_224", 224, False),
    _timm("coat_tiny", 224, False),
    _timm("nf_regnet_b0", 64, False),
    _timm("repvgg_a0", 64, False),
    _timm("tinynet_e", 64, False),
]

LANGUAGE = [
    _transformers("BertModel", SMALL, True),
    _transformers("GPT2LMHeadModel", GPT2, True),
    _transformers("LlamaForCausalLM", DECODER, True),
    _transformers("T5ForConditionalGeneration", T5, True, _tokens(decoder_input_ids=(2, 6))),
    _transformers("RobertaModel", {**SMALL, "max_position_embeddings": 64}),
    _transformers("DistilBertModel", {"vocab_size": 99, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}),
    _transformers("AlbertModel", {**SMALL, "embedding_size": 16}),
    _transformers("ElectraModel", {**SMALL, "embedding_size": 16}),
    _transformers("OPTForCausalLM", OPT),
    _transformers("BloomForCausalLM", {"vocab_size": 99, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    _transformers("GPTNeoXForCausalLM", SMALL),
    _transformers("MistralForCausalLM", DECODER),
    _transformers("Qwen2ForCausalLM", DECODER),
    _transformers("Qwen3ForCausalLM", {**DECODER, "head_dim": 8}),
    _transformers("GemmaForCausalLM", {**DECODER, "head_dim": 8}),
    _transformers("Gemma2ForCausalLM", {**DECODER, "head_dim": 8}),
    _transformers("PhiForCausalLM", DECODER),
    _transformers("Phi3ForCausalLM", DECODER),
    _transformers("StableLmForCausalLM", DECODER),
    _transformers("Olmo2ForCausalLM", DECODER),
    _transformers("CohereForCausalLM", DECODER),
    _transformers("GPTJForCausalLM", {**GPT2, "rotary_dim": 4}),
    _transformers("BartForConditionalGeneration", BART, False, _tokens(decoder_input_ids=(2, 6))),
    _transformers("PegasusForConditionalGeneration", BART, False, _tokens(decoder_input_ids=(2, 6))),
    _transformers("MPNetModel", SMALL),
    _transformers("DebertaV2Model", SMALL),
    _transformers("ViTModel", VIT, False, _only("pixel_values", 2, 3, 32, 32)),
    _transformers("DeiTModel", VIT, False, _only("pixel_values", 2, 3, 32, 32)),
    _transformers("BeitModel", VIT, False, _only("pixel_values", 2, 3, 32, 32)),
    _transformers("Dinov2Model", VIT, False, _only("pixel_values", 2, 3, 32, 32)),
    _transformers("CLIPTextModel", {**SMALL, "max_position_embeddings": 64, "projection_dim": 16}),
    _transformers("WhisperModel", WHISPER, False, _speech),
    _transformers("SegformerModel", {"hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1]}, False, _only("pixel_values", 2, 3, 64, 64)),
    _transformers("ConvNextModel", {"hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1]}, False, _only("pixel_values", 2, 3, 64, 64)),
]

MODELS = VISION + LANGUAGE
