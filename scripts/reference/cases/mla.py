"""Gated multi-head latent attention (spec, section 4.5)."""

import numpy as np

import ops
from case import Case, bf16


def cases():
    """All of this module."""
    yield attention()


def attend(q, latent, shared, kv_b, heads, nope, value, scale=None, causal=True, by_head=True):
    """The attention once more, with the parts exposed that can be got wrong."""
    tokens, rope = len(q), shared.shape[1]
    q = q.reshape(tokens, heads, nope + rope)
    kv = ops.lin(kv_b, latent)
    if by_head:
        kv = kv.reshape(tokens, heads, nope + value)
        keys, values = kv[..., :nope], kv[..., nope:]
    else:
        keys = kv[:, : heads * nope].reshape(tokens, heads, nope)
        values = kv[:, heads * nope :].reshape(tokens, heads, value)
    scores = np.einsum("thd,shd->hts", q[..., :nope], keys)
    scores = (scores + np.einsum("thd,sd->hts", q[..., nope:], shared)) * (scale or (nope + rope) ** -0.5)
    if causal:
        scores = np.where(np.tril(np.ones((tokens, tokens), bool)), scores, -np.inf)
    return np.einsum("hts,shd->thd", ops.softmax(scores), values).reshape(tokens, -1)


def wrong_attentions(q, latent, shared, kv_b, heads, nope, value):
    """What each mistake in the attention gives."""
    dims = heads, nope, value
    tokens, rank, rope = len(q), latent.shape[1], shared.shape[1]
    each = q.reshape(tokens, heads, nope + rope)
    rotated = np.concatenate([each[..., :nope], rotate(each[..., nope:])], axis=-1).reshape(tokens, -1)
    rope_first = np.concatenate([each[..., rope:], each[..., :rope]], axis=-1).reshape(tokens, -1)
    normed = ops.rms_norm(shared, np.ones(rope))
    return {
        "shared_part_dropped": attend(q, latent, 0 * shared, kv_b, *dims),
        "shared_part_rotated": attend(rotated, latent, rotate(shared), kv_b, *dims),
        "shared_part_normed": attend(q, latent, normed, kv_b, *dims),
        "shared_part_first_in_the_query": attend(rope_first, latent, shared, kv_b, *dims),
        "scale_of_the_nope_part": attend(q, latent, shared, kv_b, *dims, scale=nope**-0.5),
        "scale_of_the_latent": attend(q, latent, shared, kv_b, *dims, scale=(rank + rope) ** -0.5),
        "no_scale": attend(q, latent, shared, kv_b, *dims, scale=1.0),
        "sees_the_future": attend(q, latent, shared, kv_b, *dims, causal=False),
        "keys_and_values_not_split_by_head": attend(q, latent, shared, kv_b, *dims, by_head=False),
    }


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
    tokens, rank, heads, nope, rope, value = 7, 20, 3, 8, 4, 6
    q = bf16(rng.normal(size=(tokens, heads * (nope + rope))) * 1.5)
    latent, shared = bf16(rng.normal(size=(tokens, rank))), bf16(rng.normal(size=(tokens, rope)) * 1.5)
    kv_b = bf16(rng.normal(size=(heads * (nope + value), rank)) * rank**-0.5)
    inputs = (q, latent, shared, kv_b, heads, nope, value)
    right = ops.mla_attention(*inputs)
    assert np.abs(right - ops.mla_attention_absorbed(*inputs)).max() < 1e-12
    assert np.abs(right - attend(*inputs)).max() < 1e-12
    return Case(
        "mla_attention",
        "4.5",
        """Seven positions, every one of them asking. The latent is normed already; the shared part of the key is
        neither normed nor rotated, and takes part in every head. Before gate and output projection.""",
        {"q": q, "latent": latent, "shared": shared, "kv_b": kv_b},
        {"y": right},
        {name: {"y": y} for name, y in wrong_attentions(*inputs).items()},
        {"heads": heads, "nope": nope, "rope": rope, "value": value, "rank": rank},
    )
