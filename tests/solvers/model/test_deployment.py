"""Tests of the devices to place on."""

import math

import pytest

from solvers.model.deployment import MAX_DEVICES, MAX_SUBGRAPHS, Deployment
from solvers.model.errors import DeploymentError


def test_devices_are_numbered_accelerators_first() -> None:
    deployment = Deployment(2, 3, 100.0)
    assert deployment.num_devices == 5
    assert [deployment.is_cpu(d) for d in range(5)] == [False, False, True, True, True]
    assert [deployment.capacity_bytes(d) for d in range(5)] == [100.0, 100.0, None, None, None]
    assert [deployment.device_name(d) for d in range(5)] == [
        "Accelerator 1",
        "Accelerator 2",
        "CPU 1",
        "CPU 2",
        "CPU 3",
    ]


def test_no_devices_and_no_memory_are_questions_with_an_answer() -> None:
    assert Deployment(0).num_devices == 0
    assert Deployment(1, memory_bytes=0.0).capacity_bytes(0) == 0.0


@pytest.mark.parametrize("count", [-1, MAX_DEVICES + 1])
def test_counts_out_of_range_are_refused(count: int) -> None:
    with pytest.raises(DeploymentError, match=f"{count} accelerators: give a number from 0 to {MAX_DEVICES}"):
        Deployment(count)
    with pytest.raises(DeploymentError, match=f"{count} CPUs: give"):
        Deployment(1, count)


@pytest.mark.parametrize("count", [0, MAX_SUBGRAPHS + 1])
def test_subgraphs_out_of_range_are_refused(count: int) -> None:
    with pytest.raises(DeploymentError, match=f"{count} subgraphs per accelerator: give a number from 1 to"):
        Deployment(1, max_subgraphs=count)


@pytest.mark.parametrize("memory_bytes", [-1.0, math.inf, math.nan])
def test_memory_that_is_no_size_is_refused(memory_bytes: float) -> None:
    with pytest.raises(DeploymentError, match="bytes of accelerator memory: give a finite number"):
        Deployment(1, memory_bytes=memory_bytes)
