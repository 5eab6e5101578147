"""How long an operator takes: a roofline over public figures of one accelerator, one CPU and one link.

    time_ms     = max(flops / (peak_flops · 0.5), bytes / (memory_bandwidth · 0.75))
    transfer_ms = output bytes / link bandwidth

`flops` counts one multiply-add as two; `bytes` is what the operator reads and writes in device memory. The formula and
its efficiencies are those of `solvers.hardware.roofline`, the figures those of `solvers.hardware.catalogue`. What
matters to a placement is that dense layers cost by arithmetic, element-wise ones by traffic, and that a CPU is some 32
times slower at the first but only 2.5 times at the second.
"""

from solvers.hardware.catalogue import catalogue
from solvers.hardware.devices import Precision
from solvers.hardware.roofline import Setup
from solvers.importers.cost_model import CostModel

BYTES_PER_ELEMENT = 2
"""Weights and activations are stored in half precision (fp16 or bf16), on the CPU too."""

STATE_BYTES_PER_PARAMETER = 16
"""Training, per parameter: fp16 weight 2 and gradient 2; fp32 master weight 4, Adam momentum 4 and variance 4.

Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", SC 2020, section 3.1.
"""

ACCELERATOR = Setup(catalogue().accelerator("T4"), Precision.FP16)
"""65 TFLOPS in mixed precision, 16 GB at 320 GB/s."""

CPU = Setup(catalogue().host("Xeon-6148"), Precision.FP32)
"""2.048 TFLOPS, 128 GB/s."""

LINK_BYTES_PER_MS = catalogue().link("pcie3-x16").bandwidth_bytes_per_ms
"""12.6 GB/s, what PCIe 3.0 x16 leaves for data."""

COSTS = CostModel(ACCELERATOR, CPU, LINK_BYTES_PER_MS, BYTES_PER_ELEMENT, BYTES_PER_ELEMENT, STATE_BYTES_PER_PARAMETER)
"""What operators of the samples cost."""
