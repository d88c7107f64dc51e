"""Measurements of others that ours stand beside, with where they come from."""

ASTRA_SIM = (
    "ASTRA-sim 2 (8519ede, network-analytical 599a047), congestion-unaware; 128 GB/s a link and direction, third "
    "dimension 64, switch 160 GB/s a port and direction (GB = 2^30); 1000 ns a hop; 4 chunks; measured"
)
ASTRA_US: dict[str, dict[str, dict[int, float]]] = {
    "torus4x4": {
        "all_reduce": {1: 36.54, 16: 220.41, 64: 808.78, 256: 3162.26, 1024: 12576.10},
        "reduce_scatter": {1: 22.11, 16: 126.28, 64: 459.60, 256: 1792.87, 1024: 7125.89},
        "all_gather": {1: 112.47, 16: 1571.59, 64: 6240.78, 256: 24917.53, 1024: 99624.56},
        "all_to_all": {1: 44.63, 16: 259.22, 64: 945.86, 256: 3692.45, 1024: 14678.78},
    },
    "torus4x4x4": {
        "all_reduce": {1: 41.70, 16: 220.41, 64: 808.78, 256: 3162.26, 1024: 12576.10},
        "reduce_scatter": {1: 25.33, 16: 132.37, 64: 474.89, 256: 1844.93, 1024: 7325.05},
        "all_gather": {1: 418.77, 16: 6426.93, 64: 25652.99, 256: 102557.29, 1024: 410174.47},
        "all_to_all": {1: 65.00, 16: 494.16, 64: 1867.46, 256: 7360.62, 1024: 29333.28},
    },
    "switch64": {
        "all_reduce": {1: 109.00, 16: 297.13, 64: 899.14, 256: 3307.16, 1024: 12939.20},
        "reduce_scatter": {1: 54.76, 16: 152.77, 64: 466.39, 256: 1720.84, 1024: 6738.62},
        "all_gather": {1: 432.79, 16: 6200.62, 64: 24657.65, 256: 98485.78, 1024: 393798.28},
    },
    "ring64": {
        "all_reduce": {1: 524.45, 64: 1538.25, 1024: 16982.82},
        "reduce_scatter": {1: 262.62, 64: 803.16, 1024: 9038.02},
        "all_gather": {1: 735.12, 64: 31016.20, 1024: 492441.81},
        "all_to_all": {1: 8378.54, 64: 23522.73, 1024: 254233.77},
    },
}
"""Microseconds by network, collective and MiB each rank puts in; on the switch by halving and doubling."""

ASTRA_DIRECT_US = 105.74
"""All-to-all of 1 GiB on the switch by ASTRA-sim's ``direct``, which forgets that a port carries one byte at a time."""

TWO_RANKS = "aws-neuron-sdk, tools/neuron-sys-tools/nccom-test.rst: sample output, all-reduce of fp32 over 2 ranks"
TWO_RANKS_US: dict[int, float] = {
    64 << 10: 58,
    256 << 10: 60,
    1 << 20: 68,
    4 << 20: 107,
    16 << 20: 332,
    64 << 20: 1214,
    1 << 30: 18930,
}
"""Microseconds by bytes; 58 us is also what every smaller size takes."""
