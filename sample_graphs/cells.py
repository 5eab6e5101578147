"""Networks of searched cells, NASNet-A and AmoebaNet-A: wide, irregular graphs with far too many ideals to list.

A cell reads the outputs of the two cells before it, states 0 (the one before the last) and 1 (the last), each brought
to the cell's width by a ReLU, a 1 x 1 convolution and a normalisation. It adds up pairs of operations on states, which
makes states 2 to 6, and stacks some of them. A reduction cell halves the size: its operations on states 0 and 1 have
stride 2. Separable convolutions are applied twice, each after a ReLU and before a normalisation.

Zoph et al., "Learning transferable architectures for scalable image recognition", CVPR 2018, figure 4 and appendix A.4:
a 3 x 3 convolution, two reduction cells at a quarter and half of the width, then three groups of N normal cells with a
reduction cell between them that doubles the width. Real et al., "Regularized evolution for image classifier
architecture search", AAAI 2019, figure 5: the same outer structure, and cells in the notation of Liu et al., "DARTS",
ICLR 2019.
"""

from dataclasses import dataclass

from sample_graphs.convolutional import ConvolutionalBuilder, Image
from solvers.importers.network import Network, NetworkBuilder

NUM_CLASSES = 1000


@dataclass(frozen=True, slots=True)
class Cell:
    """Pairs of (operation, state) that are added up, and the states that are stacked."""

    pairs: tuple[tuple[tuple[str, int], tuple[str, int]], ...]
    stacked: tuple[int, ...]


NASNET_NORMAL = Cell(
    (
        (("sep 5", 1), ("sep 3", 0)),
        (("sep 5", 0), ("sep 3", 0)),
        (("avg 3", 1), ("skip", 0)),
        (("avg 3", 0), ("avg 3", 0)),
        (("sep 3", 1), ("skip", 1)),
    ),
    (0, 2, 3, 4, 5, 6),
)
NASNET_REDUCTION = Cell(
    (
        (("sep 5", 1), ("sep 7", 0)),
        (("max 3", 1), ("sep 7", 0)),
        (("avg 3", 1), ("sep 5", 0)),
        (("skip", 3), ("avg 3", 2)),
        (("sep 3", 2), ("max 3", 1)),
    ),
    (3, 4, 5, 6),
)
AMOEBANET_NORMAL = Cell(
    (
        (("avg 3", 0), ("max 3", 1)),
        (("sep 3", 0), ("sep 5", 2)),
        (("sep 3", 0), ("avg 3", 3)),
        (("sep 3", 1), ("skip", 1)),
        (("skip", 0), ("avg 3", 1)),
    ),
    (4, 5, 6),
)
AMOEBANET_REDUCTION = Cell(
    (
        (("avg 3", 0), ("sep 3", 1)),
        (("max 3", 0), ("sep 7", 2)),
        (("sep 7", 0), ("avg 3", 1)),
        (("max 3", 0), ("max 3", 1)),
        (("row and column 7", 0), ("sep 3", 5)),
    ),
    (3, 4, 6),
)


def nasnet_a_mobile(micro_batch: int, *, training: bool) -> Network:
    """NASNet-A (4 @ 1056) on 3 x 224 x 224 images."""
    cells = NASNET_NORMAL, NASNET_REDUCTION
    return _network("NASNet-A mobile", micro_batch, cells, size=224, stem=32, width=44, repeats=4, training=training)


def nasnet_a_large(micro_batch: int, *, training: bool) -> Network:
    """NASNet-A (6 @ 4032) on 3 x 331 x 331 images."""
    cells = NASNET_NORMAL, NASNET_REDUCTION
    return _network("NASNet-A large", micro_batch, cells, size=331, stem=96, width=168, repeats=6, training=training)


def amoebanet_a(micro_batch: int, *, training: bool) -> Network:
    """AmoebaNet-A (N = 4, F = 50) on 3 x 224 x 224 images, the "mobile" setting of the paper."""
    cells = AMOEBANET_NORMAL, AMOEBANET_REDUCTION
    return _network("AmoebaNet-A", micro_batch, cells, size=224, stem=32, width=50, repeats=4, training=training)


