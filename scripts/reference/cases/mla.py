"""Gated multi-head latent attention (spec, section 4.5)."""

import numpy as np

import ops
from case import Case, bf16

HEADS, NOPE, ROPE, VALUE = 3, 8, 4, 6
DIMS = {"heads": HEADS, "nope": NOPE, "rope": ROPE, "value": VALUE}


def cases():
    """All of this module."""
    yield attention()
    yield layer()


def attend(q, latent, shared, kv_b, scale=(NOPE + ROPE) ** -0.5, causal=True, split="by_head"):
    """The attention once more, with the parts exposed that can be got wrong."""
    tokens = len(q)
    q = q.reshape(tokens, HEADS, NOPE + ROPE)
    kv = ops.lin(kv_b, latent)
    if split == "by_head":
        kv = kv.reshape(tokens, HEADS, NOPE + VALUE)
        keys, values = kv[..., :NOPE], kv[..., NOPE:]
    else:
        keys = kv[:, : HEADS * NOPE].reshape(tokens, HEADS, NOPE)
        values = kv[:, HEADS * NOPE :].reshape(tokens, HEADS, VALUE)
    scores = np.einsum("thd,shd->hts", q[..., :NOPE], keys)
    scores = (scores + np.einsum("thd,sd->hts", q[..., NOPE:], shared)) * scale
    if causal:
        scores = np.where(np.tril(np.ones((tokens, tokens), bool)), scores, -np.inf)
    return np.einsum("hts,shd->thd", ops.softmax(scores), values).reshape(tokens, -1)


def rotate(x, base=10000.0):
    """Rotary embedding on the last axis, position = row: what this model does NOT do."""
    half = x.shape[-1] // 2
    angle = np.arange(len(x))[:, None] * base ** (-np.arange(half) / half)
    angle = angle.reshape((len(x),) + (1,) * (x.ndim - 2) + (half,))
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], axis=-1)


def attention():
    """Attention proper."""
    rng = np.random.default_rng(21)
    tokens, rank = 7, 20
    q = bf16(rng.normal(size=(tokens, HEADS * (NOPE + ROPE))) * 1.5)
    latent, shared = bf16(rng.normal(size=(tokens, rank))), bf16(rng.normal(size=(tokens, ROPE)) * 1.5)
    kv_b = bf16(rng.normal(size=(HEADS * (NOPE + VALUE), rank)) * rank**-0.5)
    right = ops.mla_attention(q, latent, shared, kv_b, HEADS, NOPE, VALUE)
    absorbed = ops.mla_attention_absorbed(q, latent, shared, kv_b, HEADS, NOPE, VALUE)
    assert np.abs(right - absorbed).max() < 1e-12 and np.abs(right - attend(q, latent, shared, kv_b)).max() < 1e-12
    by_head = q.reshape(tokens, HEADS, NOPE + ROPE)
    rotated = np.concatenate([by_head[..., :NOPE], rotate(by_head[..., NOPE:])], axis=-1).reshape(tokens, -1)
    rope_first = np.concatenate([by_head[..., ROPE:], by_head[..., :ROPE]], axis=-1).reshape(tokens, -1)
    return Case(
        "mla_attention",
        "4.5",
        """Seven positions, every one of them asking. The latent is normed already; the shared part of the key is
        neither normed nor rotated, and takes part in every head. Before gate and output projection.""",
        {"q": q, "latent": latent, "shared": shared, "kv_b": kv_b},
        {"y": right},
        {
            "shared_part_dropped": {"y": attend(q, latent, 0 * shared, kv_b)},
            "shared_part_rotated": {"y": attend(rotated, latent, rotate(shared), kv_b)},
            "shared_part_normed": {"y": attend(q, latent, ops.rms_norm(shared, np.ones(ROPE)), kv_b)},
            "shared_part_first_in_the_query": {"y": attend(rope_first, latent, shared, kv_b)},
            "scale_of_the_nope_part": {"y": attend(q, latent, shared, kv_b, NOPE**-0.5)},
            "scale_of_the_latent": {"y": attend(q, latent, shared, kv_b, (rank + ROPE) ** -0.5)},
            "no_scale": {"y": attend(q, latent, shared, kv_b, 1.0)},
            "sees_the_future": {"y": attend(q, latent, shared, kv_b, causal=False)},
            "keys_and_values_not_split_by_head": {"y": attend(q, latent, shared, kv_b, split="halves")},
        },
        {**DIMS, "rank": rank},
    )


def layer():
    """The whole layer."""
    rng = np.random.default_rng(22)
    tokens, hidden, q_rank, rank = 5, 24, 16, 12

    def matrix(rows, cols, scale=1.0):
        return bf16(rng.normal(size=(rows, cols)) * scale * cols**-0.5)

    # Inputs so small that the mean square of both latents is near the epsilon of their norms.
    x = bf16(rng.normal(size=(tokens, hidden)) * 2e-3)
    weights = {
        "q_a": matrix(q_rank, hidden),
        "q_a_norm": bf16(rng.normal(1.0, 0.3, size=q_rank)),
        "q_b": matrix(HEADS * (NOPE + ROPE), q_rank, 3.0),
        "kv_a": matrix(rank + ROPE, hidden),
        "kv_a_norm": bf16(rng.normal(1.0, 0.3, size=rank)),
        "kv_b": matrix(HEADS * (NOPE + VALUE), rank, 2.0),
        "gate": matrix(HEADS * VALUE, hidden, 400.0),
        "output": matrix(hidden, HEADS * VALUE),
    }

    def run(eps_q=ops.MLA_EPS, eps_kv=ops.MLA_EPS, gate=ops.sigmoid, norm_shared=False, latent_normed=True):
        w = weights
        q = ops.lin(w["q_b"], ops.rms_norm(ops.lin(w["q_a"], x), w["q_a_norm"], eps_q))
        ckv = ops.lin(w["kv_a"], x)
        latent, shared = ckv[:, :rank], ckv[:, rank:]
        if norm_shared:
            both = ops.rms_norm(ckv, np.concatenate([w["kv_a_norm"], np.ones(ROPE)]), eps_kv)
            latent, shared = both[:, :rank], both[:, rank:]
        elif latent_normed:
            latent = ops.rms_norm(latent, w["kv_a_norm"], eps_kv)
        a = ops.mla_attention(q, latent, shared, w["kv_b"], HEADS, NOPE, VALUE)
        return ops.lin(w["output"], a * gate(ops.lin(w["gate"], x)))

    return Case(
        "mla_layer",
        "4.5",
        """The whole layer on inputs so small that the epsilon of the norms inside is seen. The layer's own input
        norm is not part of it.""",
        {"x": x, **weights},
        {"y": run()},
        {
            "eps_1e-5_in_the_query_norm": {"y": run(eps_q=1e-5)},
            "eps_1e-5_in_the_latent_norm": {"y": run(eps_kv=1e-5)},
            "latent_not_normed": {"y": run(latent_normed=False)},
            "shared_part_inside_the_norm": {"y": run(norm_shared=True)},
            "gate_without_sigmoid": {"y": run(gate=lambda g: g)},
            "gate_through_silu": {"y": run(gate=ops.silu)},
            "no_gate": {"y": run(gate=lambda g: 1.0)},
        },
        {**DIMS, "hidden": hidden, "q_rank": q_rank, "rank": rank, "eps": ops.MLA_EPS},
    )
