"""What is known of PyTorch's operators: flops, views, and what their backward passes read.

Flops are those that `torch.utils.flop_counter` counts: a multiply-add is two, of matrix products, convolutions,
attention and recurrent layers; other operators have none and cost the bytes they read and write. Names are those of
`aten/src/ATen/native/native_functions.yaml`, without overloads.
"""

import math
from collections.abc import Callable
from typing import Any

Shape = tuple[int, ...]
Get = Callable[..., Any]
"""Returns an argument by its names: the shape of a tensor, a list of shapes, or a number, text or None as it is."""


def names(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


class EquationError(ValueError):
    """An equation of `einsum` that is not read."""


def _product(get: Get, out: Shape) -> float:
    """Return the flops of a matrix product, in which a number of the output is a sum over the first factor's rows."""
    names = ("mat1", "batch1", "mat", "input", "self", "x")
    first: Shape = next(shape for name in names if (shape := get(name)) is not None)
    return 2.0 * math.prod(out) * first[-1]


def _summed_product(get: Get, out: Shape) -> float:
    factor: Shape = get("batch1")
    return 2.0 * math.prod(factor) * out[-1]


def _convolution(get: Get, out: Shape) -> float:
    """Every weight meets every position of the output, or of the input where it is transposed."""
    inputs: Shape = get("input", "self")
    weight: Shape = get("weight")
    positions = inputs if get("transposed") is True else out
    rank = len(weight) - 2
    batch = inputs[0] if len(inputs) > rank + 1 else 1
    return 2.0 * batch * math.prod(positions[len(positions) - rank :]) * math.prod(weight)


def _transposed_convolution(get: Get, out: Shape) -> float:
    return _convolution(lambda *names: True if names == ("transposed",) else get(*names), out)


def _attention(get: Get, out: Shape) -> float:
    """Scores and their weighted sum over all pairs, masked ones too."""
    query: Shape = get("query")
    key: Shape = get("key")
    value: Shape = get("value")
    return 2.0 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def _recurrent(get: Get, out: Shape) -> float:
    """Every step multiplies with every matrix."""
    inputs: Shape = get("input", "data")
    shapes: list[Shape] = get("params")
    matrices = sum(math.prod(shape) for shape in shapes if len(shape) == 2)
    return 2.0 * math.prod(inputs[:-1]) * matrices


def _recurrent_cell(get: Get, out: Shape) -> float:
    inputs: Shape = get("input")
    matrices: list[Shape] = [get("w_ih"), get("w_hh")]
    return 2.0 * math.prod(inputs[:-1]) * sum(map(math.prod, matrices))


def _einsum(get: Get, out: Shape) -> float:
    """Products of two factors from left to right, each over all letters of both."""
    equation, factors = get("equation"), get("tensors")
    inputs, _, output = equation.replace(" ", "").partition("->")
    letters = inputs.split(",")
    if "." in equation or len(letters) != len(factors) or any(map(_mismatch, letters, factors)):
        raise EquationError(f"the equation {equation[:40]!r} is of a type that is not supported")
    size = {
        letter: n for term, shape in zip(letters, factors, strict=True) for letter, n in zip(term, shape, strict=True)
    }
    total, have = 0.0, set(letters[0])
    for i, term in enumerate(letters[1:], start=1):
        both = have | set(term)
        total += 2.0 * math.prod(size[letter] for letter in both)
        needed = set(output).union(*letters[i + 1 :])
        have = both & needed
    return total


def _mismatch(term: str, shape: Shape) -> bool:
    return len(term) != len(shape)


def _bilinear(get: Get, out: Shape) -> float:
    weight: Shape = get("weight")
    return 2.0 * math.prod(out[:-1]) * weight[0] * weight[2] * (weight[1] + 1)


def _distances(get: Get, out: Shape) -> float:
    points: Shape = get("x1")
    return 2.0 * math.prod(out) * points[-1]


def _encoder_layer(get: Get, out: Shape) -> float:
    """A whole layer of `torch.nn.TransformerEncoder` in one operator: attention and two linear layers."""
    source: Shape = get("src")
    width: int = get("embed_dim")
    weights: list[Shape] = [get("ffn_weight_1"), get("ffn_weight_2")]
    tokens = math.prod(source[:-1])
    attention = 2.0 * tokens * width * 4 * width + 4.0 * tokens * source[-2] * width
    return attention + 2.0 * tokens * sum(map(math.prod, weights))


def _self_attention(get: Get, out: Shape) -> float:
    query: Shape = get("query")
    key: Shape = get("key")
    width: int = get("embed_dim")
    tokens = math.prod(query[:-1])
    return 2.0 * tokens * width * 2 * width + 4.0 * math.prod(key[:-1]) * width * width + 4.0 * tokens * key[-2] * width


FLOPS: dict[str, Callable[[Get, Shape], float]] = {
    **dict.fromkeys(
        ("mm", "bmm", "matmul", "addmm", "baddbmm", "linear", "addmv", "mv", "dot", "vdot", "inner",
         "_int_mm", "_scaled_mm", "_addmm_activation", "_weight_int8pack_mm", "linalg_vecdot",
         "_grouped_mm", "_scaled_grouped_mm"),
        _product,
    ),
    "addbmm": _summed_product,
    **dict.fromkeys(
        ("conv1d", "conv2d", "conv3d", "convolution", "_convolution", "convolution_overrideable",
         "cudnn_convolution", "mkldnn_convolution", "_slow_conv2d_forward", "slow_conv3d", "_conv_depthwise2d",
         "conv_depthwise3d", "thnn_conv2d"),
        _convolution,
    ),
    **dict.fromkeys(
        ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "slow_conv_transpose2d", "slow_conv_transpose3d",
         "cudnn_convolution_transpose"),
        _transposed_convolution,
    ),
    **dict.fromkeys(
        ("scaled_dot_product_attention", "_scaled_dot_product_flash_attention",
         "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_efficient_attention",
         "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_fused_attention_overrideable",
         "_scaled_dot_product_attention_math"),
        _attention,
    ),
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), _recurrent),
    **dict.fromkeys(("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"), _recurrent_cell),
    **dict.fromkeys(("cdist", "_cdist_forward"), _distances),
    "einsum": _einsum,
    "bilinear": _bilinear,
    "_transformer_encoder_layer_fwd": _encoder_layer,
    "_native_multi_head_attention": _self_attention,
}  # fmt: skip
"""Flops of the operators that have any, of their arguments and the shape of their output."""

