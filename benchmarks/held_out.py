"""Networks whose shapes no solver here was developed on: they tell what the test beds, worked on for long, cannot.

Each is built from its paper's figures at the size named there; what has no influence on shape or cost is left out.
All are forward passes for `benchmarks.testbeds`, on `micro_batch` images, sequences or samples.
"""

from itertools import pairwise

import networkx as nx

from sample_graphs.convolutional import ConvolutionalBuilder, Image
from solvers.importers.network import Network, NetworkBuilder

NUM_CLASSES = 1000


def randomly_wired(micro_batch: int, *, training: bool) -> Network:
    """Three stages of 32 nodes wired as Watts-Strogatz graphs (K = 4, P = 0.75), C = 78 channels on 224 x 224 images.

    Xie, Kirillov, Girshick and He, "Exploring randomly wired neural networks for image recognition", ICCV 2019,
    table 1, small regime. A node adds what comes in; edges go from the lower number to the higher.
    """
    net = NetworkBuilder("RandWire-WS(4, 0.75)", micro_batch, layer="stem")
    cnn = ConvolutionalBuilder(net)
    x = cnn.batch_norm("stem bn", cnn.conv("stem conv", Image(None, 3, 224), 39, kernel=3, stride=2, padding=1))
    x = _separable(cnn, "stem", x, 78, stride=2)
    for stage, channels in enumerate((78, 156, 312), start=1):
        net.layer = f"stage {stage}"
        wiring = nx.connected_watts_strogatz_graph(32, 4, 0.75, seed=stage)
        made: dict[int, Image] = {}
        for v in sorted(wiring):
            inputs = [made[u] for u in sorted(wiring[v]) if u < v]
            into = _sum(cnn, f"{stage}.{v}", inputs) if inputs else x
            made[v] = _separable(cnn, f"{stage}.{v}", into, channels, stride=1 if inputs else 2)
        x = _sum(cnn, f"{stage} out", [made[v] for v in sorted(wiring) if not any(w > v for w in wiring[v])])
    net.layer = "head"
    return _classified(cnn, cnn.conv_bn_relu("head", x, 1280, kernel=1), training)


def hrnet_w32(micro_batch: int, *, training: bool) -> Network:
    """HRNet-W32 on 224 x 224 images: two to four branches of halved sizes, which exchange after every four blocks.

    Wang et al., "Deep high-resolution representation learning for visual recognition", TPAMI 2020, section 3.
    """
    net = NetworkBuilder("HRNet-W32", micro_batch, layer="stem")
    cnn = ConvolutionalBuilder(net)
    x = cnn.conv_bn_relu("stem 1", Image(None, 3, 224), 64, kernel=3, stride=2, padding=1)
    x = cnn.conv_bn_relu("stem 2", x, 64, kernel=3, stride=2, padding=1)
    net.layer = "stage 1"
    for i in range(4):
        y = cnn.conv_bn_relu(f"1.{i} a", x, 64, kernel=1)
        y = cnn.conv_bn_relu(f"1.{i} b", y, 64, kernel=3, padding=1)
        y = cnn.batch_norm(f"1.{i} c bn", cnn.conv(f"1.{i} c conv", y, 256, kernel=1))
        side = x if i else cnn.batch_norm(f"1.{i} side bn", cnn.conv(f"1.{i} side", x, 256, kernel=1))
        x = cnn.relu(f"1.{i} relu", cnn.add(f"1.{i} add", y, side))
    branches = [x]
    for stage, num_modules in ((2, 1), (3, 4), (4, 3)):
        net.layer = f"stage {stage}"
        branches = [
            *(cnn.conv_bn_relu(f"{stage} in {b}", x, 32 * 2**b, kernel=3, padding=1) if stage == 2 else x
              for b, x in enumerate(branches)),
            cnn.conv_bn_relu(f"{stage} new", branches[-1], 32 * 2 ** (stage - 1), kernel=3, stride=2, padding=1),
        ]  # fmt: skip
        for module in range(num_modules):
            name = f"{stage}.{module}"
            net.layer = f"module {name}"
            branches = [_basic_blocks(cnn, f"{name}.{b}", x, 4) for b, x in enumerate(branches)]
            branches = [_exchanged(cnn, name, branches, b) for b in range(len(branches))]
    net.layer = "head"
    x = branches[0]
    for b, other in enumerate(branches[1:], start=1):
        x = cnn.conv_bn_relu(f"head {b}", x, other.channels, kernel=3, stride=2, padding=1)
        x = cnn.add(f"head add {b}", x, other)
    return _classified(cnn, cnn.conv_bn_relu("head last", x, 2048, kernel=1), training)


