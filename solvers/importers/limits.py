"""How large imported models and what is asked of them may be: what is larger is a typing error or an attack.

All stay below what a node may hold (`solvers.model.graph.LARGEST`), or the graph refuses it in one sentence.
"""

MAX_FILE_BYTES = 2**20
"""Of a configuration; real ones have a few KiB."""
MAX_WIDTH = 2**20
"""Features of a tensor, of a feed-forward part too."""
MAX_LAYERS = 1024
MAX_HEADS = 4096
MAX_VOCABULARY = 2**24
MAX_EXPERTS = 4096
MAX_BATCH = 2**20
MAX_TOKENS = 2**24
"""Of a sequence, and positions of a model."""
MAX_TOKENS_IN_ALL = 2**30
"""Of all sequences of a batch."""
MAX_LABELS = 2**20

MAX_DIRECTORY_BYTES = 4 * 2**20
"""Of the list of members of an archive; those of large models have some hundred KiB."""
MAX_PROGRAM_BYTES = 32 * 2**20
"""Of an exported graph, which has no weights in it: 2 to 4 KiB per operator. Reading the worst one, nothing but empty
objects, takes less than 1 GiB of memory."""
MAX_OPERATORS = 50_000
"""Of an exported graph, those in its subgraphs too."""
MAX_SUBGRAPH_DEPTH = 20
MAX_EXPRESSION = 2_000
"""Characters of the formula of a symbolic size."""
MAX_NODES = 10_000
"""Of a graph that is folded until it has as few nodes as asked for."""

MAX_DIMENSIONS = 1024
"""Sizes given for dimensions that a file leaves open."""
MAX_PROFILE_BYTES = 8 * 2**20
"""Of a profile; real ones have up to a MiB."""
MAX_PROFILE_NODES = 20_000
MAX_PROFILE_EDGES = 100_000

MAX_ONNX_BYTES = 2**31
"""Of an ONNX file: protobuf messages are smaller. Weights are skipped, so they take no memory."""
MAX_ONNX_STRUCTURE_BYTES = 48 * 2**20
"""Of an ONNX file without its large weights; real ones have up to about 20 MiB."""
MAX_ONNX_FIELDS = 2_000_000
"""Of all messages in it: a message takes some 200 bytes of memory, however short it is in the file."""
MAX_ONNX_OPERATORS = 20_000
"""Of all graphs of a file, with functions written out."""
MAX_ONNX_TENSORS = 100_000
"""Weights of a file."""
MAX_KEPT_TENSOR_BYTES = 2**16
"""Of a tensor in an ONNX file whose values are read: those of shapes, axes and the like."""
MAX_FOLDED_ELEMENTS = 2**16
"""Of a tensor that is computed while a file is read."""
MAX_OPSET = 2**20
MAX_RANK = 64
"""Dimensions of a tensor."""
MAX_ELEMENTS = 2**50
"""Of a tensor, and the largest size of one dimension."""
MAX_SEQUENCE_ITEMS = 2**16
"""Tensors of a sequence."""
MAX_ITEMS_HANDLED = 2**22
"""Tensors of all sequences that operators of a file read and write."""
MAX_TRIPS = 2**20
"""Of a loop."""
TIED_ELEMENTS = 2**16
"""Weights of fewer elements that several operators use are copied to each, and tie no devices together."""
