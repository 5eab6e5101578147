"""Groups of blocks that a search moves as one: clusters along heavy hyperedges, different every time.

Moving one block at a time must climb over the dear transfers it cuts on the way. A coarse problem, whose blocks are
clusters, has no such hills inside of clusters; what was found there is refined block by block (multilevel
partitioning: Karypis and Kumar 1998, KaHyPar: Schlag et al. 2016; here with clusters inside the devices of a plan, as
in their V-cycles, so that the plan is one of the coarse problem).

Hyperedges are taken in the order of weight times a random factor; the ends of one that are in the same part join as
long as the cluster stays light. Time O(ends of hyperedges log).
"""

import numpy as np

from solvers.problem.contraction import Contraction, IntArray


def clusters(
    contraction: Contraction, part: IntArray, num_clusters: int, heaviest_ms: float, rng: np.random.Generator
) -> list[int]:
    """Return a cluster number per block: about `num_clusters`, each in one part, with work up to `heaviest_ms`.

    A part is what is on a device in a plan, or on the same devices in each of several plans.

    A cluster holds either only blocks that run on accelerators, or only one.
    """
    work = np.where(np.isfinite(contraction.accelerator_ms), contraction.accelerator_ms, np.inf).tolist()
    parent = list(range(contraction.num_blocks))
    where = part.tolist()

    def root(b: int) -> int:
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        return b

    weights = np.array([h.weight_ms for h in contraction.hyperedges])
    order = np.argsort(-weights * rng.random(len(weights)) ** rng.uniform(0.0, 3.0), kind="stable")
    left = contraction.num_blocks
    for e in order.tolist():
        if left <= num_clusters:
            break
        first_in: dict[int, int] = {}
        for b in contraction.hyperedges[e].blocks:
            a = root(first_in.setdefault(where[b], b))
            c = root(b)
            if a != c and work[a] + work[c] <= heaviest_ms:
                parent[c] = a
                work[a] += work[c]
                left -= 1
    return [root(b) for b in range(contraction.num_blocks)]
