"""Decoder-only transformers: what tells them apart, and their operators."""

from dataclasses import dataclass

from solvers.importers.hugging_face.writer import Span, Tensor, Writer
from solvers.importers.workload import Mode


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention (DeepSeek-AI, "DeepSeek-V2", arXiv 2405.04434): the cache keeps `rank` + `rotary`.

    `query_rank` is None where queries are not compressed; `plain` and `rotary` are the widths of a head's key without
    and with positions.
    """

    rank: int
    query_rank: int | None
    plain: int
    rotary: int
    value: int


@dataclass(frozen=True, slots=True)
class Mixture:
    """Experts of `width`, `per_token` for each token, and one shared by all, whose weight may be a `shared_gate`."""

    experts: int
    per_token: int
    width: int
    shared_width: int = 0
    shared_gate: bool = False


@dataclass(frozen=True, slots=True)
class Decoder:
    """A decoder-only transformer.

    windows        tokens a layer's attention looks back, itself included; None is all
    mixtures       experts of a layer, or None where it has a feed-forward part of `feed_forward`
    positions      rows of a table of learned positions; 0 where queries and keys are rotated
    layer_norm     norms have biases; else root-mean-square norms
    gated          feed-forward parts have two widening matrices
    fused_qkv      queries, keys and values are one product; `fused_gate` the two widening matrices
    query_norm     queries and keys are normed, head by head
    post_norms     attention and feed-forward parts are normed before they are added too
    parallel       both read the block's input, and both are added
    labels         of a classifier of every token in place of the words, with `label_bias`; 0 without
    mtp            modules that predict further tokens in training (DeepSeek-V3)
    """

    name: str
    width: int
    num_layers: int
    vocabulary: int
    heads: int
    key_value_heads: int
    head_width: int
    feed_forward: int
    windows: tuple[int | None, ...]
    mixtures: tuple[Mixture | None, ...]
    positions: int = 0
    layer_norm: bool = False
    gated: bool = True
    fused_qkv: bool = False
    fused_gate: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    feed_forward_bias: bool = False
    query_norm: bool = False
    post_norms: bool = False
    parallel: bool = False
    latent: Latent | None = None
    has_head: bool = True
    tied: bool = False
    labels: int = 0
    label_bias: bool = False
    mtp: int = 0


def write_decoder(writer: Writer, shape: Decoder, tokens: int, context: int) -> None:
    """Write a decoder on `tokens` of each sequence; in decode one token with a cache of `context` before it."""
    rows = writer.batch * tokens
    writer.begin("embedding")
    x = table = writer.lookup("token embedding", shape.vocabulary, rows, shape.width)
    if shape.positions:
        positions = writer.lookup("position embedding", shape.positions, rows, shape.width)
        x = writer.add("embedding sum", x, positions)
    for i in range(shape.num_layers):
        writer.begin(f"block {i + 1}")
        x = _block(writer, shape, str(i + 1), x, i, _span(writer.mode, shape.windows[i], tokens, context))
    trunk = x
    writer.begin("output")
    x = writer.norm("final norm", x, bias=shape.layer_norm)
    head: Tensor | None = None
    if shape.has_head:
        x = head = writer.linear("output", x, shape.vocabulary, like=table if shape.tied else None)
    elif shape.labels:
        x = writer.linear("output labels", x, shape.labels, bias=shape.label_bias)
    if writer.mode is not Mode.TRAINING:
        return
    writer.loss(x)
    for i in range(shape.mtp if head is not None else 0):
        writer.begin(f"prediction module {i + 1}")
        name = f"module {i + 1}"
        nexts = writer.lookup(f"{name} embedding", shape.vocabulary, rows, shape.width, like=table)
        both = writer.pointwise(
            f"{name} concat",
            writer.norm(f"{name} embedding norm", nexts),
            writer.norm(f"{name} hidden norm", trunk),
            width=2 * shape.width,
        )
        y = writer.linear(f"{name} projection", both, shape.width)
        span = _span(writer.mode, shape.windows[-1], tokens, context)
        trunk = _block(writer, shape, name, y, shape.num_layers - 1, span)
        y = writer.norm(f"{name} final norm", trunk)
        assert head is not None
        writer.loss(writer.linear(f"{name} output", y, shape.vocabulary, like=table if shape.tied else head))


def _span(mode: Mode, window: int | None, tokens: int, context: int) -> Span:
    """Return what a layer's attention looks at; a kernel skips what is outside of its window."""
    if mode is Mode.DECODE:
        keys = context + 1 if window is None else min(context + 1, window)
        return Span(1, keys, cached=keys - 1, cache=keys)
    keys = tokens if window is None else min(tokens, window)
    return Span(tokens, keys, cache=keys if mode is Mode.PREFILL else 0)


def _block(writer: Writer, shape: Decoder, name: str, x: Tensor, i: int, span: Span) -> Tensor:
    attend = _attention if shape.latent is None else _latent_attention
    y = attend(writer, shape, name, writer.norm(f"{name} norm 1", x, bias=shape.layer_norm), span)
    if shape.post_norms:
        y = writer.norm(f"{name} attention norm", y)
    mixture = shape.mixtures[i]
    before = x if shape.parallel else writer.add(f"{name} attention add", y, x)
    normed = writer.norm(f"{name} norm 2", before, bias=shape.layer_norm)
    z = (
        _feed_forward(writer, shape, name, normed, shape.feed_forward)
        if mixture is None
        else _mixture(writer, shape, name, normed, mixture)
    )
    if shape.post_norms:
        z = writer.norm(f"{name} feed-forward norm", z)
    if shape.parallel:
        z = writer.add(f"{name} parallel add", z, y)
    return writer.add(f"{name} feed-forward add", z, before)


