"""What a load consists of: the times that add up to it, and those that run beside them for nothing.

A device that transfers and computes one after the other pays for all of it; one that overlaps them pays for the longer
only, and the shorter is hidden behind it (`solvers.model.deployment.Communication`). The paid parts always add up to
the load, which is what makes "0.4 ms of transfers less" a statement about the time per micro-batch.
"""

from dataclasses import dataclass, fields

from solvers.model.costs import DeviceCosts, PassCosts
from solvers.model.deployment import Communication


@dataclass(frozen=True, slots=True)
class LoadParts:
    """One device's time per micro-batch in ms, its replicas taken into account: paid parts, and hidden ones.

    `load_ms` is the sum of compute, receive, send and sync; what is hidden takes place meanwhile.
    """

    device: int
    compute_ms: float
    receive_ms: float
    send_ms: float
    sync_ms: float
    hidden_compute_ms: float = 0.0
    hidden_receive_ms: float = 0.0
    hidden_send_ms: float = 0.0

    @property
    def transfer_ms(self) -> float:
        """What is paid for moving data: receiving, sending and the sync of replicas."""
        return self.receive_ms + self.send_ms + self.sync_ms

    @property
    def load_ms(self) -> float:
        """The sum of the paid parts."""
        return self.compute_ms + self.transfer_ms

    def __add__(self, other: "LoadParts") -> "LoadParts":
        """Add times part by part; the device is that of the first."""
        times = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self) if f.name != "device"}
        return LoadParts(self.device, **times)

    def __sub__(self, other: "LoadParts") -> "LoadParts":
        """Subtract times part by part; the device is that of the first."""
        times = {f.name: getattr(self, f.name) - getattr(other, f.name) for f in fields(self) if f.name != "device"}
        return LoadParts(self.device, **times)


def load_parts(device: DeviceCosts) -> LoadParts:
    """Return what a device's load, both passes together, consists of.

    >>> parts = load_parts(DeviceCosts(0, PassCosts(3.0, 1.0, 0.5), PassCosts(), 0.0))
    >>> parts.compute_ms, parts.transfer_ms, parts.load_ms
    (3.0, 1.5, 4.5)
    """
    both = PassCosts(device.compute_ms, device.receive_ms, device.send_ms)
    return _parts(device, both, device.sync_ms)


def forward_parts(device: DeviceCosts) -> LoadParts:
    """Return what the time of a device's forward pass consists of."""
    return _parts(device, device.forward, 0.0)


def backward_parts(device: DeviceCosts) -> LoadParts:
    """Return what the time of a device's backward pass consists of, the sync of replicas included."""
    return _parts(device, device.backward, device.sync_ms)


def _parts(device: DeviceCosts, costs: PassCosts, sync_ms: float) -> LoadParts:
    compute, receive, send = (time / device.replicas for time in (costs.compute_ms, costs.receive_ms, costs.send_ms))
    if device.communication is Communication.OVERLAPPED:
        if compute >= receive + send:
            return LoadParts(device.device, compute, 0.0, 0.0, sync_ms, 0.0, receive, send)
        return LoadParts(device.device, 0.0, receive, send, sync_ms, hidden_compute_ms=compute)
    if device.communication is Communication.FULL_DUPLEX:
        if receive >= send:
            return LoadParts(device.device, compute, receive, 0.0, sync_ms, hidden_send_ms=send)
        return LoadParts(device.device, compute, 0.0, send, sync_ms, hidden_receive_ms=receive)
    return LoadParts(device.device, compute, receive, send, sync_ms)