RECURRENT = frozenset(name for name, formula in FLOPS.items() if formula is _recurrent)
"""Layers that run step by step."""

FUSED_ATTENTION = frozenset(name for name, formula in FLOPS.items() if formula is _attention)
"""Kernels that never write the scores and do their products again in the backward pass."""

VIEWS = names(
    "view view_as _unsafe_view _reshape_alias expand expand_as permute transpose t numpy_T mT mH adjoint swapaxes "
    "swapdims movedim moveaxis unsqueeze squeeze slice select narrow narrow_copy diagonal split split_with_sizes chunk "
    "unsafe_chunk unsafe_split unsafe_split_with_sizes tensor_split hsplit vsplit dsplit unbind unflatten alias detach "
    "detach_ unfold as_strided real imag view_as_real view_as_complex lift lift_fresh broadcast_to squeeze_ unsqueeze_ "
    "transpose_ t_ lift_fresh_copy resolve_conj resolve_neg conj _conj set_ positive atleast_1d atleast_2d atleast_3d"
)
"""Operators whose output is (a part of) their input under another name."""

VIEWS_IF_CONTIGUOUS = names("reshape flatten contiguous ravel reshape_as")
"""Operators that copy where the elements of their input lie in another order."""

NOTHING_IN_INFERENCE = names("dropout dropout_ feature_dropout alpha_dropout feature_alpha_dropout native_dropout")
"""Operators that hand on their input unless their argument `train` says otherwise."""

CASTS = names("to _to_copy type_as _autocast_to_reduced_precision")
"""Operators that copy where format or device change."""

COPIES = names(
    "cat concat concatenate stack hstack vstack dstack column_stack clone copy copy_ pad constant_pad_nd reshape "
    "flatten contiguous ravel reshape_as repeat repeat_interleave tile roll flip rot90 index_select gather index "
    "embedding slice_scatter select_scatter index_put index_put_ index_copy index_copy_ scatter scatter_ index_add "
    "index_add_ scatter_add scatter_add_ scatter_reduce masked_scatter sum mean neg where tril triu masked_fill "
    "masked_fill_ pixel_shuffle pixel_unshuffle upsample_nearest1d upsample_nearest2d upsample_nearest3d "
    "upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d upsample_linear1d _upsample_nearest_exact2d "
    "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
    "_adaptive_avg_pool2d cumsum cumsum_ im2col col2im reflection_pad1d reflection_pad2d replication_pad1d "
    "replication_pad2d channel_shuffle take take_along_dim diff to _to_copy type_as embedding_bag _embedding_bag rsub "
    "zeros_like ones_like full_like new_zeros new_ones new_full new_empty empty_like fill fill_ zero_ trace "
    "diag_embed diag nan_to_num meshgrid cartesian_prod block_diag unfold_copy "
    "_padded_dense_to_jagged_forward to_sparse dropout"
)
"""Operators whose backward pass needs no numbers of the forward pass, or a few indices."""

