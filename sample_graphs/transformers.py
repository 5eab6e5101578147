"""Transformers: BERT-base by operators; GPT-2 XL, Llama-3-8B and Mixtral 8x7B by layers.

A micro-batch of B sequences of T tokens is a tensor (B, T, d). Attention is counted over all T² pairs, the usual
convention, though a causal kernel skips half. In the layer graphs attention is one fused kernel that never writes
its T² scores (Dao et al., "FlashAttention", NeurIPS 2022); in the operator graph of BERT it is not.
Element-wise flops per element: normalisation 5, softmax 5, GELU 8, SiLU 4, tanh 4, bias, scale, mask, addition 1.
"""

from dataclasses import dataclass

from solvers.importers.network import Network, NetworkBuilder


@dataclass(frozen=True, slots=True)
class Decoder:
    """Shape of a decoder-only transformer; `num_experts` is 0 for a dense one, whose feed-forward part is one node.

    `is_llama` picks root-mean-square norms without bias, rotary positions, a gated feed-forward part of three
    matrices and no biases; otherwise layer norms, learned positions, two matrices and biases everywhere, as GPT-2.
    """

    name: str
    width: int
    feed_forward: int
    num_layers: int
    num_heads: int
    num_key_value_heads: int
    vocabulary: int
    max_positions: int
    is_llama: bool
    num_experts: int = 0
    experts_per_token: int = 0


GPT2_XL = Decoder("GPT-2 XL", 1600, 6400, 48, 25, 25, 50257, 1024, is_llama=False)
"""Radford et al., "Language models are unsupervised multitask learners", 2019, table 2, largest model."""

LLAMA3_8B = Decoder("Llama-3-8B", 4096, 14336, 32, 32, 8, 128256, 0, is_llama=True)
"""Grattafiori et al., "The Llama 3 herd of models", arXiv 2407.21783, table 3."""

MIXTRAL_8X7B = Decoder(
    "Mixtral 8x7B", 4096, 14336, 32, 32, 8, 32000, 0, is_llama=True, num_experts=8, experts_per_token=2
)
"""Jiang et al., "Mixtral of experts", arXiv 2401.04088, table 1."""


def decoder(shape: Decoder, micro_batch: int, num_tokens: int, *, training: bool) -> Network:
    """Return a decoder on `micro_batch` sequences of `num_tokens`: a whole prompt, or a training sequence.

    Four nodes per block (norm, attention, norm, feed-forward), or norm, attention, norm, router, experts and
    their sum; the residual stream enters attention and feed-forward as a second input and is added there.

    GPT-2 ties its output matrix to its embedding. As Megatron-LM does in pipelines, the output layer holds a copy
    here, so that the two need not share a device: `tied_copy_parameters` says how much more that is than published.
    """
    net = NetworkBuilder(shape.name, micro_batch, layer="embedding")
    elements = micro_batch * num_tokens * shape.width
    positions = shape.max_positions * shape.width
    x = net.add(
        "embedding",
        (),
        flops=elements if positions else 0,
        elements=elements,
        parameters=shape.vocabulary * shape.width + positions,
        weight_reads=2 * elements if positions else elements,
    )
    for i in range(1, shape.num_layers + 1):
        net.layer = f"block {i}"
        y = _norm(net, f"{i} norm 1", x, shape.width, has_bias=not shape.is_llama)
        x = _attention(net, f"{i} attention", shape, y, x, num_tokens)
        y = _norm(net, f"{i} norm 2", x, shape.width, has_bias=not shape.is_llama)
        if shape.num_experts:
            x = _mixture(net, str(i), shape, y, x)
        else:
            x = _feed_forward(net, f"{i} feed-forward", shape, y, x)
    net.layer = "output"
    x = _norm(net, "final norm", x, shape.width, has_bias=not shape.is_llama)
    tokens = micro_batch * num_tokens
    logits = net.add(
        "output",
        (x,),
        flops=2 * tokens * shape.width * shape.vocabulary,
        elements=tokens * shape.vocabulary,
        parameters=shape.vocabulary * shape.width,
        is_dense=True,
        keeps_inputs=True,
    )
    if training:
        net.loss(logits)
    return net.network()


def tied_copy_parameters(shape: Decoder) -> int:
    """Return the parameters of the output layer that a published count leaves out because they are tied."""
    return 0 if shape.is_llama else shape.vocabulary * shape.width