def _attention(writer: Writer, shape: Decoder, name: str, x: Tensor, span: Span) -> Tensor:
    query = shape.heads * shape.head_width
    key = shape.key_value_heads * shape.head_width
    inputs: tuple[Tensor, ...]
    if shape.fused_qkv:
        fused = writer.linear(f"{name} query, key, value", x, query + 2 * key, bias=shape.qkv_bias)
        inputs = (fused if shape.positions else writer.pointwise(f"{name} rotary", fused),)
    else:
        q, k, v = (
            writer.linear(f"{name} {what}", x, width, bias=shape.qkv_bias)
            for what, width in (("query", query), ("key", key), ("value", key))
        )
        if shape.query_norm:
            q = writer.norm(f"{name} query norm", q, parameters=shape.head_width)
            k = writer.norm(f"{name} key norm", k, parameters=shape.head_width)
        inputs = (writer.pointwise(f"{name} query rotary", q), writer.pointwise(f"{name} key rotary", k), v)
    y = writer.attention(
        f"{name} attention",
        inputs,
        span,
        heads=shape.heads,
        key_width=shape.head_width,
        value_width=shape.head_width,
        cache_width=2 * key,
    )
    return writer.linear(f"{name} attention output", y, shape.width, bias=shape.output_bias)


def _latent_attention(writer: Writer, shape: Decoder, name: str, x: Tensor, span: Span) -> Tensor:
    """Attend over compressed keys and values.

    A prompt's keys and values are expanded. A decoded token's query is projected onto the latents instead and the
    values are expanded after they are added up, so that the cache is read as it is (section 2.1 of the paper).
    """
    latent, heads = shape.latent, shape.heads
    assert latent is not None
    q = x
    if latent.query_rank is not None:
        q = writer.linear(f"{name} query down", x, latent.query_rank, bias=shape.qkv_bias)
        q = writer.norm(f"{name} query norm", q)
    q = writer.linear(f"{name} query", q, heads * (latent.plain + latent.rotary))
    q = writer.pointwise(f"{name} query rotary", q)
    compressed = writer.linear(f"{name} key and value down", x, latent.rank + latent.rotary, bias=shape.qkv_bias)
    normed = writer.norm(f"{name} key and value norm", compressed, parameters=latent.rank)
    kept = latent.rank + latent.rotary
    if writer.mode is Mode.DECODE:
        q = writer.per_head(f"{name} query to latent", q, heads, latent.plain, latent.rank, beside=latent.rotary)
        y = writer.attention(
            f"{name} attention",
            (q, normed),
            span,
            heads=heads,
            key_width=kept,
            value_width=latent.rank,
            cache_width=kept,
        )
        y = writer.per_head(f"{name} value from latent", y, heads, latent.rank, latent.value)
    else:
        inner = Tensor(normed.op, normed.rows, latent.rank)
        expanded = writer.linear(f"{name} key and value up", inner, heads * (latent.plain + latent.value))
        y = writer.attention(
            f"{name} attention",
            (q, expanded, normed),
            span,
            heads=heads,
            key_width=latent.plain + latent.rotary,
            value_width=latent.value,
            cache_width=kept,
        )
    return writer.linear(f"{name} attention output", y, shape.width, bias=shape.output_bias)


def _feed_forward(
    writer: Writer, shape: Decoder, name: str, x: Tensor, width: int, what: str = "feed-forward"
) -> Tensor:
    bias = shape.feed_forward_bias
    if shape.gated and shape.fused_gate:
        both = writer.linear(f"{name} {what} up", x, 2 * width, bias=bias)
        y = writer.pointwise(f"{name} {what} gate", both, width=width, keeps_inputs=True)
    elif shape.gated:
        gate = writer.linear(f"{name} {what} gate", x, width, bias=bias)
        up = writer.linear(f"{name} {what} up", x, width, bias=bias)
        y = writer.pointwise(f"{name} {what} activation", gate, up, keeps_inputs=True)
    else:
        up = writer.linear(f"{name} {what} up", x, width, bias=bias)
        y = writer.pointwise(f"{name} {what} activation", up, keeps_inputs=True)
    return writer.linear(f"{name} {what} down", y, shape.width, bias=bias)


def _mixture(writer: Writer, shape: Decoder, name: str, x: Tensor, mixture: Mixture) -> Tensor:
    y = writer.experts(name, x, experts=mixture.experts, per_token=mixture.per_token, width=mixture.width)
    if not mixture.shared_width:
        return y
    shared = _feed_forward(writer, shape, name, x, mixture.shared_width, "shared expert")
    if mixture.shared_gate:
        weight = writer.linear(f"{name} shared expert weight", x, 1)
        shared = writer.pointwise(f"{name} shared expert scale", shared, weight, keeps_inputs=True)
    return writer.add(f"{name} experts add", y, shared)
