"""What an operator of a network costs on devices: times by the roofline, and the bytes that numbers take."""

from dataclasses import dataclass

from solvers.hardware.roofline import Setup
from solvers.importers.network import Op
from solvers.model.graph import TimesKind, TimesOrigin


@dataclass(frozen=True, slots=True)
class CostModel:
    """Devices, a link, and bytes: of a weight, of an element of any other tensor, and of a trained parameter's state.

    `state_bytes` counts all that training keeps per parameter: weight, gradient, master copy, optimizer.

        time_ms     = roofline of flops and bytes (`solvers.hardware.roofline`)
        transfer_ms = output bytes / link_bytes_per_ms
    """

    accelerator: Setup
    host: Setup
    link_bytes_per_ms: float
    weight_bytes: float
    element_bytes: float
    state_bytes: float

    @property
    def times(self) -> TimesOrigin:
        """What a graph with these costs says of its times."""
        accelerator, host = self.accelerator, self.host
        return TimesOrigin(
            accelerator.processor.name, str(accelerator.precision), host.processor.name, TimesKind.ROOFLINE
        )

    def bytes_of_weight(self, op: Op) -> float:
        """Return the bytes of each weight of an operator."""
        return float(self.weight_bytes if op.weight_bytes is None else op.weight_bytes)

    def transfer_ms(self, size_bytes: float) -> float:
        """Return the time in ms to move a tensor of `size_bytes` between an accelerator and host memory."""
        return size_bytes / self.link_bytes_per_ms


def time_ms(device: Setup, flops: float, traffic_bytes: float) -> float:
    """Return the time of an operator in ms, to the six digits that the files have.

    >>> from solvers.hardware.catalogue import catalogue
    >>> from solvers.hardware.devices import Precision
    >>> time_ms(Setup(catalogue().accelerator("T4"), Precision.FP16), 32.5e9, 0)
    1.0
    """
    return float(f"{device.roofline_ms(flops, traffic_bytes):.6g}")