def _network(
    name: str,
    micro_batch: int,
    cells: tuple[Cell, Cell],
    *,
    size: int,
    stem: int,
    width: int,
    repeats: int,
    training: bool,
) -> Network:
    normal, reduction = cells
    net = NetworkBuilder(name, micro_batch, layer="stem")
    cnn = ConvolutionalBuilder(net)
    x = cnn.batch_norm("stem bn", cnn.conv("stem conv", Image(None, 3, size), stem, kernel=3, stride=2))
    before = x
    for i, part in ((1, 4), (2, 2)):
        before, x = x, _cell(cnn, f"stem cell {i}", reduction, before, x, width // part, stride=2)
    for group in range(3):
        if group:
            before, x = x, _cell(cnn, f"reduction {group}", reduction, before, x, width * 2**group, stride=2)
        for i in range(1, repeats + 1):
            before, x = x, _cell(cnn, f"cell {group + 1}.{i}", normal, before, x, width * 2**group, stride=1)
    net.layer = "head"
    logits = cnn.classify(cnn.relu("head relu", x), NUM_CLASSES)
    if training:
        net.loss(logits)
    return net.network()


def _cell(
    cnn: ConvolutionalBuilder, name: str, cell: Cell, before: Image, last: Image, width: int, stride: int
) -> Image:
    cnn.net.layer = name
    states = [_fitted(cnn, f"{name} before", before, last.size, width), _fitted(cnn, f"{name} last", last, 0, width)]
    for i, pair in enumerate(cell.pairs, start=1):
        sides = [
            _operation(cnn, f"{name} {i}.{j}", kind, states[state], width, stride if state < 2 else 1)
            for j, (kind, state) in enumerate(pair, start=1)
        ]
        states.append(cnn.add(f"{name} {i} add", *sides))
    return cnn.concat(f"{name} concat", *(states[i] for i in cell.stacked))


def _fitted(cnn: ConvolutionalBuilder, name: str, x: Image, size: int, width: int) -> Image:
    """Bring an image to a width, and to the size of the other one if it is larger: then half the width for each path.

    The two paths of this "factorised reduction" start one pixel apart.
    """
    y = cnn.relu(f"{name} relu", x)
    if size and x.size > size:
        paths = []
        for side in ("a", "b"):
            part = cnn.avg_pool(f"{name} pool {side}", y, kernel=1, stride=2)
            part = Image(part.op, part.channels, size)
            paths.append(cnn.conv(f"{name} conv {side}", part, width // 2, kernel=1))
        y = cnn.concat(f"{name} concat", *paths)
    else:
        y = cnn.conv(f"{name} conv", y, width, kernel=1)
    return cnn.batch_norm(f"{name} bn", y)


def _operation(cnn: ConvolutionalBuilder, name: str, kind: str, x: Image, width: int, stride: int) -> Image:
    if kind == "skip":
        return x
    what, kernel = kind.rsplit(" ", 1)
    window = int(kernel)
    if what == "avg":
        return cnn.avg_pool(f"{name} avg", x, window, stride, window // 2)
    if what == "max":
        return cnn.max_pool(f"{name} max", x, window, stride, window // 2)
    if what == "row and column":
        y = cnn.conv(f"{name} row", cnn.relu(f"{name} relu", x), width, (1, window), 1, (0, window // 2))
        y = cnn.conv(f"{name} column", y, width, (window, 1), stride, (window // 2, 0))
        return cnn.batch_norm(f"{name} bn", y)
    for i in (1, 2):
        y = cnn.relu(f"{name} relu {i}", x)
        y = cnn.conv(
            f"{name} depth {i}", y, y.channels, window, stride if i == 1 else 1, window // 2, groups=y.channels
        )
        x = cnn.batch_norm(f"{name} bn {i}", cnn.conv(f"{name} point {i}", y, width, kernel=1))
        stride = 1
    return x
