"""What a result says of the machine it was measured on."""

import pytest
import torch
from kernel_evaluator.machine import environment
from kernel_evaluator.machine.figures import gpu_model


@pytest.mark.parametrize(
    ("device", "model"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("AMD Instinct MI300X", "MI300X"),
        ("NVIDIA", "NVIDIA"),
    ],
)
def test_a_device_has_one_short_name_for_rows_plans_and_records(device, model):
    assert gpu_model(device) == model
    assert environment.gpu_model is gpu_model


def test_a_cpu_is_described_with_its_walls_and_how_memory_is_shared():
    said = environment.describe_device("cpu", ("uid", "network"), shared=True)
    assert (said.gpu, said.torch) == ("CPU", torch.__version__)
    assert said.isolation == ("network", "shared-memory", "uid")
    assert said.device and "processors" in said.host
    assert "host-copies" in environment.describe_device("cpu", (), shared=False).isolation
