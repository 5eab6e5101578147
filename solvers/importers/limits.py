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

MAX_DIMENSIONS = 1024
"""Sizes given for dimensions that a file leaves open."""
MAX_PROFILE_BYTES = 8 * 2**20
"""Of a profile; real ones have up to a MiB."""
MAX_PROFILE_NODES = 20_000
MAX_PROFILE_EDGES = 100_000