def _norm(net: NetworkBuilder, name: str, x: int, width: int, *, has_bias: bool) -> int:
    """Normalise each token's features; scale, and shift if `has_bias`, are parameters."""
    elements = net.elements(x)
    parameters = width * (2 if has_bias else 1)
    return net.add(name, (x,), flops=5 * elements, elements=elements, parameters=parameters, keeps_inputs=True)


def _attention(net: NetworkBuilder, name: str, shape: Decoder, y: int, residual: int, num_tokens: int) -> int:
    """Queries, keys and values, fused attention, output projection, residual: (B, T, d) to (B, T, d).

    Kept for the backward pass: queries, keys, values and the context.
    """
    elements = net.elements(y)
    tokens = elements // shape.width
    key_value_width = shape.width // shape.num_heads * shape.num_key_value_heads
    weights = 2 * shape.width * (shape.width + key_value_width)
    biases = 0 if shape.is_llama else 2 * shape.width + 2 * key_value_width
    scores = tokens * num_tokens * shape.num_heads
    rotary = 6 * tokens * (shape.width + key_value_width) if shape.is_llama else 0
    return net.add(
        name,
        (y, residual),
        flops=2 * tokens * weights + 4 * tokens * num_tokens * shape.width + 6 * scores + rotary + elements,
        elements=elements,
        parameters=weights + biases,
        internal=2 * elements + 2 * tokens * key_value_width,
        input_reads=2 * elements,
        is_dense=True,
        keeps_inputs=True,
    )


def _feed_forward(net: NetworkBuilder, name: str, shape: Decoder, y: int, residual: int) -> int:
    """Widen, activate, narrow, add the residual; a gated part has two widening matrices.

    Kept for the backward pass: the widened tensors before and after activation.
    """
    elements = net.elements(y)
    tokens = elements // shape.width
    parameters, flops, internal = _feed_forward_cost(shape, tokens)
    return net.add(
        name,
        (y, residual),
        flops=flops + elements,
        elements=elements,
        parameters=parameters,
        internal=internal,
        is_dense=True,
        keeps_inputs=True,
    )


def _feed_forward_cost(shape: Decoder, tokens: int) -> tuple[int, int, int]:
    """Return parameters, flops and internal elements of one feed-forward part on so many tokens."""
    wide = tokens * shape.feed_forward
    if shape.is_llama:
        parameters = 3 * shape.width * shape.feed_forward
        return parameters, 2 * tokens * parameters + 5 * wide, 3 * wide
    weights = 2 * shape.width * shape.feed_forward
    biases = shape.feed_forward + shape.width
    return weights + biases, 2 * tokens * weights + 9 * wide + tokens * shape.width, 2 * wide


def _mixture(net: NetworkBuilder, name: str, shape: Decoder, y: int, residual: int) -> int:
    """Route every token to `experts_per_token` experts and add their outputs, weighted, to the residual.

    Tokens are taken to spread evenly, so an expert works on B·T·experts_per_token/num_experts of them.
    """
    elements = net.elements(y)
    tokens = elements // shape.width
    router = net.add(
        f"{name} router",
        (y,),
        flops=2 * tokens * shape.width * shape.num_experts + 5 * tokens * shape.num_experts,
        elements=tokens * shape.num_experts,
        parameters=shape.width * shape.num_experts,
        is_dense=True,
        keeps_inputs=True,
        keeps_output=True,
    )
    routed = tokens * shape.experts_per_token // shape.num_experts
    parameters, flops, internal = _feed_forward_cost(shape, routed)
    experts = tuple(
        net.add(
            f"{name} expert {e}",
            (y, router),
            flops=flops,
            elements=routed * shape.width,
            parameters=parameters,
            internal=internal,
            input_reads=routed * shape.width + tokens,
            is_dense=True,
            keeps_inputs=True,
        )
        for e in range(1, shape.num_experts + 1)
    )
    return net.add(
        f"{name} combine",
        (*experts, router, residual),
        flops=(2 * shape.experts_per_token + 1) * elements,
        elements=elements,
        keeps_inputs=True,
    )


BERT_WIDTH, BERT_LAYERS, BERT_HEADS, BERT_VOCABULARY = 768, 12, 12, 30522


