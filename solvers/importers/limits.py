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
MAX_RANK = 32
"""Dimensions of a tensor."""
MAX_ELEMENTS = 2**50
"""Of a tensor, and the largest size of one dimension."""
MAX_EXPRESSION = 2_000
"""Characters of the formula of a symbolic size."""
MAX_NODES = 10_000
"""Of a graph that is folded until it has as few nodes as asked for."""