def _basic_blocks(cnn: ConvolutionalBuilder, name: str, x: Image, count: int) -> Image:
    for i in range(count):
        y = cnn.conv_bn_relu(f"{name} {i} a", x, x.channels, kernel=3, padding=1)
        y = cnn.batch_norm(f"{name} {i} b bn", cnn.conv(f"{name} {i} b conv", y, x.channels, kernel=3, padding=1))
        x = cnn.relu(f"{name} {i} relu", cnn.add(f"{name} {i} add", y, x))
    return x


def _exchanged(cnn: ConvolutionalBuilder, name: str, branches: list[Image], to: int) -> Image:
    """Sum all branches at the size of one: larger ones through strided convolutions, smaller ones enlarged."""
    target, parts = branches[to], []
    for b, x in enumerate(branches):
        if b > to:
            y = cnn.batch_norm(f"{name} {b}-{to} bn", cnn.conv(f"{name} {b}-{to} conv", x, target.channels, kernel=1))
            parts.append(_enlarged(cnn, f"{name} {b}-{to} up", y, target.size))
        elif b < to:
            for step in range(to - b):
                channels = target.channels if step == to - b - 1 else x.channels
                x = cnn.conv(f"{name} {b}-{to} conv {step}", x, channels, kernel=3, stride=2, padding=1)
                x = cnn.batch_norm(f"{name} {b}-{to} bn {step}", x)
            parts.append(x)
        else:
            parts.append(x)
    return cnn.relu(f"{name} out {to}", _sum(cnn, f"{name} sum {to}", parts))


