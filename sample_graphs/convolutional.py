"""Convolutional networks: ResNet-50, Inception-v3, U-Net.

Tensors are (batch, channels, height, width) and square: an `Image` is an operator with its channels and size.
Convolution, batch normalisation and activation are separate operators, as a framework runs them unfused.
Element-wise flops: batch normalisation 2 per element (scale and shift), ReLU and addition 1, pooling its window.
"""

from dataclasses import dataclass

from solvers.importers.network import Network, NetworkBuilder

Size = int | tuple[int, int]


@dataclass(frozen=True, slots=True)
class Image:
    """The output of operator `op`: `channels` planes of `size` x `size`; op None is the input of the network."""

    op: int | None
    channels: int
    size: int


@dataclass
class ConvolutionalBuilder:
    """Adds operators on images to a network."""

    net: NetworkBuilder

    def _elements(self, channels: int, size: int) -> int:
        return self.net.micro_batch * channels * size * size

    def conv(
        self,
        name: str,
        x: Image,
        channels: int,
        kernel: Size,
        stride: int = 1,
        padding: Size = 0,
        bias: bool = False,
        groups: int = 1,
    ) -> Image:
        """Convolve; `kernel` and `padding` are (height, width) or one number for both; the result is square.

        With `groups` each group of output channels reads its share of the input channels only.
        """
        height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
        pad = padding if isinstance(padding, int) else padding[0]
        size = (x.size + 2 * pad - height) // stride + 1
        elements = self._elements(channels, size)
        weights = height * width * (x.channels // groups) * channels
        op = self.net.add(
            name,
            () if x.op is None else (x.op,),
            flops=2 * height * width * (x.channels // groups) * elements,
            elements=elements,
            parameters=weights + channels * bias,
            input_reads=self._elements(x.channels, x.size),
            is_dense=True,
            keeps_inputs=True,
        )
        return Image(op, channels, size)

    def up_conv(self, name: str, x: Image, channels: int) -> Image:
        """Transposed 2 x 2 convolution with stride 2 and bias: doubles the size."""
        elements = self._elements(channels, 2 * x.size)
        op = self.net.add(
            name,
            _inputs(x),
            flops=2 * x.channels * elements,
            elements=elements,
            parameters=4 * x.channels * channels + channels,
            is_dense=True,
            keeps_inputs=True,
        )
        return Image(op, channels, 2 * x.size)

    def batch_norm(self, name: str, x: Image) -> Image:
        """Normalise; scale and shift are parameters, running statistics are not."""
        elements = self._elements(x.channels, x.size)
        op = self.net.add(
            name, _inputs(x), flops=2 * elements, elements=elements, parameters=2 * x.channels, keeps_inputs=True
        )
        return Image(op, x.channels, x.size)

    def relu(self, name: str, x: Image) -> Image:
        """Rectify; the backward pass needs the output only."""
        elements = self._elements(x.channels, x.size)
        op = self.net.add(name, _inputs(x), flops=elements, elements=elements, keeps_output=True)
        return Image(op, x.channels, x.size)

    def conv_bn_relu(
        self, name: str, x: Image, channels: int, kernel: Size, stride: int = 1, padding: Size = 0, groups: int = 1
    ) -> Image:
        """Three operators."""
        x = self.conv(f"{name} conv", x, channels, kernel, stride, padding, groups=groups)
        return self.relu(f"{name} relu", self.batch_norm(f"{name} bn", x))

    def max_pool(self, name: str, x: Image, kernel: int, stride: int, padding: int = 0) -> Image:
        """Maximum over windows; the backward pass looks at the input again."""
        size = (x.size + 2 * padding - kernel) // stride + 1
        elements = self._elements(x.channels, size)
        op = self.net.add(name, _inputs(x), flops=kernel**2 * elements, elements=elements, keeps_inputs=True)
        return Image(op, x.channels, size)

    def avg_pool(self, name: str, x: Image, kernel: int, stride: int = 1, padding: int = 0) -> Image:
        """Average over windows; the backward pass needs nothing of the forward pass."""
        size = (x.size + 2 * padding - kernel) // stride + 1
        elements = self._elements(x.channels, size)
        op = self.net.add(name, _inputs(x), flops=kernel**2 * elements, elements=elements)
        return Image(op, x.channels, size)

    def add(self, name: str, x: Image, y: Image) -> Image:
        """Add two images of one shape."""
        return Image(self.net.residual(name, _inputs(x)[0], _inputs(y)[0]), x.channels, x.size)

    def concat(self, name: str, *images: Image) -> Image:
        """Stack the channels of images of one size: a copy."""
        channels = sum(x.channels for x in images)
        inputs = tuple(u for x in images for u in _inputs(x))
        op = self.net.add(name, inputs, flops=0, elements=self._elements(channels, images[0].size))
        return Image(op, channels, images[0].size)

    def crop(self, name: str, x: Image, size: int) -> Image:
        """Cut out the middle: a copy that reads only what it keeps."""
        elements = self._elements(x.channels, size)
        return Image(self.net.add(name, _inputs(x), flops=0, elements=elements, input_reads=elements), x.channels, size)

    def classify(self, x: Image, num_classes: int) -> int:
        """Global average, then a fully connected layer with bias; return the logits."""
        x = self.avg_pool("average pool", x, x.size)
        elements = self.net.micro_batch * num_classes
        return self.net.add(
            "fully connected",
            _inputs(x),
            flops=2 * x.channels * elements,
            elements=elements,
            parameters=(x.channels + 1) * num_classes,
            is_dense=True,
            keeps_inputs=True,
        )


def _inputs(x: Image) -> tuple[int]:
    if x.op is None:
        raise ValueError("Only a convolution reads the input of the network.")
    return (x.op,)


def resnet50(micro_batch: int, *, training: bool) -> Network:
    """ResNet-50 on 3 x 224 x 224 images, stride in the 3 x 3 convolution as in torchvision ("v1.5").

    He et al., "Deep residual learning for image recognition", CVPR 2016, table 1. A micro-batch of B images has
    stage outputs of shape (B, 256 · 2^(s-1), 56 / 2^(s-1), 56 / 2^(s-1)) for s = 1 .. 4.
    """
    return residual_network("ResNet-50", micro_batch, width=64, groups=1, training=training)


def residual_network(name: str, micro_batch: int, *, width: int, groups: int, training: bool) -> Network:
    """A network of 3, 4, 6 and 3 bottleneck blocks, on 3 x 224 x 224 images.

    The 3 x 3 convolutions have `width` channels in the first stage, twice as many in each next one, and so many groups.
    """
    net = NetworkBuilder(name, micro_batch, layer="stem")
    cnn = ConvolutionalBuilder(net)
    x = cnn.conv_bn_relu("stem", Image(None, 3, 224), 64, kernel=7, stride=2, padding=3)
    x = cnn.max_pool("stem pool", x, kernel=3, stride=2, padding=1)
    for stage, num_blocks in enumerate((3, 4, 6, 3), start=1):
        inner, outer = width * 2 ** (stage - 1), 256 * 2 ** (stage - 1)
        for block in range(1, num_blocks + 1):
            net.layer = f"stage {stage} block {block}"
            at = f"{stage}.{block}"
            stride = 2 if stage > 1 and block == 1 else 1
            shortcut = x
            y = cnn.conv_bn_relu(f"{at} a", x, inner, kernel=1)
            y = cnn.conv_bn_relu(f"{at} b", y, inner, kernel=3, stride=stride, padding=1, groups=groups)
            y = cnn.batch_norm(f"{at} c bn", cnn.conv(f"{at} c conv", y, outer, kernel=1))
            if block == 1:
                shortcut = cnn.conv(f"{at} shortcut conv", x, outer, kernel=1, stride=stride)
                shortcut = cnn.batch_norm(f"{at} shortcut bn", shortcut)
            x = cnn.relu(f"{at} relu", cnn.add(f"{at} add", y, shortcut))
    net.layer = "head"
    logits = cnn.classify(x, 1000)
    if training:
        net.loss(logits)
    return net.network()


def inception_v3(micro_batch: int) -> Network:
    """Inception-v3 on 3 x 299 x 299 images, without its auxiliary classifier, which serves training only.

    Szegedy et al., "Rethinking the Inception architecture for computer vision", CVPR 2016, table 1, with the
    widths of the released model, as in torchvision; module names are those of its code (Mixed_5b .. Mixed_7c).
    """
    net = NetworkBuilder("Inception-v3", micro_batch, layer="stem")
    cnn = ConvolutionalBuilder(net)
    x = cnn.conv_bn_relu("1a", Image(None, 3, 299), 32, kernel=3, stride=2)
    x = cnn.conv_bn_relu("2a", x, 32, kernel=3)
    x = cnn.conv_bn_relu("2b", x, 64, kernel=3, padding=1)
    x = cnn.max_pool("pool 1", x, kernel=3, stride=2)
    x = cnn.conv_bn_relu("3b", x, 80, kernel=1)
    x = cnn.conv_bn_relu("4a", x, 192, kernel=3)
    x = cnn.max_pool("pool 2", x, kernel=3, stride=2)
    for module, pool_channels in (("5b", 32), ("5c", 64), ("5d", 64)):
        net.layer = f"mixed {module}"
        x = _inception_a(cnn, module, x, pool_channels)
    net.layer = "mixed 6a"
    x = _inception_b(cnn, "6a", x)
    for module, width in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
        net.layer = f"mixed {module}"
        x = _inception_c(cnn, module, x, width)
    net.layer = "mixed 7a"
    x = _inception_d(cnn, "7a", x)
    for module in ("7b", "7c"):
        net.layer = f"mixed {module}"
        x = _inception_e(cnn, module, x)
    net.layer = "head"
    cnn.classify(x, 1000)
    return net.network()


def _inception_a(cnn: ConvolutionalBuilder, m: str, x: Image, pool_channels: int) -> Image:
    """Four branches at 35 x 35: 1x1; 1x1, 5x5; 1x1, 3x3, 3x3; average pool, 1x1."""
    a = cnn.conv_bn_relu(f"{m} 1x1", x, 64, 1)
    b = cnn.conv_bn_relu(f"{m} 5x5 1", x, 48, 1)
    b = cnn.conv_bn_relu(f"{m} 5x5 2", b, 64, 5, padding=2)
    c = cnn.conv_bn_relu(f"{m} double 1", x, 64, 1)
    c = cnn.conv_bn_relu(f"{m} double 2", c, 96, 3, padding=1)
    c = cnn.conv_bn_relu(f"{m} double 3", c, 96, 3, padding=1)
    d = cnn.avg_pool(f"{m} pool", x, 3, padding=1)
    d = cnn.conv_bn_relu(f"{m} pool 1x1", d, pool_channels, 1)
    return cnn.concat(f"{m} concat", a, b, c, d)


def _inception_b(cnn: ConvolutionalBuilder, m: str, x: Image) -> Image:
    """Three branches from 35 x 35 to 17 x 17: 3x3; 1x1, 3x3, 3x3; maximum pool."""
    a = cnn.conv_bn_relu(f"{m} 3x3", x, 384, 3, stride=2)
    b = cnn.conv_bn_relu(f"{m} double 1", x, 64, 1)
    b = cnn.conv_bn_relu(f"{m} double 2", b, 96, 3, padding=1)
    b = cnn.conv_bn_relu(f"{m} double 3", b, 96, 3, stride=2)
    return cnn.concat(f"{m} concat", a, b, cnn.max_pool(f"{m} pool", x, 3, stride=2))


def _inception_c(cnn: ConvolutionalBuilder, m: str, x: Image, width: int) -> Image:
    """Four branches at 17 x 17 with 7x7 convolutions split into 1x7 and 7x1."""
    row: tuple[Size, Size] = ((1, 7), (0, 3))
    column: tuple[Size, Size] = ((7, 1), (3, 0))
    a = cnn.conv_bn_relu(f"{m} 1x1", x, 192, 1)
    b = cnn.conv_bn_relu(f"{m} 7x7 1", x, width, 1)
    b = cnn.conv_bn_relu(f"{m} 7x7 2", b, width, row[0], padding=row[1])
    b = cnn.conv_bn_relu(f"{m} 7x7 3", b, 192, column[0], padding=column[1])
    c = cnn.conv_bn_relu(f"{m} double 1", x, width, 1)
    c = cnn.conv_bn_relu(f"{m} double 2", c, width, column[0], padding=column[1])
    c = cnn.conv_bn_relu(f"{m} double 3", c, width, row[0], padding=row[1])
    c = cnn.conv_bn_relu(f"{m} double 4", c, width, column[0], padding=column[1])
    c = cnn.conv_bn_relu(f"{m} double 5", c, 192, row[0], padding=row[1])
    d = cnn.avg_pool(f"{m} pool", x, 3, padding=1)
    d = cnn.conv_bn_relu(f"{m} pool 1x1", d, 192, 1)
    return cnn.concat(f"{m} concat", a, b, c, d)


def _inception_d(cnn: ConvolutionalBuilder, m: str, x: Image) -> Image:
    """Three branches from 17 x 17 to 8 x 8: 1x1, 3x3; 1x1, 1x7, 7x1, 3x3; maximum pool."""
    a = cnn.conv_bn_relu(f"{m} 3x3 1", x, 192, 1)
    a = cnn.conv_bn_relu(f"{m} 3x3 2", a, 320, 3, stride=2)
    b = cnn.conv_bn_relu(f"{m} 7x7 1", x, 192, 1)
    b = cnn.conv_bn_relu(f"{m} 7x7 2", b, 192, (1, 7), padding=(0, 3))
    b = cnn.conv_bn_relu(f"{m} 7x7 3", b, 192, (7, 1), padding=(3, 0))
    b = cnn.conv_bn_relu(f"{m} 7x7 4", b, 192, 3, stride=2)
    return cnn.concat(f"{m} concat", a, b, cnn.max_pool(f"{m} pool", x, 3, stride=2))


def _inception_e(cnn: ConvolutionalBuilder, m: str, x: Image) -> Image:
    """Four branches at 8 x 8, two of which fork again into 1x3 and 3x1."""
    a = cnn.conv_bn_relu(f"{m} 1x1", x, 320, 1)
    b = cnn.conv_bn_relu(f"{m} 3x3 1", x, 384, 1)
    b = _fork(cnn, f"{m} 3x3", b)
    c = cnn.conv_bn_relu(f"{m} double 1", x, 448, 1)
    c = cnn.conv_bn_relu(f"{m} double 2", c, 384, 3, padding=1)
    c = _fork(cnn, f"{m} double", c)
    d = cnn.avg_pool(f"{m} pool", x, 3, padding=1)
    d = cnn.conv_bn_relu(f"{m} pool 1x1", d, 192, 1)
    return cnn.concat(f"{m} concat", a, b, c, d)


def _fork(cnn: ConvolutionalBuilder, name: str, x: Image) -> Image:
    """Run 1x3 and 3x1 convolutions side by side and stack their 384 channels each."""
    row = cnn.conv_bn_relu(f"{name} row", x, 384, (1, 3), padding=(0, 1))
    column = cnn.conv_bn_relu(f"{name} column", x, 384, (3, 1), padding=(1, 0))
    return cnn.concat(f"{name} concat", row, column)


def unet(micro_batch: int, *, training: bool) -> Network:
    """U-Net on 1 x 572 x 572 images, two classes, unpadded convolutions with bias: output 2 x 388 x 388.

    Ronneberger, Fischer and Brox, "U-Net: convolutional networks for biomedical image segmentation", MICCAI 2015,
    figure 1. The crops and concatenations of the skip connections are operators of their own.
    """
    net = NetworkBuilder("U-Net", micro_batch)
    cnn = ConvolutionalBuilder(net)
    x = Image(None, 1, 572)
    skips: list[Image] = []
    for level in range(1, 6):
        net.layer = f"down {level}" if level < 5 else "bottom"
        x = _double_conv(cnn, net.layer, x, 32 * 2**level)
        if level < 5:
            skips.append(x)
            x = cnn.max_pool(f"{net.layer} pool", x, kernel=2, stride=2)
    for level in range(4, 0, -1):
        net.layer = f"up {level}"
        x = cnn.up_conv(f"{net.layer} up-convolution", x, 32 * 2**level)
        x = cnn.concat(f"{net.layer} concat", cnn.crop(f"{net.layer} crop", skips[level - 1], x.size), x)
        x = _double_conv(cnn, net.layer, x, 32 * 2**level)
    net.layer = "head"
    x = cnn.conv("head conv", x, 2, kernel=1, bias=True)
    if training:
        net.loss(_inputs(x)[0])
    return net.network()


def _double_conv(cnn: ConvolutionalBuilder, name: str, x: Image, channels: int) -> Image:
    """Two unpadded 3 x 3 convolutions with bias, each followed by ReLU."""
    for i in (1, 2):
        x = cnn.relu(f"{name} relu {i}", cnn.conv(f"{name} conv {i}", x, channels, kernel=3, bias=True))
    return x
