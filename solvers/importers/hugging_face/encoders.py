"""Encoders: BERT, RoBERTa and vision transformers."""

from dataclasses import dataclass

from solvers.importers.hugging_face.writer import Span, Tensor, Writer
from solvers.importers.workload import Mode


@dataclass(frozen=True, slots=True)
class Encoder:
    """Blocks of attention over all tokens and a feed-forward part; `norm_first` norms before each, else after."""

    width: int
    num_layers: int
    heads: int
    feed_forward: int
    qkv_bias: bool = True
    norm_first: bool = False


@dataclass(frozen=True, slots=True)
class TextEncoder:
    """BERT or RoBERTa; `labels` are those of a head for a whole sequence, or for every token, 0 without."""

    name: str
    encoder: Encoder
    vocabulary: int
    positions: int
    types: int
    has_pooler: bool
    predicts_words: bool
    labels: int
    labels_tokens: bool
    tied: bool


@dataclass(frozen=True, slots=True)
class ImageEncoder:
    """A vision transformer on images of `patches` patches of `patch_inputs` numbers; `labels` 0 is without a head."""

    name: str
    encoder: Encoder
    patches: int
    patch_inputs: int
    pooler_width: int
    labels: int


def write_text_encoder(writer: Writer, shape: TextEncoder, tokens: int) -> None:
    """Write BERT or RoBERTa on `tokens` of each sequence."""
    rows, width = writer.batch * tokens, shape.encoder.width
    writer.begin("embedding")
    table = writer.lookup("token embedding", shape.vocabulary, rows, width)
    x = writer.add("position sum", table, writer.lookup("position embedding", shape.positions, rows, width))
    x = writer.add("type sum", x, writer.lookup("type embedding", shape.types, rows, width))
    x = writer.norm("embedding norm", x, bias=True)
    x = write_blocks(writer, shape.encoder, x, tokens)
    writer.begin("output")
    pooled: Tensor | None = None
    if shape.has_pooler:
        pooled = _pooler(writer, "pooler", x, width)
    result = x if pooled is None else pooled
    if shape.predicts_words:
        y = writer.linear("output transform", x, width, bias=True)
        y = writer.pointwise("output gelu", y, keeps_inputs=True)
        y = writer.norm("output norm", y, bias=True)
        # transformers has a second bias of the words, the same one where they are tied; else nothing reads it.
        unread = 0 if shape.tied else shape.vocabulary
        result = writer.linear(
            "output words", y, shape.vocabulary, bias=True, like=table if shape.tied else None, unread=unread
        )
    labels: Tensor | None = None
    if shape.labels:
        source = x if shape.labels_tokens else pooled
        if source is None:
            # RoBERTa's classifier has a pooler of its own, which is like BERT's.
            source = _pooler(writer, "classifier", x, width)
        labels = writer.linear("output labels", source, shape.labels, bias=True)
    if writer.mode is Mode.TRAINING:
        if shape.predicts_words or labels is None:
            writer.loss(result)
        if labels is not None:
            writer.loss(labels)


def _pooler(writer: Writer, name: str, x: Tensor, width: int) -> Tensor:
    """Write a layer over the first token of each sequence."""
    pooled = writer.linear(name, writer.select("first token", x, writer.batch), width, bias=True)
    return writer.pointwise(f"{name} tanh", pooled, keeps_output=True)


def write_image_encoder(writer: Writer, shape: ImageEncoder) -> None:
    """Write a vision transformer."""
    width, tokens = shape.encoder.width, shape.patches + 1
    writer.begin("embedding")
    x = writer.patches("patches", writer.batch * shape.patches, shape.patch_inputs, width)
    x = writer.with_positions("class token and positions", x, writer.batch * tokens, (tokens + 1) * width)
    x = write_blocks(writer, shape.encoder, x, tokens)
    writer.begin("output")
    x = writer.norm("final norm", x, bias=True)
    x = writer.select("class token", x, writer.batch)
    if shape.labels:
        x = writer.linear("output labels", x, shape.labels, bias=True)
    elif shape.pooler_width:
        x = writer.linear("pooler", x, shape.pooler_width, bias=True)
        x = writer.pointwise("pooler tanh", x, keeps_output=True)
    if writer.mode is Mode.TRAINING:
        writer.loss(x)


def write_blocks(writer: Writer, shape: Encoder, x: Tensor, tokens: int) -> Tensor:
    """Write the blocks of an encoder and return what the last one makes."""
    for i in range(1, shape.num_layers + 1):
        writer.begin(f"block {i}")
        y = writer.norm(f"{i} norm 1", x, bias=True) if shape.norm_first else x
        query, key, value = (
            writer.linear(f"{i} {what}", y, shape.width, bias=shape.qkv_bias) for what in ("query", "key", "value")
        )
        head_width = shape.width // shape.heads
        y = writer.attention(
            f"{i} attention",
            (query, key, value),
            Span(tokens, tokens),
            heads=shape.heads,
            key_width=head_width,
            value_width=head_width,
        )
        y = writer.linear(f"{i} attention output", y, shape.width, bias=True)
        x = writer.add(f"{i} attention add", y, x)
        y = x = x if shape.norm_first else writer.norm(f"{i} attention norm", x, bias=True)
        if shape.norm_first:
            y = writer.norm(f"{i} norm 2", x, bias=True)
        y = writer.linear(f"{i} feed-forward up", y, shape.feed_forward, bias=True)
        y = writer.pointwise(f"{i} feed-forward activation", y, keeps_inputs=True)
        x = writer.add(f"{i} feed-forward add", writer.linear(f"{i} feed-forward down", y, shape.width, bias=True), x)
        x = x if shape.norm_first else writer.norm(f"{i} feed-forward norm", x, bias=True)
    return x
