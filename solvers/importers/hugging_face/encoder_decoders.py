"""Encoder-decoders: T5 and Whisper.

The encoder's output is read by every layer of the decoder. A decoded token finds its keys and values, made by each
layer once, in a cache: the encoder and these products are then no part of the graph.
"""

from dataclasses import dataclass

from solvers.importers.hugging_face.writer import Span, Tensor, Writer
from solvers.importers.workload import Mode


@dataclass(frozen=True, slots=True)
class EncoderDecoder:
    """T5 or Whisper.

    inner           features of all heads together
    buckets         rows of T5's tables of relative positions, one in the encoder and one in the decoder; 0 without
    gated           feed-forward parts have two widening matrices
    is_whisper      layer norms with biases, learned positions, biases but for keys, and sound as input: `bins` of a
                    spectrum, `frames` after two convolutions
    positions       rows of the decoder's table of positions
    head            what follows: the output of the decoder in "words", "" for nothing, one or two "labels" of each of
                    its tokens, or a "sequence" that is labelled by its last token; without a decoder also "sound",
                    labelled after a projection to `projected` features
    labels          of such a head
    """

    name: str
    width: int
    inner: int
    vocabulary: int
    encoder_layers: int
    decoder_layers: int
    encoder_heads: int
    decoder_heads: int
    encoder_feed_forward: int
    decoder_feed_forward: int
    gated: bool = False
    tied: bool = True
    buckets: int = 0
    is_whisper: bool = False
    bins: int = 0
    frames: int = 0
    positions: int = 0
    head: str = "words"
    labels: int = 0
    projected: int = 0


def write_encoder_decoder(writer: Writer, shape: EncoderDecoder, encoded: int, tokens: int, context: int) -> None:
    """Write the network on sequences of `encoded` tokens and, in the decoder, `tokens`, or one after `context`."""
    decodes = writer.mode is Mode.DECODE
    x: Tensor | None = None
    table: Tensor | None = None
    if not decodes:
        x, table = _encoder(writer, shape, encoded)
    writer.begin("decoder embedding")
    count = 1 if decodes else tokens
    rows = writer.batch * count
    y = writer.lookup("decoder embedding", shape.vocabulary, rows, shape.width, like=table)
    table = table or y
    if shape.positions:
        y = writer.add("decoder sum", y, writer.lookup("position embedding", shape.positions, rows, shape.width))
    keys = context + 1 if decodes else tokens
    own = Span(count, keys, cached=context if decodes else 0, cache=0 if writer.mode is Mode.TRAINING else keys)
    across = Span(
        count, encoded, cached=encoded if decodes else 0, cache=0 if writer.mode is Mode.TRAINING else encoded
    )
    bias = _bias(writer, shape, "decoder", shape.decoder_heads, own)
    layer = _Layer(writer, shape, shape.decoder_heads, shape.decoder_feed_forward)
    for i in range(1, shape.decoder_layers + 1):
        writer.begin(f"decoder {i}")
        y = layer.attention(f"decoder {i}", "attention", y, own, bias)
        y = layer.attention(f"decoder {i}", "cross attention", y, across, None, memory=x, is_across=True)
        y = layer.feed_forward(f"decoder {i}", y)
    writer.begin("output")
    y = writer.norm("decoder norm", y, bias=shape.is_whisper)
    if shape.head == "words":
        y = writer.linear("output", y, shape.vocabulary, like=table if shape.tied else None)
    else:
        y = _labelled(writer, shape, y)
    if writer.mode is Mode.TRAINING:
        writer.loss(y)


def write_encoder_alone(writer: Writer, shape: EncoderDecoder, encoded: int) -> None:
    """Write the encoder on sequences of `encoded` tokens, and its head."""
    x, _ = _encoder(writer, shape, encoded)
    x = _labelled(writer, shape, x)
    if writer.mode is Mode.TRAINING:
        writer.loss(x)


def _labelled(writer: Writer, shape: EncoderDecoder, x: Tensor) -> Tensor:
    """Write a classifier as T5's and Whisper's classes have it; nothing where there are no labels."""
    if not shape.labels:
        return x
    if shape.head == "sequence":
        x = writer.linear("classifier", writer.select("last token", x, writer.batch), shape.width, bias=True)
        x = writer.pointwise("classifier tanh", x, keeps_output=True)
    elif shape.head == "sound":
        x = writer.linear("projector", x, shape.projected, bias=True)
        x = writer.mean("mean of frames", x, writer.batch)
    return writer.linear("output labels", x, shape.labels, bias=True)