def efficientnet_b4(micro_batch: int, *, training: bool) -> Network:
    """EfficientNet-B4 on 380 x 380 images: inverted bottlenecks with a squeeze of each beside it.

    Tan and Le, "EfficientNet: rethinking model scaling for convolutional neural networks", ICML 2019, table 1,
    with the width times 1.4 and the depth times 1.8.
    """
    net = NetworkBuilder("EfficientNet-B4", micro_batch, layer="stem")
    cnn = ConvolutionalBuilder(net)
    x = cnn.conv_bn_relu("stem", Image(None, 3, 380), 48, kernel=3, stride=2, padding=1)
    stages = (
        (1, 24, 2, 3, 1), (6, 32, 4, 3, 2), (6, 56, 4, 5, 2), (6, 112, 6, 3, 2),
        (6, 160, 6, 5, 1), (6, 272, 8, 5, 2), (6, 448, 2, 3, 1),
    )  # fmt: skip
    for stage, (wider, channels, repeats, kernel, stride) in enumerate(stages, start=1):
        for i in range(repeats):
            name = net.layer = f"{stage}.{i}"
            y = cnn.conv_bn_relu(f"{name} expand", x, wider * x.channels, kernel=1) if wider > 1 else x
            step = 1 if i else stride
            y = cnn.conv_bn_relu(f"{name} depth", y, y.channels, kernel, step, kernel // 2, groups=y.channels)
            y = _squeezed(cnn, name, y, max(1, x.channels // 4))
            y = cnn.batch_norm(f"{name} project bn", cnn.conv(f"{name} project", y, channels, kernel=1))
            x = cnn.add(f"{name} add", y, x) if step == 1 and x.channels == channels else y
    net.layer = "head"
    return _classified(cnn, cnn.conv_bn_relu("head", x, 1792, kernel=1), training)


def _squeezed(cnn: ConvolutionalBuilder, name: str, x: Image, width: int) -> Image:
    """Multiply each channel by a factor made of the average of all of them."""
    y = cnn.avg_pool(f"{name} squeeze", x, x.size)
    y = cnn.relu(f"{name} reduce relu", cnn.conv(f"{name} reduce", y, width, kernel=1, bias=True))
    y = cnn.conv(f"{name} excite", y, x.channels, kernel=1, bias=True)
    assert x.op is not None
    assert y.op is not None
    elements = cnn.net.elements(x.op)
    op = cnn.net.add(f"{name} scale", (x.op, y.op), flops=elements, elements=elements, keeps_inputs=True)
    return Image(op, x.channels, x.size)


def unet_plus_plus(micro_batch: int, *, training: bool) -> Network:
    """UNet++ of depth four on 256 x 256 images: each node of a triangle reads all before it in its row, and one below.

    Zhou et al., "UNet++: a nested U-Net architecture for medical image segmentation", DLMIA 2018, figure 1.
    """
    net = NetworkBuilder("UNet++", micro_batch)
    cnn = ConvolutionalBuilder(net)
    x = Image(None, 3, 256)
    made: dict[tuple[int, int], Image] = {}
    for level in range(5):
        net.layer = f"node {level}.0"
        x = _double(cnn, f"{level}.0", x, 32 * 2**level)
        made[level, 0] = x
        if level < 4:
            x = cnn.max_pool(f"{level}.0 pool", x, kernel=2, stride=2)
        for j in range(1, level + 1):
            i = level - j
            net.layer = f"node {i}.{j}"
            up = cnn.up_conv(f"{i}.{j} up", made[i + 1, j - 1], 32 * 2**i)
            joined = cnn.concat(f"{i}.{j} concat", *(made[i, before] for before in range(j)), up)
            made[i, j] = _double(cnn, f"{i}.{j}", joined, 32 * 2**i)
    net.layer = "head"
    heads = [cnn.conv(f"head {j}", made[0, j], 1, kernel=1, bias=True) for j in range(1, 5)]
    x = _sum(cnn, "head", heads)
    if training:
        assert x.op is not None
        net.loss(x.op)
    return net.network()


def _double(cnn: ConvolutionalBuilder, name: str, x: Image, channels: int) -> Image:
    for part in ("a", "b"):
        x = cnn.conv_bn_relu(f"{name} {part}", x, channels, kernel=3, padding=1)
    return x


def efficientdet(micro_batch: int, *, training: bool) -> Network:
    """EfficientDet-D2 on 768 x 768 images: a pyramid of five sizes, five rounds up and down it, ten chains of heads.

    Tan, Pang and Le, "EfficientDet: scalable and efficient object detection", CVPR 2020, table 1. The backbone is
    EfficientNet-B2's sizes with one separable convolution for each of its blocks.
    """
    net = NetworkBuilder("EfficientDet-D2", micro_batch, layer="backbone")
    cnn = ConvolutionalBuilder(net)
    width = 112
    x = cnn.conv_bn_relu("stem", Image(None, 3, 768), 32, kernel=3, stride=2, padding=1)
    levels: list[Image] = []
    for stage, (channels, repeats, stride) in enumerate(
        ((16, 2, 1), (24, 3, 2), (48, 3, 2), (88, 4, 2), (120, 4, 1), (208, 5, 2), (352, 2, 1)), start=1
    ):
        for i in range(repeats):
            y = _separable(cnn, f"{stage}.{i}", x, channels, stride=1 if i else stride)
            x = cnn.add(f"{stage}.{i} add", y, x) if i else y
        if stage in (3, 5, 7):
            levels.append(cnn.conv(f"lateral {stage}", x, width, kernel=1))
    for extra in (6, 7):
        levels.append(cnn.max_pool(f"level {extra}", levels[-1], kernel=3, stride=2, padding=1))
    for round_ in range(5):
        name = net.layer = f"round {round_}"
        down = [levels[-1]]
        for i in (3, 2, 1, 0):
            up = _enlarged(cnn, f"{name} up {i}", down[-1], levels[i].size)
            fused = cnn.add(f"{name} down add {i}", levels[i], up)
            down.append(_separable(cnn, f"{name} down {i}", fused, width))
        down.reverse()
        out = [down[0]]
        for i in range(1, 5):
            pooled = cnn.max_pool(f"{name} pool {i}", out[-1], kernel=3, stride=2, padding=1)
            inputs = [levels[i], pooled] if i == 4 else [levels[i], down[i], pooled]
            out.append(_separable(cnn, f"{name} up {i}", _sum(cnn, f"{name} up {i}", inputs), width))
        levels = out
    ends = []
    for kind, last in (("class", 810), ("box", 36)):
        for i, x in enumerate(levels):
            net.layer = f"{kind} {i}"
            for j in range(3):
                x = _separable(cnn, f"{kind} {i}.{j}", x, width)
            ends.append(cnn.conv(f"{kind} {i} out", x, last, kernel=3, padding=1))
    net.layer = "join"
    ids = tuple(x.op for x in ends if x.op is not None)
    joined = net.add("join", ids, flops=0, elements=sum(net.elements(u) for u in ids))
    if training:
        net.loss(joined)
    return net.network()


def wavenet(micro_batch: int, *, training: bool) -> Network:
    """WaveNet: 30 dilated layers with gates on 8,192 samples, and the sum of what each of them hands out.

    Van den Oord et al., "WaveNet: a generative model for raw audio", arXiv 1609.03499, figure 4; 128 channels, 256
    for what is handed out, dilations of 1 to 512 thrice.
    """
    net = NetworkBuilder("WaveNet", micro_batch, layer="input")
    places, width, handed = 8192, 128, 256
    x = net.add("embedding", (), flops=0, elements=micro_batch * places * width, parameters=256 * width)
    handed_out: list[int] = []
    for i in range(30):
        net.layer = f"layer {i}"
        gates = [_dense(net, f"{i} {part}", x, width, width, taps=2) for part in ("filter", "gate")]
        parts = [_pointwise(net, f"{i} {what}", (u,)) for what, u in zip(("tanh", "sigmoid"), gates, strict=True)]
        y = _pointwise(net, f"{i} product", tuple(parts))
        handed_out.append(_dense(net, f"{i} out", y, width, handed))
        x = net.residual(f"{i} add", _dense(net, f"{i} residual", y, width, width), x)
    net.layer = "output"
    total = handed_out[0]
    for i, u in enumerate(handed_out[1:], start=1):
        total = net.residual(f"sum {i}", total, u)
    y = _dense(net, "output 1", _pointwise(net, "output relu 1", (total,)), handed, 256)
    logits = _dense(net, "output 2", _pointwise(net, "output relu 2", (y,)), 256, 256)
    if training:
        net.loss(logits)
    return net.network()


def clip(micro_batch: int, *, training: bool) -> Network:
    """CLIP with ViT-B/16: two transformers of twelve layers that meet in one product at the end.

    Radford et al., "Learning transferable visual models from natural language supervision", ICML 2021, table 20.
    """
    net = NetworkBuilder("CLIP ViT-B/16", micro_batch)
    ends = []
    for tower, width, tokens, parameters in (("image", 768, 197, 3 * 16 * 16 * 768), ("text", 512, 77, 49408 * 512)):
        net.layer = f"{tower} embedding"
        elements = micro_batch * tokens * width
        x = net.add(f"{tower} embedding", (), flops=0, elements=elements, parameters=parameters, weight_reads=elements)
        for i in range(12):
            net.layer = f"{tower} {i}"
            x = _block(net, f"{tower} {i}", x, width, tokens)
        net.layer = f"{tower} end"
        first = net.add(f"{tower} first", (x,), flops=0, elements=micro_batch * width, input_reads=micro_batch * width)
        ends.append(_dense(net, f"{tower} projection", first, width, 512))
    net.layer = "product"
    flops = 2 * micro_batch**2 * 512
    end = net.add("product", tuple(ends), flops=flops, elements=micro_batch**2, is_dense=True, keeps_inputs=True)
    if training:
        net.loss(end)
    return net.network()


def t5_base(micro_batch: int, *, training: bool) -> Network:
    """T5-base, 512 tokens to 114: twelve layers of a decoder all read what the encoder ends with.

    Raffel et al., "Exploring the limits of transfer learning with a unified text-to-text transformer", JMLR 2020,
    section 3.1.1.
    """
    net = NetworkBuilder("T5-base", micro_batch)
    width, vocabulary = 768, 32128
    memory: int | None = None
    x = 0
    for part, tokens in (("encoder", 512), ("decoder", 114)):
        net.layer = f"{part} embedding"
        elements = micro_batch * tokens * width
        x = net.add(
            f"{part} embedding", (), flops=0, elements=elements, parameters=vocabulary * width, weight_reads=elements
        )
        for i in range(12):
            net.layer = f"{part} {i}"
            x = _block(net, f"{part} {i}", x, width, tokens, memory=memory, memory_tokens=512)
        memory = x
    net.layer = "output"
    logits = _dense(net, "output", x, width, vocabulary)
    if training:
        net.loss(logits)
    return net.network()


def dlrm(micro_batch: int, *, training: bool) -> Network:
    """DLRM: 26 tables of embeddings, a network on the dense features, products of all pairs, a network on these.

    Naumov et al., "Deep learning recommendation model for personalization and recommendation systems", arXiv
    1906.00091; tables of 40,000 to 10 million rows of 128, as in MLPerf's Criteo.
    """
    net = NetworkBuilder("DLRM", micro_batch, layer="dense")
    width = 128
    x = net.add("features", (), flops=0, elements=micro_batch * 13, has_backward=False)
    for i, (before, after) in enumerate(pairwise((13, 512, 256, width))):
        x = _pointwise(net, f"dense relu {i}", (_dense(net, f"dense {i}", x, before, after),))
    tables = []
    for i in range(26):
        net.layer = f"table {i}"
        rows = int(40_000 * 250 ** (((7 * i) % 26) / 25))
        elements = micro_batch * width
        tables.append(
            net.add(f"table {i}", (), flops=0, elements=elements, parameters=rows * width, weight_reads=elements)
        )
    net.layer = "top"
    pairs = 27 * 26 // 2 + width
    flops = 2 * 27 * 27 * width * micro_batch
    x = net.add(
        "interaction", (x, *tables), flops=flops, elements=micro_batch * pairs, is_dense=True, keeps_inputs=True
    )
    for i, (before, after) in enumerate(pairwise((pairs, 1024, 1024, 512, 256, 1))):
        x = _dense(net, f"top {i}", x, before, after)
        x = _pointwise(net, f"top relu {i}", (x,))
    if training:
        net.loss(x)
    return net.network()


def diffusion_unet(micro_batch: int, *, training: bool) -> Network:
    """The U-Net of Stable Diffusion 1 on 4 x 64 x 64: long skips, and two small tensors that all its blocks read.

    Rombach et al., "High-resolution image synthesis with latent diffusion models", CVPR 2022, section 3.3 and table
    15: 320 channels times 1, 2, 4, 4, two residual blocks a size, cross-attention to 77 tokens of 768.
    """
    net = NetworkBuilder("Stable Diffusion U-Net", micro_batch, layer="inputs")
    cnn = ConvolutionalBuilder(net)
    time = net.add("time", (), flops=0, elements=micro_batch * 320, has_backward=False)
    time = _dense(net, "time 2", _pointwise(net, "time silu", (_dense(net, "time 1", time, 320, 1280),)), 1280, 1280)
    text = net.add("text", (), flops=0, elements=micro_batch * 77 * 768, has_backward=False)
    x = cnn.conv("conv in", Image(None, 4, 64), 320, kernel=3, padding=1)
    skips = [x]
    widths = (320, 640, 1280, 1280)
    for level, channels in enumerate(widths):
        for i in range(2):
            net.layer = f"down {level}.{i}"
            x = _residual(cnn, net.layer, x, channels, time)
            x = _cross_attended(cnn, net.layer, x, text) if level < 3 else x
            skips.append(x)
        if level < 3:
            x = cnn.conv(f"down {level}", x, channels, kernel=3, stride=2, padding=1)
            skips.append(x)
    net.layer = "middle"
    x = _residual(cnn, "middle 1", x, 1280, time)
    x = _residual(cnn, "middle 2", _cross_attended(cnn, "middle", x, text), 1280, time)
    for level, channels in reversed(list(enumerate(widths))):
        for i in range(3):
            net.layer = f"up {level}.{i}"
            x = _residual(cnn, net.layer, cnn.concat(f"{net.layer} concat", x, skips.pop()), channels, time)
            x = _cross_attended(cnn, net.layer, x, text) if level < 3 else x
        if level:
            x = _enlarged(cnn, f"up {level} enlarge", x, 2 * x.size)
            x = cnn.conv(f"up {level}", x, channels, kernel=3, padding=1)
    net.layer = "output"
    x = cnn.conv("conv out", cnn.relu("out silu", cnn.batch_norm("out norm", x)), 4, kernel=3, padding=1)
    if training:
        assert x.op is not None
        net.loss(x.op)
    return net.network()


def _residual(cnn: ConvolutionalBuilder, name: str, x: Image, channels: int, time: int) -> Image:
    """Two convolutions with the time's features added between them, and a way around."""
    y = cnn.relu(f"{name} silu 1", cnn.batch_norm(f"{name} norm 1", x))
    y = cnn.conv(f"{name} conv 1", y, channels, kernel=3, padding=1)
    shift = _dense(cnn.net, f"{name} time", time, 1280, channels)
    assert y.op is not None
    y = Image(_pointwise(cnn.net, f"{name} shift", (y.op, shift)), channels, y.size)
    y = cnn.relu(f"{name} silu 2", cnn.batch_norm(f"{name} norm 2", y))
    y = cnn.conv(f"{name} conv 2", y, channels, kernel=3, padding=1)
    side = x if x.channels == channels else cnn.conv(f"{name} side", x, channels, kernel=1)
    return cnn.add(f"{name} add", y, side)


def _cross_attended(cnn: ConvolutionalBuilder, name: str, x: Image, text: int) -> Image:
    """A transformer block on the places of an image, its second attention to the text."""
    assert x.op is not None
    op = _block(cnn.net, name, x.op, x.channels, x.size**2, memory=text, memory_tokens=77, memory_width=768)
    return Image(op, x.channels, x.size)


def _block(
    net: NetworkBuilder,
    name: str,
    x: int,
    width: int,
    tokens: int,
    *,
    memory: int | None = None,
    memory_tokens: int = 0,
    memory_width: int | None = None,
) -> int:
    """A transformer block by operators: attention, where there is a memory attention to that, and feed-forward."""
    kinds: list[tuple[str, int | None]] = [("self", None)] + ([("cross", memory)] if memory is not None else [])
    for kind, source in kinds:
        y = _norm(net, f"{name} {kind} norm", x)
        read, read_width = (y, width) if source is None else (source, memory_width or width)
        query = _dense(net, f"{name} {kind} query", y, width, width)
        key = _dense(net, f"{name} {kind} key", read, read_width, width)
        value = _dense(net, f"{name} {kind} value", read, read_width, width)
        elements = net.elements(x)
        seen = tokens if source is None else memory_tokens
        context = net.add(
            f"{name} {kind} attention",
            (query, key, value),
            flops=4 * elements * seen,
            elements=elements,
            is_dense=True,
            keeps_inputs=True,
        )
        x = net.residual(f"{name} {kind} add", _dense(net, f"{name} {kind} output", context, width, width), x)
    y = _dense(net, f"{name} widen", _norm(net, f"{name} norm", x), width, 4 * width)
    y = _dense(net, f"{name} narrow", _pointwise(net, f"{name} gelu", (y,)), 4 * width, width)
    return net.residual(f"{name} add", y, x)


def _norm(net: NetworkBuilder, name: str, x: int) -> int:
    elements = net.elements(x)
    return net.add(name, (x,), flops=5 * elements, elements=elements, keeps_inputs=True)


def _dense(net: NetworkBuilder, name: str, x: int, width: int, outputs: int, taps: int = 1) -> int:
    """A product with a matrix of width x outputs at every place, or a convolution along places of so many taps."""
    elements = net.elements(x) // width * outputs
    return net.add(
        name,
        (x,),
        flops=2 * elements * width * taps,
        elements=elements,
        parameters=(width * taps + 1) * outputs,
        is_dense=True,
        keeps_inputs=True,
    )


def _pointwise(net: NetworkBuilder, name: str, inputs: tuple[int, ...]) -> int:
    elements = max(net.elements(u) for u in inputs)
    return net.add(name, inputs, flops=elements, elements=elements, keeps_inputs=True)


def _separable(cnn: ConvolutionalBuilder, name: str, x: Image, channels: int, stride: int = 1) -> Image:
    y = x if x.op is None else cnn.relu(f"{name} relu", x)
    y = cnn.conv(f"{name} depth", y, y.channels, 3, stride, 1, groups=y.channels)
    return cnn.batch_norm(f"{name} bn", cnn.conv(f"{name} point", y, channels, kernel=1))


def _enlarged(cnn: ConvolutionalBuilder, name: str, x: Image, size: int) -> Image:
    """Repeat each place: a copy to a larger size."""
    assert x.op is not None
    return Image(
        cnn.net.add(name, (x.op,), flops=0, elements=cnn.net.micro_batch * x.channels * size**2), x.channels, size
    )


def _sum(cnn: ConvolutionalBuilder, name: str, images: list[Image]) -> Image:
    """Add images of one shape, two at a time."""
    x = images[0]
    for i, y in enumerate(images[1:], start=1):
        x = cnn.add(f"{name} add {i}", x, y)
    return x


def _classified(cnn: ConvolutionalBuilder, x: Image, training: bool) -> Network:
    logits = cnn.classify(x, NUM_CLASSES)
    if training:
        cnn.net.loss(logits)
    return cnn.net.network()