ADDS = names("add add_ sub sub_ subtract _foreach_add")
"""Operators that hand their gradient on unchanged."""

KEEP_OUTPUT = names(
    "relu relu_ sigmoid sigmoid_ tanh tanh_ exp exp_ sqrt sqrt_ rsqrt rsqrt_ reciprocal softmax _softmax log_softmax "
    "_log_softmax _safe_softmax logsumexp cumprod prod threshold threshold_ expm1 tan special_expit leaky_relu "
    "leaky_relu_ elu elu_"
)
"""Operators whose backward pass reads their output alone."""

KEEP_INPUTS = names(
    "mul mul_ multiply div div_ divide pow pow_ square gelu gelu_ silu silu_ mish hardswish hardswish_ hardsigmoid "
    "hardtanh hardtanh_ relu6 relu6_ selu celu softplus log_sigmoid log_sigmoid_forward prelu _prelu_kernel glu log "
    "log2 log10 log1p sin cos sinc atan asin acos sinh cosh atan2 erf erfc erfinv abs abs_ sign layer_norm "
    "native_layer_norm rms_norm _fused_rms_norm group_norm native_group_norm instance_norm batch_norm "
    "_native_batch_norm_legit _native_batch_norm_legit_no_training _batch_norm_with_update native_batch_norm "
    "_batch_norm_impl_index cudnn_batch_norm max_pool1d max_pool2d max_pool3d max_pool2d_with_indices "
    "max_pool1d_with_indices max_pool3d_with_indices adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d max "
    "min amax amin topk sort kthvalue median mode maximum minimum clamp clamp_ clamp_min clamp_max clip norm "
    "linalg_vector_norm var std var_mean std_mean cosine_similarity lerp addcmul addcdiv outer cross grid_sampler "
    "grid_sampler_2d logit logaddexp hypot hardshrink softshrink cross_entropy_loss nll_loss nll_loss_forward "
    "nll_loss2d_forward nll_loss_nd mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy "
    "binary_cross_entropy_with_logits kl_div rrelu rrelu_with_noise exp2 polar complex _weight_norm "
    "_weight_norm_interface xlogy kron renorm fmod remainder _fft_r2c _fft_c2r _fft_c2c fft_rfft fft_irfft fft_fft "
    "fft_ifft fft_rfft2 fft_irfft2 fft_rfftn fft_irfftn fft_fft2 fft_ifft2 stft istft masked_select native_dropout "
    "bernoulli"
)
"""Operators whose backward pass reads their inputs."""

SCALED = names("mul mul_ multiply div div_ divide")
"""Of these, those whose backward pass reads nothing where the other factor is a number."""

WITHOUT_GRADIENT = names(
    "arange zeros ones full empty eye linspace scalar_tensor rand randn randint randperm rand_like randn_like "
    "randint_like normal multinomial eq ne lt le gt ge logical_and logical_or logical_not logical_xor bitwise_and "
    "bitwise_or bitwise_not bitwise_xor __and__ __or__ __xor__ isnan isinf isfinite isin any all argmax argmin argsort "
    "nonzero nonzero_numpy one_hot bucketize searchsorted histc bincount floor floor_divide ceil round trunc sym_size "
    "sym_stride sym_numel item _local_scalar_dense new_empty_strided empty_strided equal allclose unique_consecutive "
    "_unique2 count_nonzero tril_indices triu_indices __lshift__ __rshift__ bitwise_left_shift bitwise_right_shift "
    "empty_permuted random_ uniform_ normal_ bernoulli_ exponential_ signbit sgn"
)
"""Operators that no gradient passes."""

RANDOM = names(
    "rand randn randint randperm rand_like randn_like randint_like normal multinomial bernoulli bernoulli_ random_ "
    "uniform_ normal_ exponential_ poisson native_dropout dropout dropout_ feature_dropout alpha_dropout rrelu "
    "rrelu_with_noise"
)
"""Operators that give other numbers each time, so that they are no constants."""

LOOKUPS = names("embedding embedding_bag _embedding_bag index_select gather index take take_along_dim")
"""Operators that read as much of their first input as they write."""

PRICED = frozenset[str]().union(
    FLOPS,
    VIEWS,
    VIEWS_IF_CONTIGUOUS,
    NOTHING_IN_INFERENCE,
    CASTS,
    COPIES,
    ADDS,
    KEEP_OUTPUT,
    KEEP_INPUTS,
    WITHOUT_GRADIENT,
)
"""All that is known."""


def scores(query: Shape, key: Shape) -> float:
    """Return the flops of the scores of attention, which its backward pass computes again."""
    return 2.0 * math.prod(query) * key[-2]
