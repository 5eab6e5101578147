"""A split as it is shown: one device for each of its entries, however many accelerators take turns on one."""

from dataclasses import replace

from solvers.model.deployment import Deployment
from solvers.model.split import Split


def by_entry(split: Split, deployment: Deployment) -> tuple[Split, Deployment]:
    """Return the split, and as many accelerators as it has entries: one that is replicated is shown as one device."""
    if not split.replicas:
        return split, deployment
    used = sum(map(bool, split.accelerators))
    entries = Split(split.accelerators[:used], split.cpus, split.replicas[:used])
    return entries, replace(deployment, num_accelerators=used)
