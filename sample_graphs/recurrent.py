"""GNMT: an LSTM encoder and decoder of eight layers each, with residuals and attention.

Wu et al., "Google's neural machine translation system", arXiv 1609.08144, figure 1 and section 3: hidden size
1024, 32,000 wordpieces, a bidirectional first encoder layer, residuals from the third layer on, and the attention
context of the bottom decoder layer read by all the decoder layers above it.

Both sentences have T tokens; a tensor is (B, T, 1024). The decoder is fed the reference translation, in
inference too (scoring), so that a layer runs over all T steps at once and the graph has no cycle. For the same
reason the first decoder layer does not read the previous step's context, as in NVIDIA's public implementation.
"""

from solvers.importers.network import Network, NetworkBuilder

HIDDEN = 1024
VOCABULARY = 32000
NUM_LAYERS = 8
FIRST_RESIDUAL = 3


def gnmt(micro_batch: int, num_tokens: int, *, training: bool) -> Network:
    """GNMT on `micro_batch` sentence pairs of `num_tokens` wordpieces each, at layer granularity."""
    net = NetworkBuilder("GNMT", micro_batch)
    net.layer = "encoder embedding"
    x = _embedding(net, "source embedding", num_tokens)
    net.layer = "encoder 1"
    left = _lstm(net, "encoder 1 forwards", (x,), num_tokens)
    right = _lstm(net, "encoder 1 backwards", (x,), num_tokens)
    x = _concat(net, "encoder 1 concat", left, right)
    for i in range(2, NUM_LAYERS + 1):
        net.layer = f"encoder {i}"
        y = _lstm(net, f"encoder {i}", (x,), num_tokens)
        x = net.residual(f"encoder {i} add", y, x) if i >= FIRST_RESIDUAL else y
    memory = x
    net.layer = "decoder embedding"
    x = _embedding(net, "target embedding", num_tokens)
    net.layer = "decoder 1"
    x = _lstm(net, "decoder 1", (x,), num_tokens)
    net.layer = "attention"
    context = _attention(net, x, memory, num_tokens)
    for i in range(2, NUM_LAYERS + 1):
        net.layer = f"decoder {i}"
        y = _lstm(net, f"decoder {i}", (_concat(net, f"decoder {i} concat", x, context),), num_tokens)
        x = net.residual(f"decoder {i} add", y, x) if i >= FIRST_RESIDUAL else y
    net.layer = "classifier"
    tokens = micro_batch * num_tokens
    logits = net.add(
        "classifier",
        (x,),
        flops=2 * tokens * HIDDEN * VOCABULARY,
        elements=tokens * VOCABULARY,
        parameters=(HIDDEN + 1) * VOCABULARY,
        is_dense=True,
        keeps_inputs=True,
    )
    if training:
        net.loss(logits)
    return net.network()


def _embedding(net: NetworkBuilder, name: str, num_tokens: int) -> int:
    """Look up one row per token; only those rows are read."""
    elements = net.micro_batch * num_tokens * HIDDEN
    return net.add(name, (), flops=0, elements=elements, parameters=VOCABULARY * HIDDEN, weight_reads=elements)


def _concat(net: NetworkBuilder, name: str, a: int, b: int) -> int:
    """Stack the features of two tensors: a copy."""
    return net.add(name, (a, b), flops=0, elements=net.elements(a) + net.elements(b))


def _lstm(net: NetworkBuilder, name: str, inputs: tuple[int, ...], num_tokens: int) -> int:
    """One LSTM layer over T steps: gates (B, T, 4h) from input and state, about 9 element-wise flops per unit.

    The input product runs over all steps at once; the recurrent one reads its weights anew at every step. Gates
    and cells (5h per token) are kept for the backward pass.
    """
    tokens = net.micro_batch * num_tokens
    width = sum(net.elements(u) for u in inputs) // tokens
    input_weights, recurrent_weights = 4 * HIDDEN * width, 4 * HIDDEN * HIDDEN
    return net.add(
        name,
        inputs,
        flops=2 * tokens * (input_weights + recurrent_weights) + 9 * tokens * HIDDEN,
        elements=tokens * HIDDEN,
        parameters=input_weights + recurrent_weights + 4 * HIDDEN,
        internal=5 * tokens * HIDDEN,
        weight_reads=input_weights + num_tokens * recurrent_weights + 4 * HIDDEN,
        is_dense=True,
        keeps_inputs=True,
        keeps_output=True,
    )


def _attention(net: NetworkBuilder, query: int, memory: int, num_tokens: int) -> int:
    """Additive attention: project queries and keys, score v · tanh(q + k) for T² pairs, softmax, weighted sum.

    Kept for the backward pass: both projections and the T² weights of each sentence.
    """
    tokens = net.micro_batch * num_tokens
    pairs = tokens * num_tokens
    return net.add(
        "attention",
        (query, memory),
        flops=4 * tokens * HIDDEN**2 + pairs * (4 * HIDDEN + 5 + 2 * HIDDEN),
        elements=tokens * HIDDEN,
        parameters=2 * HIDDEN**2 + HIDDEN,
        internal=2 * tokens * HIDDEN + pairs,
        is_dense=True,
        keeps_inputs=True,
    )
