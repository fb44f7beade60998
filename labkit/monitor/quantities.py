"""What a monitor reads: each series' name, label, unit, and the factor it is shown with."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Quantity:
    """One series, in base units (watts, hertz, bytes, bytes/s, °C); shares are percent, as NVML gives them.

    factor: shown value = held value × factor, in `unit`.
    """

    name: str
    label: str
    unit: str = "%"
    factor: float = 1.0
    digits: int = 0

    def text(self, value: float | None) -> str:
        """The value as it is shown: "82 %", or a dash where there is none."""
        if value is None or math.isnan(value):
            return "—"
        return f"{value * self.factor:,.{self.digits}f} {self.unit}"


# NVML GPM metric → series. Percentages are 0–100; traffic is MiB/s. Source: nvml.h, nvmlGpmMetricId_t.
MIB = float(1 << 20)
GPM = {
    "NVML_GPM_METRIC_SM_UTIL": ("sm_active", 1.0),
    "NVML_GPM_METRIC_SM_OCCUPANCY": ("sm_occupancy", 1.0),
    "NVML_GPM_METRIC_ANY_TENSOR_UTIL": ("tensor", 1.0),
    "NVML_GPM_METRIC_FP64_UTIL": ("fp64", 1.0),
    "NVML_GPM_METRIC_FP32_UTIL": ("fp32", 1.0),
    "NVML_GPM_METRIC_FP16_UTIL": ("fp16", 1.0),
    "NVML_GPM_METRIC_INTEGER_UTIL": ("integer", 1.0),
    "NVML_GPM_METRIC_DRAM_BW_UTIL": ("dram", 1.0),
    "NVML_GPM_METRIC_PCIE_TX_PER_SEC": ("pcie_sent", MIB),
    "NVML_GPM_METRIC_PCIE_RX_PER_SEC": ("pcie_received", MIB),
    "NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC": ("nvlink_sent", MIB),
    "NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC": ("nvlink_received", MIB),
}

_GPU = (
    Quantity("utilisation", "utilisation (nvidia-smi)"),
    Quantity("memory_controller", "memory controller (nvidia-smi)"),
    Quantity("sm_active", "SM activity", digits=1),
    Quantity("sm_occupancy", "SM occupancy", digits=1),
    Quantity("tensor", "tensor cores", digits=1),
    Quantity("fp64", "FP64", digits=1),
    Quantity("fp32", "FP32", digits=1),
    Quantity("fp16", "FP16", digits=1),
    Quantity("integer", "integer", digits=1),
    Quantity("dram", "DRAM activity", digits=1),
    Quantity("pcie_sent", "PCIe from the GPU", "GB/s", 1e-9, 2),
    Quantity("pcie_received", "PCIe to the GPU", "GB/s", 1e-9, 2),
    Quantity("nvlink_sent", "NVLink from the GPU", "GB/s", 1e-9, 2),
    Quantity("nvlink_received", "NVLink to the GPU", "GB/s", 1e-9, 2),
    Quantity("power", "power (nvidia-smi)", "W"),
    Quantity("power_now", "power, this instant", "W"),
    Quantity("energy", "energy since the start", "J"),
    Quantity("sm_clock", "SM clock", "MHz", 1e-6),
    Quantity("memory_clock", "memory clock", "MHz", 1e-6),
    Quantity("temperature", "temperature", "°C"),
    Quantity("memory_used", "memory used", "GB", 1e-9, 2),
)
_HOST = (
    Quantity("cpu", "CPU, all cores"),
    Quantity("cpu_busiest", "CPU, busiest core"),
    Quantity("host_memory", "host memory used", "GB", 1e-9, 2),
    Quantity("disk_read", "disk reads", "MB/s", 1e-6, 1),
    Quantity("battery", "battery"),
)
GPU = {q.name: q for q in _GPU}
HOST = {q.name: q for q in _HOST}
ALL = {**GPU, **HOST}