def bert_base(micro_batch: int, num_tokens: int, *, training: bool, num_layers: int = BERT_LAYERS) -> Network:
    """BERT-base by operators, with pooler, heads fused into one batched product, dropout left out; or a deeper one.

    Devlin et al., "BERT: pre-training of deep bidirectional transformers", NAACL 2019, section 3. Training is
    fine-tuning on two-class sentence classification, which adds a classifier of 2 x 768 weights and the loss.
    """
    net = NetworkBuilder("BERT-base", micro_batch, layer="embedding")
    ops = _BertOperators(net, num_tokens)
    tokens = micro_batch * num_tokens
    mask = net.add("attention mask", (), flops=2 * tokens, elements=tokens, input_reads=tokens, has_backward=False)
    x = ops.lookup("word embedding", BERT_VOCABULARY)
    x = net.residual("position add", x, ops.lookup("position embedding", 512))
    x = net.residual("segment add", x, ops.lookup("segment embedding", 2))
    x = _norm(net, "embedding norm", x, BERT_WIDTH, has_bias=True)
    for i in range(1, num_layers + 1):
        net.layer = f"encoder {i}"
        x = ops.encoder(str(i), x, mask)
    net.layer = "pooler"
    first = net.add("first token", (x,), flops=0, elements=micro_batch * BERT_WIDTH, input_reads=tokens)
    y = ops.linear("pooler", first, BERT_WIDTH)
    y = ops.elementwise("pooler tanh", y, 4, keeps_output=True)
    if training:
        net.loss(ops.linear("classifier", y, 2))
    return net.network()


@dataclass(frozen=True, slots=True)
class _BertOperators:
    """Adds the operators of BERT to a network of T = `num_tokens`."""

    net: NetworkBuilder
    num_tokens: int

    def lookup(self, name: str, rows: int) -> int:
        """Look up one row of 768 per token: (B, T, 768)."""
        elements = self.net.micro_batch * self.num_tokens * BERT_WIDTH
        return self.net.add(
            name,
            (),
            flops=0,
            elements=elements,
            parameters=rows * BERT_WIDTH,
            weight_reads=min(rows * BERT_WIDTH, elements),
        )

    def elementwise(
        self, name: str, x: int, flops: int, *, keeps_inputs: bool = False, keeps_output: bool = False
    ) -> int:
        """Work on each element of x at so many flops per element."""
        elements = self.net.elements(x)
        return self.net.add(
            name,
            (x,),
            flops=flops * elements,
            elements=elements,
            keeps_inputs=keeps_inputs,
            keeps_output=keeps_output,
        )

    def linear(self, name: str, x: int, width: int, input_width: int = BERT_WIDTH) -> int:
        """Matrix product and bias, two operators: features from `input_width` to `width`."""
        elements = self.net.elements(x) // input_width * width
        y = self.net.add(
            f"{name} product",
            (x,),
            flops=2 * input_width * elements,
            elements=elements,
            parameters=input_width * width,
            is_dense=True,
            keeps_inputs=True,
        )
        return self.net.add(f"{name} bias", (y,), flops=elements, elements=elements, parameters=width)

    def encoder(self, i: str, x: int, mask: int) -> int:
        """One encoder block: attention, add and norm, feed-forward, add and norm; 26 operators."""
        net = self.net
        elements = net.elements(x)
        query, key, value = (
            self.elementwise(f"{i} {what} transpose", self.linear(f"{i} {what}", x, BERT_WIDTH), 0)
            for what in ("query", "key", "value")
        )
        pairs = net.micro_batch * BERT_HEADS * self.num_tokens**2
        product_flops = 2 * elements * self.num_tokens
        y = net.add(f"{i} scores", (query, key), flops=product_flops, elements=pairs, is_dense=True, keeps_inputs=True)
        y = self.elementwise(f"{i} scale", y, 1)
        y = net.add(f"{i} mask", (y, mask), flops=pairs, elements=pairs, passes_gradient=True)
        y = self.elementwise(f"{i} softmax", y, 5, keeps_output=True)
        y = net.add(
            f"{i} context", (y, value), flops=product_flops, elements=elements, is_dense=True, keeps_inputs=True
        )
        y = self.elementwise(f"{i} context transpose", y, 0)
        y = self.linear(f"{i} projection", y, BERT_WIDTH)
        x = _norm(net, f"{i} attention norm", net.residual(f"{i} attention add", y, x), BERT_WIDTH, has_bias=True)
        y = self.linear(f"{i} widen", x, 4 * BERT_WIDTH)
        y = self.elementwise(f"{i} gelu", y, 8, keeps_inputs=True)
        y = self.linear(f"{i} narrow", y, BERT_WIDTH, input_width=4 * BERT_WIDTH)
        return _norm(net, f"{i} output norm", net.residual(f"{i} output add", y, x), BERT_WIDTH, has_bias=True)
