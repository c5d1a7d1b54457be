"""Packed four-bit matrices (spec, section 1.4)."""

import numpy as np

import ops
from case import Case, bf16


def cases():
    """All of this module."""
    yield decode()
    yield decode_extremes()
    yield matvec()


def random_matrix(rng, rows, cols, low, high):
    """Bytes and scales of a [rows, cols] matrix, the scales' exponents in [low, high]."""
    packed = rng.integers(0, 256, size=(rows, cols // 2), dtype=np.uint8)
    return packed, rng.integers(low, high + 1, size=(rows, cols // ops.GROUP), dtype=np.uint8)


def mistakes(packed, scale):
    """What a matrix would be if its layout were misread."""
    rows, half = packed.shape
    low, high = ops.E2M1[packed & 15], ops.E2M1[packed >> 4]
    spread = np.exp2(np.repeat(scale, ops.GROUP, axis=1).astype(np.float64) - 127)
    swapped = np.stack([high, low], axis=2).reshape(rows, half * 2) * spread
    groups_of_16 = np.exp2(np.tile(np.repeat(scale, 16, axis=1), 2).astype(np.float64) - 127)
    integer = (np.stack([packed & 15, packed >> 4], axis=2).reshape(rows, -1).astype(np.int8) ^ 8) - 8.0
    right = ops.mxfp4_decode(packed, scale)
    return {
        "nibbles_swapped": swapped,
        "low_nibbles_then_high_nibbles": np.concatenate([low, high], axis=1) * spread,
        "scale_off_by_one": right * 2,
        "sign_ignored": np.abs(right),
        "nibbles_as_integers": integer * spread,
        "groups_of_16": right / spread * groups_of_16,
    }


def decode():
    """Bytes to numbers."""
    rng = np.random.default_rng(41)
    packed, scale = random_matrix(rng, 4, 128, 118, 131)
    # Every byte there is, once.
    packed = rng.permutation(256).astype(np.uint8).reshape(packed.shape)
    return Case(
        "mxfp4_decode",
        "1.4",
        "All 256 bytes under scales of all parities. Exact: every value is a small number times a power of two.",
        {"packed": packed, "scale": scale},
        {"w": ops.mxfp4_decode(packed, scale)},
        {name: {"w": value} for name, value in mistakes(packed, scale).items()},
        relative_tolerance=0.0,
    )


def decode_extremes():
    """Bytes to numbers at the ends of the range."""
    packed = np.tile(np.arange(16, dtype=np.uint8) * 17, (1, 4))
    scale = np.array([[0, 1, 2, 252]], dtype=np.uint8)
    right = ops.mxfp4_decode(packed, scale)
    flushed = np.where(np.abs(right) < 2.0**-126, 0.0, right)
    shifted = right.copy()
    shifted[:, :32] = 0.0
    return Case(
        "mxfp4_decode_extremes",
        "1.4",
        "The smallest scales, where values and the multiplier itself are subnormal in f32, and the largest finite one.",
        {"packed": packed, "scale": scale},
        {"w": right},
        {"subnormals_flushed": {"w": flushed}, "scale_0_taken_for_zero": {"w": shifted}},
        relative_tolerance=0.0,
    )


def matvec():
    """The product."""
    rng = np.random.default_rng(42)
    packed, scale = random_matrix(rng, 9, 96, 121, 129)
    x = bf16(rng.normal(size=(2, 96)))
    return Case(
        "mxfp4_matvec",
        "1.4",
        "Nine rows of three groups, times two vectors.",
        {"packed": packed, "scale": scale, "x": x},
        {"y": ops.lin(ops.mxfp4_decode(packed, scale), x)},
        {name: {"y": ops.lin(value, x)} for name, value in mistakes(packed, scale).items()},
    )
