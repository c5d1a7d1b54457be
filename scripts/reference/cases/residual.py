"""The residual stream: mixes and snapshots (spec, sections 4.2 and 4.3)."""

import numpy as np

import ops
from case import Case, bf16


def cases():
    """All of this module."""
    yield mix()


def wrong_mix(sources, norm, proj, mistake):
    """A mix with one step wrong; `None` is the right one."""
    v = np.stack(sources)
    normed = v / np.sqrt(np.mean(v * v, axis=-1, keepdims=True) + (1e-6 if mistake == "eps_1e-6" else ops.RMS_EPS))
    scores = (v if mistake == "keys_not_normed" else normed) @ (
        proj if mistake == "norm_weight_left_out" else norm * proj
    )
    if mistake == "scores_scaled":
        scores = scores * v.shape[-1] ** -0.5
    weights = ops.softmax(scores.T).T
    if mistake == "uniform":
        weights = np.full_like(weights, 1 / len(sources))
    return np.sum(weights[:, :, None] * (normed if mistake == "mixes_normed_values" else v), axis=0)


def mix():
    """One mix."""
    rng = np.random.default_rng(51)
    hidden, tokens = 24, 3
    # Sources of very different size; the last is so small that the epsilon counts.
    sizes = (0.2, 1.0, 9.0, 3e-3)
    sources = [bf16(rng.normal(size=(tokens, hidden)) * size) for size in sizes]
    norm, proj = bf16(rng.normal(1.0, 0.3, size=hidden)), bf16(rng.normal(size=hidden) * 0.3)
    assert np.abs(wrong_mix(sources, norm, proj, None) - ops.residual_mix(sources, norm, proj)).max() < 1e-12
    names = (
        "mixes_normed_values", "keys_not_normed", "scores_scaled", "norm_weight_left_out", "uniform", "eps_1e-6",
    )  # fmt: skip
    return Case(
        "residual_mix",
        "4.3",
        "Four sources, the prefix sum last. Keys are normed, the values that are mixed are not.",
        {"sources": np.stack(sources), "norm": norm, "proj": proj},
        {"y": ops.residual_mix(sources, norm, proj)},
        {name: {"y": wrong_mix(sources, norm, proj, name)} for name in names},
        {"eps": ops.RMS_EPS},
    )


WRONG_STACKS = (
    "snapshot_after_the_layer",
    "snapshot_one_layer_late",
    "sum_goes_on_at_a_snapshot",
    "mixes_normed_values",
    "branch_added_to_its_input",
    "embedding_not_kept",
    "last_mix_left_out",
)


def wrong_stack(x, layers, block, output, attention, feed_forward, tap, mistake):
    """`ops.residual_stack` with one step wrong; `None` is the right one."""
    snapshots, p = [], x

    def blend(sources, norm, proj):
        return wrong_mix(sources, norm, proj, "mixes_normed_values" if mistake == "mixes_normed_values" else None)

    for i, layer in enumerate(layers):
        h = blend([*snapshots, p], layer["attn_norm"], layer["attn_proj"]) if snapshots else p
        first = i % block == (1 if mistake == "snapshot_one_layer_late" else 0)
        fresh = False
        if first and mistake != "snapshot_after_the_layer":
            if not (mistake == "embedding_not_kept" and i == 0):
                snapshots.append(p)
            fresh = mistake != "sum_goes_on_at_a_snapshot"
        a = attention(i, h)
        p = a if fresh else (h + a if mistake == "branch_added_to_its_input" else p + a)
        h = blend([*snapshots, p], layer["mlp_norm"], layer["mlp_proj"]) if snapshots else p
        m = feed_forward(i, h)
        p = h + m if mistake == "branch_added_to_its_input" else p + m
        if tap is not None:
            tap(i, a, p)
        if first and mistake == "snapshot_after_the_layer":
            snapshots.append(p)
            p = np.zeros_like(p)
    return blend([p] if mistake == "last_mix_left_out" else [*snapshots, p], *output)
