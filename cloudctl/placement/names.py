"""Resource classes and traits that placement knows of itself; others begin with CUSTOM_.

Those of the standard lists that something here can have or ask for; the lists are larger, and name hardware that no
driver of ours tells of.
"""

from __future__ import annotations

import re

VCPU, MEMORY_MB, DISK_GB = "VCPU", "MEMORY_MB", "DISK_GB"

RESOURCE_CLASSES = (
    VCPU,
    MEMORY_MB,
    DISK_GB,
    "PCI_DEVICE",
    "SRIOV_NET_VF",
    "NUMA_SOCKET",
    "NUMA_CORE",
    "NUMA_THREAD",
    "NUMA_MEMORY_MB",
    "IPV4_ADDRESS",
    "VGPU",
    "VGPU_DISPLAY_HEAD",
    "NET_BW_EGR_KILOBIT_PER_SEC",
    "NET_BW_IGR_KILOBIT_PER_SEC",
    "PCPU",
    "MEM_ENCRYPTION_CONTEXT",
    "FPGA",
    "PGPU",
    "NET_PACKET_RATE_KILOPACKET_PER_SEC",
    "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC",
    "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
)

# A host whose service is disabled takes no new servers.
DISABLED = "COMPUTE_STATUS_DISABLED"
# A provider whose inventory the others of its aggregates share.
SHARES = "MISC_SHARES_VIA_AGGREGATE"
# A provider of hosts.
NODE = "COMPUTE_NODE"

TRAITS = frozenset(
    {
        DISABLED,
        SHARES,
        NODE,
        "COMPUTE_DEVICE_TAGGING",
        "COMPUTE_NET_ATTACH_INTERFACE",
        "COMPUTE_RESCUE_BFV",
        "COMPUTE_TRUSTED_CERTS",
        "COMPUTE_VOLUME_ATTACH_WITH_TAG",
        "COMPUTE_VOLUME_EXTEND",
        "COMPUTE_VOLUME_MULTI_ATTACH",
        "COMPUTE_IMAGE_TYPE_ISO",
        "COMPUTE_IMAGE_TYPE_QCOW2",
        "COMPUTE_IMAGE_TYPE_RAW",
        "HW_CPU_HYPERTHREADING",
        "HW_CPU_X86_AESNI",
        "HW_CPU_X86_AVX",
        "HW_CPU_X86_AVX2",
        "HW_CPU_X86_AVX512F",
        "HW_CPU_X86_SGX",
        "HW_CPU_X86_SSE",
        "HW_CPU_X86_SSE2",
        "HW_CPU_X86_SSE41",
        "HW_CPU_X86_SSE42",
        "HW_CPU_X86_SVM",
        "HW_CPU_X86_VMX",
        "HW_GPU_API_VULKAN",
        "HW_NIC_ACCEL_SSL",
        "HW_NIC_SRIOV",
        "HW_NUMA_ROOT",
        "STORAGE_DISK_HDD",
        "STORAGE_DISK_SSD",
    }
)

CUSTOM = re.compile(r"CUSTOM_[A-Z0-9_]+", re.ASCII)
LONGEST = 255


def is_custom(name: str) -> bool:
    """Whether clients may make a class, or a trait, of this name."""
    return len(name) <= LONGEST and CUSTOM.fullmatch(name) is not None
