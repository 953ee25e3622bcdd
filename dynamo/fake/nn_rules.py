"""Rows for normalisation, convolution, pooling, losses, embedding and matmul. Layouts are those of eager's CPU and CUDA kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from dynamo.fake.layout import dense, formatted, iterate, like, numel, suggested_format
from dynamo.torch_facts import SHAPE_ERRORS_NAME_THE_OPERATOR

aten = torch.ops.aten
Tensor = torch.Tensor
Device = torch.device
_SINGLE = (torch.float16, torch.bfloat16)


def _stat_dtype(device: Device, x: Tensor, weight: Tensor | None) -> torch.dtype:
    """Saved mean and rstd: float32 for half inputs on GPUs, the parameters' dtype on CPUs."""
    if device.type != "cpu":
        return torch.float32 if x.dtype in _SINGLE else x.dtype
    return weight.dtype if weight is not None else x.dtype


def _layer_norm(device: Device, x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> Any:
    axis = x.dim() - len(shape)
    if axis < 0 or tuple(x.shape[axis:]) != tuple(shape) or not x.dtype.is_floating_point:
        return NotImplemented
    if weight is not None and tuple(weight.shape) != tuple(shape):
        return NotImplemented
    stat = (*x.shape[:axis], *(1 for _ in shape))
    dtype = _stat_dtype(device, x, weight)
    return dense(x.shape, x.dtype), dense(stat, dtype), dense(stat, dtype)


def _layer_norm_backward(
    device: Device,
    grad: Tensor,
    x: Tensor,
    shape: Sequence[int],
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mask: Sequence[bool],
) -> Any:
    return (
        dense(x.shape, x.dtype) if mask[0] else None,
        dense(shape, weight.dtype) if mask[1] and weight is not None else None,
        dense(shape, bias.dtype) if mask[2] and bias is not None else None,
    )


def _group_norm(
    device: Device, x: Tensor, weight: Tensor | None, bias: Tensor | None, n: int, c: int, hw: int, groups: int, eps: float
) -> Any:
    if c % groups or x.dim() < 2 or not x.dtype.is_floating_point:
        return NotImplemented
    dtype = _stat_dtype(device, x, weight)
    fmt = suggested_format(x) if device.type == "cpu" else torch.contiguous_format
    return formatted(x.shape, x.dtype, fmt), dense((n, groups), dtype), dense((n, groups), dtype)


def _batch_norm(
    device: Device,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    if x.dim() < 2 or not x.dtype.is_floating_point:
        return NotImplemented
    dtype = _stat_dtype(device, x, weight if weight is not None else running_mean)
    stats = x.shape[1] if training or device.type != "cpu" else 0
    if device.type == "cpu":
        fmt = torch.contiguous_format if x.is_contiguous() else suggested_format(x)
        out = formatted(x.shape, x.dtype, fmt)
    else:
        out = like(x)
    return out, dense((stats,), dtype), dense((stats,), dtype)


def _batch_norm_functional(device: Device, x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Any, var: Any, *rest: Any) -> Any:
    outs = _batch_norm(device, x, weight, bias, mean, var, *rest)
    if outs is NotImplemented or mean is None or var is None:
        return NotImplemented
    return (*outs, dense(mean.shape, mean.dtype), dense(var.shape, var.dtype))


def _batch_norm_no_stats(
    device: Device, x: Tensor, weight: Tensor | None, bias: Tensor | None, training: bool, momentum: float, eps: float
) -> Any:
    return _batch_norm(device, x, weight, bias, None, None, training, momentum, eps)


def _batch_norm_backward(
    device: Device,
    grad: Tensor,
    x: Tensor,
    weight: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    mean: Tensor | None,
    invstd: Tensor | None,
    train: bool,
    eps: float,
    mask: Sequence[bool],
) -> Any:
    if device.type != "cpu":
        return NotImplemented
    dtype = weight.dtype if weight is not None else x.dtype
    fmt = torch.contiguous_format if x.is_contiguous() else suggested_format(x)
    return (
        formatted(x.shape, x.dtype, fmt) if mask[0] else None,
        dense((x.shape[1],), dtype) if mask[1] else None,
        dense((x.shape[1],), dtype) if mask[2] else None,
    )


def _cudnn_batch_norm(device: Device, x: Tensor, weight: Tensor, bias: Tensor | None, mean: Any, var: Any, training: bool, *_: Any) -> Any:
    """The last result is cuDNN's scratch space; only its size is made up."""
    stats = x.shape[1] if training else 0
    out = formatted(x.shape, x.dtype, suggested_format(x))
    return out, dense((stats,), weight.dtype), dense((stats,), weight.dtype), dense((0,), torch.uint8)


def _cudnn_batch_norm_backward(device: Device, x: Tensor, grad: Tensor, weight: Tensor, *_: Any) -> Any:
    return formatted(x.shape, x.dtype, suggested_format(x)), dense(weight.shape, weight.dtype), dense(weight.shape, weight.dtype)


def _goes_to_mkldnn(
    x: Tensor, weight: Tensor, stride: Sequence[int], dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int
) -> bool:
    """`ConvParams::use_mkldnn`: small volumes and single kernels of float32 are left to the native kernels."""
    if transposed and any(pad >= step for pad, step in zip(output_padding, stride, strict=True)):
        return False
    if x.dtype is not torch.float32:
        return x.dtype in (torch.bfloat16, torch.float16)
    is_plain = max(stride) == max(dilation) == 1 and x.shape[0] < 16 and weight.shape[-2:] == (1, 1)
    if is_plain and torch.get_num_threads() == 1:
        return False
    return groups > 1 or min(weight.shape[-2:]) > 3 or x.shape[0] > 1 or numel(x.shape[:4]) > 20480


def _conv_format(device: Device, x: Tensor, weight: Tensor, *how: Any) -> torch.memory_format:
    """`determine_backend_memory_format` for mkldnn, the native kernels and cuDNN. Native ones go channels last for images alone."""
    if device.type == "cpu" and x.dim() == 5 and not _goes_to_mkldnn(x, weight, *how):
        return torch.contiguous_format
    if device.type != "cpu" and torch.float64 in (x.dtype, weight.dtype):
        return torch.contiguous_format
    if x.dim() == 3:
        x, weight = x.contiguous().unsqueeze(2), weight.unsqueeze(2)  # a permuted sequence isn't taken for an image that is channels last
    fmt = suggested_format(x)
    return fmt if fmt is not torch.contiguous_format else suggested_format(weight)


def _conv_shape(
    x: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> list[int]:
    def at(values: Sequence[int], i: int) -> int:
        return values[i] if len(values) > 1 else values[0]

    shape = [x.shape[0], weight.shape[1] * groups if transposed else weight.shape[0]]
    for i, size in enumerate(x.shape[2:]):
        reach = at(dilation, i) * (weight.shape[i + 2] - 1)
        if transposed:
            shape.append((size - 1) * at(stride, i) - 2 * at(padding, i) + reach + at(output_padding, i) + 1)
        else:
            shape.append((size + 2 * at(padding, i) - reach - 1) // at(stride, i) + 1)
    return shape


def _convolution(
    device: Device,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    channels = weight.shape[0] if transposed else weight.shape[1] * groups
    if x.dim() != weight.dim() or not 3 <= x.dim() <= 5 or x.shape[1] != channels or x.dtype is not weight.dtype:
        return NotImplemented
    if (bias is not None and bias.dtype is not x.dtype) or min(stride) <= 0:
        return NotImplemented
    shape = _conv_shape(x, weight, stride, padding, dilation, transposed, output_padding, groups)
    if min(shape) <= 0 or x.numel() == 0:
        return NotImplemented
    if x.dim() == 3:
        return formatted(
            (*shape[:2], 1, shape[2]), x.dtype, _conv_format(device, x, weight, stride, dilation, transposed, output_padding, groups)
        ).squeeze(2)
    return formatted(shape, x.dtype, _conv_format(device, x, weight, stride, dilation, transposed, output_padding, groups))


def _convolution_backward(
    device: Device,
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    mask: Sequence[bool],
) -> Any:
    if x.numel() == 0:
        return NotImplemented
    out_channels = weight.shape[1] * groups if transposed else weight.shape[0]
    line = x.dim() == 3
    fmt = _conv_format(device, x, weight, stride, dilation, transposed, output_padding, groups)

    def laid(t: Tensor) -> Tensor:
        if line:
            return formatted((*t.shape[:2], 1, t.shape[2]), t.dtype, fmt).squeeze(2)
        return formatted(t.shape, t.dtype, fmt)

    return (
        laid(x) if mask[0] else None,
        laid(weight) if mask[1] else None,
        dense((out_channels,), x.dtype) if mask[2] else None,
    )


def _pair(values: Sequence[int], default: Sequence[int] = ()) -> tuple[int, int]:
    values = values or default
    return (values[0], values[0]) if len(values) == 1 else (values[0], values[1])


def _pooled(size: int, kernel: int, pad: int, stride: int, dilation: int, ceil: bool) -> int:
    """aten/src/ATen/native/Pool.h, pooling_output_shape."""
    out = (size + 2 * pad - dilation * (kernel - 1) - 1 + (stride - 1 if ceil else 0)) // stride + 1
    if ceil and (out - 1) * stride >= size + pad:
        out -= 1
    return out


def _pool_shape(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil: bool,
) -> list[int] | None:
    k, p, d = _pair(kernel), _pair(padding), _pair(dilation)
    s = _pair(stride, kernel)
    if max(map(len, (kernel, padding, dilation, stride))) > 2 or any(2 * pad > size for pad, size in zip(p, k, strict=True)) or 0 in s:
        return None
    sizes = [_pooled(x.shape[i - 2], k[i], p[i], s[i], d[i], ceil) for i in (0, 1)]
    return [*x.shape[:-2], *sizes] if min(sizes) > 0 else None


def _max_pool(
    device: Device,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Any:
    shape = _pool_shape(x, kernel, stride, padding, dilation, ceil_mode) if x.dim() == 4 and x.numel() else None
    if shape is None:
        return NotImplemented
    fmt = suggested_format(x)
    return formatted(shape, x.dtype, fmt), formatted(shape, torch.int64, fmt)


def _avg_pool(
    device: Device,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    shape = _pool_shape(x, kernel, stride, padding, (1,), ceil_mode) if x.dim() == 4 and x.numel() else None
    if shape is None or divisor_override == 0:
        return NotImplemented
    return formatted(shape, x.dtype, suggested_format(x))


def _pool_backward(device: Device, grad: Tensor, x: Tensor, *_: Any, **__: Any) -> Any:
    return formatted(x.shape, x.dtype, suggested_format(x)) if x.dim() == 4 else NotImplemented


def _channel_shuffle(device: Device, x: Tensor, groups: int) -> Any:
    if not x.numel() or not (x.dim() == 4 or device.type == "cpu"):
        return NotImplemented
    return formatted(x.shape, x.dtype, suggested_format(x))


def _edge_pad(*, reflects: bool) -> Callable[..., Any]:
    """Reflection and replication: images and volumes keep their format. The rest, and what is refused, is the meta kernel's."""

    def rule(device: Device, x: Tensor, pad: Sequence[int]) -> Any:
        spatial = len(pad) // 2
        shape = list(x.shape)
        for k in range(spatial):
            before, after = pad[2 * k : 2 * k + 2]
            at = x.dim() - 1 - k
            if at < 0 or (reflects and max(before, after) >= shape[at]):
                return NotImplemented
            shape[at] += before + after
        if min(shape) < 1 or device.type != "cpu" or x.dim() - spatial not in (1, 2) or x.numel() == 0:
            return NotImplemented
        return formatted(shape, x.dtype, suggested_format(x))

    return rule


def _edge_pad_backward(device: Device, grad: Tensor, x: Tensor, pad: Sequence[int]) -> Any:
    if device.type != "cpu" or x.dim() != len(pad) // 2 + 2 or grad.dim() != x.dim():
        return NotImplemented
    return formatted(x.shape, x.dtype, suggested_format(x))


def _loss_backward(op: Any) -> Callable[..., Any]:
    """ATen writes to new, row-major memory of the operand's type. Torch's own rules promote, and divide by the number of elements, which
    may be zero."""

    def rule(device: Device, grad: Tensor, x: Tensor, target: Tensor, reduction: int, *rest: Any) -> Any:
        if x.shape == target.shape and (not x.numel() or (x.dtype is target.dtype is grad.dtype and grad.shape in ((), x.shape))):
            return dense(x.shape, x.dtype)
        same = x.dtype is target.dtype
        return NotImplemented if same else op(grad.to(x.dtype), x, target.to(x.dtype), reduction, *rest)

    return rule


def _bce(device: Device, x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1) -> Any:
    """ATen multiplies in the memory of the loss, which is allocated like the first operand: neither layout nor type of others count."""
    if weight is not None and weight.dtype is not x.dtype:
        return aten.binary_cross_entropy.default(x, target, weight.to(x.dtype), reduction)
    is_plain = x.shape == target.shape and x.dtype is target.dtype and x.dtype.is_floating_point
    return like(x) if is_plain and reduction == 0 else NotImplemented


def _bce_backward(device: Device, grad: Tensor, x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1) -> Any:
    return like(x) if x.shape == target.shape and x.dtype is target.dtype is grad.dtype else NotImplemented


def _soft_margin(device: Device, x: Tensor, target: Tensor, reduction: int = 1) -> Any:
    """Likewise of the target's."""
    if target.dtype is not x.dtype:
        return aten.soft_margin_loss.default(x, target.to(x.dtype), reduction)
    is_plain = reduction == 0 and x.shape == target.shape and x.dtype.is_floating_point
    return iterate((target,), False, x.dtype) if is_plain else NotImplemented


def _bce_logits(device: Device, x: Tensor, target: Tensor, *rest: Any) -> Any:
    """ATen computes in the memory of `1 - target`, so the result has its dtype; torch 2.11's own rule promotes all operands."""
    others = [t for t in (x, *rest) if isinstance(t, Tensor)]
    if all(t.dtype is target.dtype for t in others) or not all(t.is_floating_point() for t in (target, *others)):
        return NotImplemented
    args = [t.to(target.dtype) if isinstance(t, Tensor) else t for t in (x, target, *rest)]
    return aten.binary_cross_entropy_with_logits.default(*args)


def _log_sigmoid(device: Device, x: Tensor) -> Any:
    return (dense(x.shape, x.dtype), dense(x.shape, x.dtype)) if device.type == "cpu" else NotImplemented


def _rrelu(device: Device, x: Tensor, noise: Tensor, *_: Any, **__: Any) -> Any:
    return dense(x.shape, x.dtype)


def _addr(device: Device, x: Tensor, column: Tensor, row: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    if device.type != "cpu" or column.dim() != 1 or row.dim() != 1 or not x.dtype is column.dtype is row.dtype:
        return NotImplemented
    out = iterate((x, column.unsqueeze(1), row), False, x.dtype)
    return out if tuple(out.shape) == (*column.shape, *row.shape) else NotImplemented


def _pixel_shuffle(device: Device, x: Tensor, factor: int) -> Any:
    if x.dim() != 4 or factor <= 0 or x.shape[1] % (factor * factor):
        return NotImplemented
    n, c, h, w = x.shape
    return formatted((n, c // (factor * factor), h * factor, w * factor), x.dtype, suggested_format(x))


def _pixel_unshuffle(device: Device, x: Tensor, factor: int) -> Any:
    if x.dim() != 4 or factor <= 0 or x.shape[2] % factor or x.shape[3] % factor:
        return NotImplemented
    n, c, h, w = x.shape
    return formatted((n, c * factor * factor, h // factor, w // factor), x.dtype, suggested_format(x))


def _second_like(device: Device, grad: Tensor, x: Tensor, *_: Any, **__: Any) -> Tensor:
    return dense(x.shape, x.dtype)


def _nll(device: Device, x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int) -> Any:
    if x.dim() not in (1, 2) or target.dim() != x.dim() - 1 or (x.dim() == 2 and target.shape[0] != x.shape[0]):
        return NotImplemented
    return dense(target.shape if reduction == 0 else (), x.dtype), dense((), x.dtype)


def _nll_image(device: Device, x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int) -> Any:
    if device.type != "cpu" or x.dim() != 4 or tuple(target.shape) != (x.shape[0], *x.shape[2:]):
        return NotImplemented
    return dense(target.shape if reduction == 0 else (), x.dtype), dense((), x.dtype)


def _nll_backward(device: Device, grad: Tensor, x: Tensor, *_: Any) -> Any:
    return dense(x.shape, x.dtype)


def _embedding(device: Device, weight: Tensor, indices: Tensor, *_: Any) -> Any:
    if weight.dim() != 2 or indices.dtype not in (torch.int64, torch.int32):
        return NotImplemented
    return dense((*indices.shape, weight.shape[1]), weight.dtype)


def _embedding_backward(device: Device, grad: Tensor, indices: Tensor, rows: int, *_: Any) -> Any:
    return dense((rows, grad.shape[-1]), grad.dtype)


def _mm(device: Device, a: Tensor, b: Tensor, *, name: str = "mm") -> Any:
    if a.dim() != 2 or b.dim() != 2 or a.dtype is not b.dtype:
        return NotImplemented
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"{name + ': ' if SHAPE_ERRORS_NAME_THE_OPERATOR else ''}mat1 and mat2 shapes cannot be multiplied "
            f"({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})"
        )
    return dense((a.shape[0], b.shape[1]), a.dtype)


def _addmm(device: Device, bias: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    if bias.dtype is not a.dtype or bias.dim() > 2:
        return NotImplemented
    out = _mm(device, a, b, name="addmm")
    if out is NotImplemented or (bias.dim() and bias.shape[-1] not in (1, out.shape[1])):
        return NotImplemented
    return out if bias.dim() < 2 or bias.shape[0] in (1, out.shape[0]) else NotImplemented


def _bmm(device: Device, a: Tensor, b: Tensor) -> Any:
    if a.dim() != 3 or b.dim() != 3 or a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1] or a.dtype is not b.dtype:
        return NotImplemented
    return dense((a.shape[0], a.shape[1], b.shape[2]), a.dtype)


def _softmax(device: Device, x: Tensor, dim: int, half_to_float: bool) -> Any:
    is_known = x.dtype.is_floating_point or not x.numel()  # without elements eager takes any type
    if not is_known or not -x.dim() <= dim < max(x.dim(), 1):
        return NotImplemented
    return dense(x.shape, torch.float32 if half_to_float else x.dtype)


def _safe_softmax(device: Device, x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Any:
    return _softmax(device, x, dim, False) if dtype in (None, x.dtype) and x.is_contiguous() else NotImplemented


def _softmax_backward(device: Device, grad: Tensor, out: Tensor, dim: int, dtype: torch.dtype) -> Any:
    return dense(grad.shape, dtype)


def _linear(device: Device, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    if weight.dim() != 2 or not x.dim() or x.shape[-1] != weight.shape[1] or x.dtype is not weight.dtype:
        return NotImplemented
    return dense((*x.shape[:-1], weight.shape[0]), x.dtype)


def _batch_norm_with_update(device: Device, x: Tensor, weight: Any, bias: Any, mean: Tensor, var: Tensor, *numbers: float) -> Any:
    outs = _batch_norm(device, x, weight, bias, mean, var, True, *numbers) if device.type == "cpu" else NotImplemented
    return outs if outs is NotImplemented else (*outs, dense((0,), torch.uint8))


def _max_unpool(device: Device, x: Tensor, indices: Tensor, sizes: Sequence[int]) -> Any:
    if device.type != "cpu" or x.dim() != 4 or len(sizes) != 2 or x.shape != indices.shape or not x.numel():
        return NotImplemented
    return formatted((*x.shape[:2], *sizes), x.dtype, suggested_format(x)) if indices.dtype is torch.int64 else NotImplemented


def _in_columns(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Matrices as LAPACK has them."""
    return dense((*shape[:-2], shape[-1], shape[-2]), dtype).mT


def _svd(device: Device, x: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None) -> Any:
    """torch's meta kernel takes tensors of unknown devices for those of a GPU, where the last result is row-major."""
    if x.dim() < 2 or not (x.dtype.is_floating_point or x.dtype.is_complex):
        return NotImplemented
    (*batch, m, n), k = x.shape, min(x.shape[-2:])
    values = dense((*batch, k), x.dtype.to_real())
    if not compute_uv:
        return dense((0,), x.dtype), values, dense((0,), x.dtype)
    left, right = (*batch, m, m if full_matrices else k), (*batch, n if full_matrices else k, n)
    return _in_columns(left, x.dtype), values, (_in_columns if device.type == "cpu" else dense)(right, x.dtype)


def _householder(device: Device, x: Tensor, tau: Tensor) -> Any:
    return _in_columns(x.shape, x.dtype) if x.dim() >= 2 and x.dtype is tau.dtype else NotImplemented


def _ormqr(device: Device, x: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Any:
    return _in_columns(other.shape, x.dtype) if other.dim() >= 2 and x.dtype is tau.dtype is other.dtype else NotImplemented


def _linalg_eig(device: Device, x: Tensor) -> Any:
    if x.dim() < 2 or not (x.dtype.is_floating_point or x.dtype.is_complex):
        return NotImplemented
    dtype = x.dtype.to_complex()
    return dense(x.shape[:-1], dtype), dense(x.shape, dtype).mT


ROWS: dict[Any, Any] = {
    aten.native_layer_norm.default: _layer_norm,
    aten.native_layer_norm_backward.default: _layer_norm_backward,
    aten.native_group_norm.default: _group_norm,
    aten.native_batch_norm.default: _batch_norm,
    aten._native_batch_norm_legit.default: _batch_norm,
    aten._batch_norm_with_update.default: _batch_norm_with_update,
    aten._native_batch_norm_legit_functional.default: _batch_norm_functional,
    aten._native_batch_norm_legit.no_stats: _batch_norm_no_stats,
    aten.cudnn_batch_norm.default: _cudnn_batch_norm,
    aten.cudnn_batch_norm_backward.default: _cudnn_batch_norm_backward,
    aten.native_batch_norm_backward.default: _batch_norm_backward,
    aten.convolution.default: _convolution,
    aten.convolution_backward.default: _convolution_backward,
    aten.max_pool2d_with_indices.default: _max_pool,
    aten.max_pool2d_with_indices_backward.default: _pool_backward,
    aten.max_unpool2d.default: _max_unpool,
    aten.avg_pool2d.default: _avg_pool,
    aten.avg_pool2d_backward.default: _pool_backward,
    aten.pixel_shuffle.default: _pixel_shuffle,
    aten.pixel_unshuffle.default: _pixel_unshuffle,
    aten.channel_shuffle.default: _channel_shuffle,
    aten.native_channel_shuffle.default: _channel_shuffle,
    aten.reflection_pad2d.default: _edge_pad(reflects=True),
    aten.reflection_pad3d.default: _edge_pad(reflects=True),
    aten.replication_pad2d.default: _edge_pad(reflects=False),
    aten.replication_pad3d.default: _edge_pad(reflects=False),
    aten.reflection_pad2d_backward.default: _edge_pad_backward,
    aten.reflection_pad3d_backward.default: _edge_pad_backward,
    aten.replication_pad2d_backward.default: _edge_pad_backward,
    aten.replication_pad3d_backward.default: _edge_pad_backward,
    aten.binary_cross_entropy.default: _bce,
    aten.binary_cross_entropy_backward.default: _bce_backward,
    aten.soft_margin_loss.default: _soft_margin,
    aten.binary_cross_entropy_with_logits.default: _bce_logits,
    aten.log_sigmoid_forward.default: _log_sigmoid,
    aten.mse_loss_backward.default: _loss_backward(aten.mse_loss_backward.default),
    aten.huber_loss_backward.default: _loss_backward(aten.huber_loss_backward.default),
    aten.smooth_l1_loss_backward.default: _loss_backward(aten.smooth_l1_loss_backward.default),
    aten.rrelu_with_noise.default: _rrelu,
    aten.addr.default: _addr,
    aten.multi_margin_loss_backward.default: _second_like,
    aten.multilabel_margin_loss_backward.default: _second_like,
    aten.fractional_max_pool3d_backward.default: _second_like,
    aten.nll_loss_forward.default: _nll,
    aten.nll_loss2d_forward.default: _nll_image,
    aten.nll_loss_backward.default: _nll_backward,
    aten.embedding.default: _embedding,
    aten.embedding_dense_backward.default: _embedding_backward,
    aten.mm.default: _mm,
    aten.addmm.default: _addmm,
    aten.bmm.default: _bmm,
    aten._softmax.default: _softmax,
    aten._log_softmax.default: _softmax,
    aten._safe_softmax.default: _safe_softmax,
    aten._softmax_backward_data.default: _softmax_backward,
    aten._log_softmax_backward_data.default: _softmax_backward,
    aten.linear.default: _linear,
    aten.linalg_eig.default: _linalg_eig,
    aten._linalg_svd.default: _svd,
    aten.linalg_householder_product.default: _householder,
    aten.ormqr.default: _ormqr,
}