def _encoder(writer: Writer, shape: EncoderDecoder, encoded: int) -> tuple[Tensor, Tensor | None]:
    """Write the encoder; return its output, and T5's table of words, which the decoder uses too."""
    writer.begin("encoder embedding")
    rows = writer.batch * encoded
    table: Tensor | None = None
    if shape.is_whisper:
        x = writer.patches("convolution 1", 2 * rows, 3 * shape.bins, shape.width)
        x = writer.pointwise("gelu 1", x, keeps_inputs=True)
        x = writer.patches("convolution 2", rows, 3 * shape.width, shape.width, x)
        x = writer.pointwise("gelu 2", x, keeps_inputs=True)
        x = writer.with_positions("encoder positions", x, rows, shape.frames * shape.width)
    else:
        x = table = writer.lookup("embedding", shape.vocabulary, rows, shape.width)
    span = Span(encoded, encoded)
    bias = _bias(writer, shape, "encoder", shape.encoder_heads, span)
    layer = _Layer(writer, shape, shape.encoder_heads, shape.encoder_feed_forward)
    for i in range(1, shape.encoder_layers + 1):
        writer.begin(f"encoder {i}")
        x = layer.attention(f"encoder {i}", "attention", x, span, bias)
        x = layer.feed_forward(f"encoder {i}", x)
    writer.begin("encoder output")
    return writer.norm("encoder norm", x, bias=shape.is_whisper), table


def _bias(writer: Writer, shape: EncoderDecoder, what: str, heads: int, span: Span) -> Tensor | None:
    """Look up T5's bias of each pair of positions, which all layers add to their scores: (queries · keys, heads)."""
    if not shape.buckets:
        return None
    writer.begin(f"{what} position bias")
    return writer.lookup(f"{what} position bias", shape.buckets, span.queries * span.keys, heads)


@dataclass(frozen=True, slots=True)
class _Layer:
    """Writes the parts of a layer, each normed before and added after."""

    writer: Writer
    shape: EncoderDecoder
    heads: int
    widened: int

    def attention(
        self,
        name: str,
        what: str,
        x: Tensor,
        span: Span,
        bias: Tensor | None,
        *,
        memory: Tensor | None = None,
        is_across: bool = False,
    ) -> Tensor:
        """Attend to the sequence itself, or across to the encoder's output, `memory`, if it is not in a cache."""
        writer, shape, biased = self.writer, self.shape, self.shape.is_whisper
        y = writer.norm(f"{name} {what} norm", x, bias=biased)
        inputs = [writer.linear(f"{name} {what} query", y, shape.inner, bias=biased)]
        source = memory if is_across else y
        if source is not None:
            inputs.append(writer.linear(f"{name} {what} key", source, shape.inner))
            inputs.append(writer.linear(f"{name} {what} value", source, shape.inner, bias=biased))
        head_width = shape.inner // self.heads
        y = writer.attention(
            f"{name} {what}",
            tuple(inputs),
            span,
            heads=self.heads,
            key_width=head_width,
            value_width=head_width,
            cache_width=2 * shape.inner,
            extra=bias,
        )
        y = writer.linear(f"{name} {what} output", y, shape.width, bias=biased)
        return writer.add(f"{name} {what} add", y, x)

    def feed_forward(self, name: str, x: Tensor) -> Tensor:
        writer, shape, biased = self.writer, self.shape, self.shape.is_whisper
        y = writer.norm(f"{name} feed-forward norm", x, bias=biased)
        up = writer.linear(f"{name} feed-forward up", y, self.widened, bias=biased)
        if shape.gated:
            gate = writer.linear(f"{name} feed-forward gate", y, self.widened)
            y = writer.pointwise(f"{name} feed-forward activation", gate, up, keeps_inputs=True)
        else:
            y = writer.pointwise(f"{name} feed-forward activation", up, keeps_inputs=True)
        y = writer.linear(f"{name} feed-forward down", y, shape.width, bias=biased)
        return writer.add(f"{name} feed-forward add", y, x)
