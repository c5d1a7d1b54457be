"""Norms, softmax and the activation: what all layers share."""

import numpy as np

import ops
from case import Case, bf16


def cases():
    """All of this module."""
    yield rms_norm()
    yield rms_norm_mla()
    yield l2_norm()
    yield softmax()
    yield situ()


def rms_norm():
    """Every RMS norm of the model but two."""
    rng = np.random.default_rng(1)
    x = bf16(rng.normal(size=(3, 40)) * np.array([[2.0], [4e-3], [3e-4]]))
    weight = bf16(rng.normal(1.0, 0.4, size=40))
    square = x * x
    return Case(
        "rms_norm",
        "4.1",
        "Rows of falling size, so that the epsilon counts; a length with a tail after 16 lanes.",
        {"x": x, "weight": weight},
        {"y": ops.rms_norm(x, weight)},
        {
            "eps_of_mla": {"y": ops.rms_norm(x, weight, ops.MLA_EPS)},
            "eps_on_the_sum": {"y": weight * x / np.sqrt((square.sum(-1, keepdims=True) + ops.RMS_EPS) / 40)},
            "eps_after_the_root": {"y": weight * x / (np.sqrt(square.mean(-1, keepdims=True)) + ops.RMS_EPS)},
            "sum_instead_of_mean": {"y": weight * x / np.sqrt(square.sum(-1, keepdims=True) + ops.RMS_EPS)},
            "mean_subtracted": {"y": ops.rms_norm(x - x.mean(-1, keepdims=True), weight)},
            "one_plus_weight": {"y": ops.rms_norm(x, 1 + weight)},
        },
        {"eps": ops.RMS_EPS},
    )


def rms_norm_mla():
    """The two that have their own epsilon."""
    rng = np.random.default_rng(2)
    x = bf16(rng.normal(size=(2, 24)) * np.array([[5e-3], [6e-4]]))
    weight = bf16(rng.normal(1.0, 0.4, size=24))
    return Case(
        "rms_norm_mla",
        "4.1",
        "The two norms inside MLA have an epsilon of their own.",
        {"x": x, "weight": weight},
        {"y": ops.rms_norm(x, weight, ops.MLA_EPS)},
        {"eps_of_the_model": {"y": ops.rms_norm(x, weight, ops.RMS_EPS)}},
        {"eps": ops.MLA_EPS},
    )


def l2_norm():
    """Queries and keys of KDA."""
    rng = np.random.default_rng(3)
    x = bf16(rng.normal(size=(3, 32)) * np.array([[1.0], [1e-3], [1e-4]]))
    square = x * x
    return Case(
        "l2_norm",
        "4.4",
        "Queries and keys of KDA, one head a row. The epsilon is added to the sum of squares.",
        {"x": x},
        {"y": ops.l2_norm(x)},
        {
            "eps_on_the_mean": {"y": x / np.sqrt((square.mean(-1, keepdims=True) + ops.L2_EPS) * 32)},
            "eps_of_the_model": {"y": ops.l2_norm(x, ops.RMS_EPS)},
            "mean_instead_of_sum": {"y": x / np.sqrt(square.mean(-1, keepdims=True) + ops.L2_EPS)},
            "no_eps": {"y": ops.l2_norm(x, 0.0)},
        },
        {"eps": ops.L2_EPS},
    )


def softmax():
    """Of attention, and of the residual mixes."""
    rng = np.random.default_rng(4)
    x = bf16(
        rng.normal(size=(4, 19)) * np.array([[1.0], [6.0], [0.2], [0.1]]) + np.array([[0.0], [0.0], [300.0], [-300.0]])
    )
    with np.errstate(over="ignore", invalid="ignore"):
        small = np.exp(x.astype(np.float32))
        overflow = (small / small.sum(-1, keepdims=True)).astype(np.float64)
    power = np.exp2(x - x.max(-1, keepdims=True))
    return Case(
        "softmax",
        "4.3",
        "Rows around 0, +300 and -300: the largest value must come off first, or f32 overflows and underflows.",
        {"x": x},
        {"y": ops.softmax(x)},
        {
            "largest_not_subtracted": {"y": overflow},
            "powers_of_two": {"y": power / power.sum(-1, keepdims=True)},
            "over_columns": {"y": ops.softmax(x.T).T},
        },
    )


def situ():
    """The activation."""
    rng = np.random.default_rng(5)
    gate = bf16(
        np.concatenate([rng.normal(size=12) * 3, [-90.0, -12.0, -5.0, -0.004, 0.0, 0.004, 3.0, 6.0, 30.0, 90.0]])
    )
    up = bf16(np.concatenate([rng.normal(size=12) * 30, [2.0, -3.0, 60.0, 2.0, 1.0, -7.0, -40.0, 90.0, -200.0, 500.0]]))
    capped = 4 * np.tanh(gate / 4)
    up_capped = 25 * np.tanh(up / 25)
    return Case(
        "situ",
        "4.6",
        "Both halves run into their caps, on either side. The sigmoid takes the gate before its cap.",
        {"gate": gate, "up": up},
        {"y": ops.situ(gate, up)},
        {
            "capped_gate_into_the_sigmoid": {"y": capped * ops.sigmoid(capped) * up_capped},
            "caps_exchanged": {"y": ops.situ(gate, up, 25.0, 4.0)},
            "linear_half_not_capped": {"y": capped * ops.sigmoid(gate) * up},
            "gate_not_capped": {"y": ops.silu(gate) * up_capped},
            "halves_exchanged": {"y": ops.situ(up, gate)},
            "no_sigmoid": {"y": capped * up_capped},
        },
        {"beta": 4.0, "linear_beta": 25.0},
    )
