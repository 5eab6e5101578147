"""Image classifiers that are not bundled as examples: VGG-16, DenseNet-121, ResNeXt-50. Benchmarks generate them."""

from sample_graphs.convolutional import ConvolutionalBuilder, Image, residual_network
from solvers.importers.network import Network, NetworkBuilder

NUM_CLASSES = 1000


def vgg16(micro_batch: int, *, training: bool) -> Network:
    """VGG-16 on 3 x 224 x 224 images, without dropout, which is no work in inference and little in training.

    Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", ICLR 2015, table 1,
    column D.
    """
    net = NetworkBuilder("VGG-16", micro_batch)
    cnn = ConvolutionalBuilder(net)
    x = Image(None, 3, 224)
    for stage, (num_convs, channels) in enumerate(((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)), start=1):
        net.layer = f"stage {stage}"
        for i in range(1, num_convs + 1):
            x = cnn.conv(f"{stage}.{i} conv", x, channels, kernel=3, padding=1, bias=True)
            x = cnn.relu(f"{stage}.{i} relu", x)
        x = cnn.max_pool(f"{stage} pool", x, kernel=2, stride=2)
    net.layer = "head"
    for i, channels in enumerate((4096, 4096), start=1):
        # A fully connected layer is a convolution over the whole image.
        x = cnn.relu(f"fc {i} relu", cnn.conv(f"fc {i}", x, channels, kernel=x.size, bias=True))
    return _classified(cnn, cnn.conv("fc 3", x, NUM_CLASSES, kernel=1, bias=True), training)


def densenet121(micro_batch: int, *, training: bool) -> Network:
    """DenseNet-121 on 3 x 224 x 224 images: in a dense block every layer stacks the outputs of all layers before it.

    Huang et al., "Densely connected convolutional networks", CVPR 2017, table 1, growth rate 32, as in torchvision:
    a layer is a concatenation, then twice batch normalisation, ReLU and convolution (1 x 1 to 128, 3 x 3 to 32).
    """
    growth, bottleneck = 32, 4 * 32
    net = NetworkBuilder("DenseNet-121", micro_batch, layer="stem")
    cnn = ConvolutionalBuilder(net)
    x = cnn.conv_bn_relu("stem", Image(None, 3, 224), 2 * growth, kernel=7, stride=2, padding=3)
    x = cnn.max_pool("stem pool", x, kernel=3, stride=2, padding=1)
    for block, num_layers in enumerate((6, 12, 24, 16), start=1):
        features = [x]
        for i in range(1, num_layers + 1):
            net.layer = f"block {block} layer {i}"
            name = f"{block}.{i}"
            y = cnn.concat(f"{name} concat", *features) if i > 1 else x
            y = cnn.conv(f"{name} conv 1", _normalised(cnn, f"{name} 1", y), bottleneck, kernel=1)
            y = cnn.conv(f"{name} conv 2", _normalised(cnn, f"{name} 2", y), growth, kernel=3, padding=1)
            features.append(y)
        net.layer = f"transition {block}" if block < 4 else "head"
        x = _normalised(cnn, net.layer, cnn.concat(f"{net.layer} concat", *features))
        if block < 4:
            x = cnn.conv(f"{net.layer} conv", x, x.channels // 2, kernel=1)
            x = cnn.avg_pool(f"{net.layer} pool", x, kernel=2, stride=2)
    logits = cnn.classify(x, NUM_CLASSES)
    if training:
        net.loss(logits)
    return net.network()


def resnext50(micro_batch: int, *, training: bool) -> Network:
    """ResNeXt-50 (32x4d) on 3 x 224 x 224 images.

    Xie et al., "Aggregated residual transformations for deep neural networks", CVPR 2017, table 1: a ResNet-50 whose
    3 x 3 convolutions have 32 groups and twice the width.
    """
    return residual_network("ResNeXt-50", micro_batch, width=128, groups=32, training=training)


def _normalised(cnn: ConvolutionalBuilder, name: str, x: Image) -> Image:
    return cnn.relu(f"{name} relu", cnn.batch_norm(f"{name} bn", x))


def _classified(cnn: ConvolutionalBuilder, logits: Image, training: bool) -> Network:
    if training and logits.op is not None:
        cnn.net.loss(logits.op)
    return cnn.net.network()
