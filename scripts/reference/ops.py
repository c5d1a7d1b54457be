"""Kimi K3's operators in float64, straight from the formulas (spec, section 4).

Plain and slow on purpose: each function is the formula and nothing else. Shapes are in the docstrings; T is tokens,
and a head's channels lie together (channel = head * head_dim + d). Weights are `[out, in]`.
"""

import numpy as np

RMS_EPS = 1e-5
"""Every RMS norm but the two inside MLA (spec, section 4.1)."""

MLA_EPS = 1e-6
"""The norms of MLA's two latents (spec, section 4.1)."""

L2_EPS = 1e-6
"""KDA's queries and keys; added to the SUM of squares (spec, section 4.1)."""

E2M1 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])
"""The sixteen values of a nibble (spec, section 1.4)."""

GROUP = 32
"""Columns that share a scale (spec, section 1.4)."""


def sigmoid(x):
    """1 / (1 + exp(-x)), without overflow on either side."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, e) / (1.0 + e)


def silu(x):
    """x * sigmoid(x)."""
    return x * sigmoid(x)


def softmax(x):
    """Over the last axis."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def lin(weight, x):
    """`[..., in]` times `[out, in]` transposed: no biases anywhere (section 4)."""
    return x @ weight.T


def rms_norm(x, weight, eps=RMS_EPS):
    """w * x / sqrt(mean(x^2) + eps), over the last axis (section 4.1)."""
    return weight * (x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps))


def l2_norm(x, eps=L2_EPS):
    """x / sqrt(sum(x^2) + eps), over the last axis (sections 4.1 and 4.4)."""
    return x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + eps)


def situ(gate, up, beta=4.0, linear_beta=25.0):
    """[beta tanh(gate/beta) sigmoid(gate)] * [linear_beta tanh(up/linear_beta)] (section 4.6).

    The sigmoid takes the gate as it is, not the capped one.
    """
    return beta * np.tanh(gate / beta) * sigmoid(gate) * linear_beta * np.tanh(up / linear_beta)


def situ_mlp(x, gate, up, down, beta=4.0, linear_beta=25.0):
    """lin(down, situ(lin(gate, x), lin(up, x))): every feed-forward (section 4.6)."""
    return lin(down, situ(lin(gate, x), lin(up, x), beta, linear_beta))


# --- KDA (section 4.4) -----------------------------------------------------------------------------------------


def short_conv(u, weight, history=None):
    """Depthwise and causal, then SiLU: `u` [T, C], `weight` [C, taps] -> [T, C] (section 4.4).

    The last tap meets the current token. `history` [taps - 1, C] holds the inputs before the first row; zeros at the
    start of a sequence.
    """
    taps = weight.shape[1]
    if history is None:
        history = np.zeros((taps - 1, u.shape[1]))
    padded = np.concatenate([history, u])
    y = sum(weight[:, j] * padded[j : j + len(u)] for j in range(taps))
    return silu(y)


def kda_log_decay(f, a_log, dt_bias, heads, lower_bound=-5.0):
    """lower_bound * sigmoid(exp(A_log[head]) * (f + dt_bias)): `f` [T, heads * D] -> [T, heads, D] (section 4.4).

    `a_log` may be padded: the first `heads` entries count. The result is the logarithm of the decay.
    """
    x = (f + dt_bias).reshape(len(f), heads, -1)
    return lower_bound * sigmoid(np.exp(a_log[:heads])[None, :, None] * x)


def kda_recurrence(q, k, v, g, beta, state=None):
    """The gated delta rule, token by token (section 4.4).

    `q`, `k` [T, heads, D] normed, with `q` scaled by D^-0.5; `v`, `g` [T, heads, D], `g` the log decay; `beta`
    [T, heads]. Gives the outputs [T, heads, D] and the state [heads, D (key), D (value)].
    """
    tokens, heads, dim = q.shape
    state = np.zeros((heads, dim, dim)) if state is None else state.copy()
    out = np.empty((tokens, heads, dim))
    for t in range(tokens):
        for h in range(heads):
            s = state[h]
            s *= np.exp(g[t, h])[:, None]
            error = v[t, h] - k[t, h] @ s
            s += beta[t, h] * np.outer(k[t, h], error)
            out[t, h] = q[t, h] @ s
    return out, state


def gated_head_norm(o, weight, gate):
    """Norm of each head by itself, one weight for all heads, times sigmoid(gate) (section 4.4).

    `o` [T, heads, D], `weight` [D], `gate` [T, heads * D] before its sigmoid -> [T, heads * D].
    """
    y = rms_norm(o, weight) * sigmoid(gate).reshape(o.shape)
    return y.reshape(len(o), -1)


# --- gated MLA (section 4.5) -----------------------------------------------------------------------------------


def mla_attention(q, latent, shared, kv_b, heads, nope, value):
    """Causal attention with keys and values spelled out per head (section 4.5).

    `q` [T, heads * (nope + rope)]; over all S >= T positions: `latent` [S, rank] normed, `shared` [S, rope] as
    projected. The T queries are the last T positions. -> [T, heads * value].
    """
    tokens, positions, rope = len(q), len(latent), shared.shape[1]
    q = q.reshape(tokens, heads, nope + rope)
    kv = lin(kv_b, latent).reshape(positions, heads, nope + value)
    out = np.empty((tokens, heads, value))
    for t in range(tokens):
        seen = positions - tokens + t + 1
        for h in range(heads):
            keys = np.concatenate([kv[:seen, h, :nope], shared[:seen]], axis=1)
            weights = softmax(keys @ q[t, h] * (nope + rope) ** -0.5)
            out[t, h] = weights @ kv[:seen, h, nope:]
    return out.reshape(tokens, -1)


def mla_attention_absorbed(q, latent, shared, kv_b, heads, nope, value):
    """The same in the absorbed form: queries go into the latent, values come out of it once (section 4.5)."""
    tokens, positions, rope = len(q), len(latent), shared.shape[1]
    q = q.reshape(tokens, heads, nope + rope)
    kv_b = kv_b.reshape(heads, nope + value, -1)
    out = np.empty((tokens, heads, value))
    for t in range(tokens):
        seen = positions - tokens + t + 1
        for h in range(heads):
            into_latent = q[t, h, :nope] @ kv_b[h, :nope]
            scores = latent[:seen] @ into_latent + shared[:seen] @ q[t, h, nope:]
            weights = softmax(scores * (nope + rope) ** -0.5)
            out[t, h] = kv_b[h, nope:] @ (weights @ latent[:seen])
    return out.reshape(tokens, -1)


# --- experts (section 4.6) -------------------------------------------------------------------------------------


def router(scores, bias, top_k, scale=1.0):
    """`scores` [T, experts] before their sigmoid -> expert ids [T, top_k], weights [T, top_k] (section 4.6).

    The bias chooses and is not in the weights. A tie goes to the lower index. In falling order of choice.
    """
    s = sigmoid(scores)
    index = np.argsort(-(s + bias), axis=-1, kind="stable")[:, :top_k]
    weights = np.take_along_axis(s, index, axis=-1)
    return index, scale * weights / (weights.sum(axis=-1, keepdims=True) + 1e-20)


def latent_moe(z, index, weights, experts, norm, beta=4.0, linear_beta=25.0):
    """The routed experts in their latent: `z` [T, latent] -> [T, latent], normed (section 4.6).

    `experts` is a function from an expert's id to its (w1, w3, w2). Weights go on each expert's output; the norm on
    the sum.
    """
    y = np.zeros_like(z)
    for t in range(len(z)):
        for expert, weight in zip(index[t], weights[t]):
            w1, w3, w2 = experts(int(expert))
            y[t] += weight * situ_mlp(z[t], w1, w3, w2, beta, linear_beta)
    return rms_norm(y, norm)


def mxfp4_decode(packed, scale):
    """`packed` [out, in / 2], `scale` [out, in / 32], both bytes -> [out, in] (section 1.4).

    The low nibble is the even column.
    """
    rows, half = packed.shape
    values = np.empty((rows, half * 2))
    values[:, 0::2] = E2M1[packed & 15]
    values[:, 1::2] = E2M1[packed >> 4]
    return values * np.repeat(np.exp2(scale.astype(np.float64) - 127.0), GROUP, axis=1)


# --- the residual stream (sections 4.2 and 4.3) ----------------------------------------------------------------


def residual_mix(sources, norm, proj):
    """Softmax over the sources, keyed by their norms, of the sources as they are (section 4.3).

    `sources` a list of [T, H], snapshots oldest first and then the prefix sum; `norm` [H]; `proj` [H].
    """
    v = np.stack(sources)
    keys = v / np.sqrt(np.mean(v * v, axis=-1, keepdims=True) + RMS_EPS)
    weights = softmax((keys @ (norm * proj)).T).T
    return np.sum(weights[:, :, None] * v, axis=0)


def residual_stack(x, layers, block, output, attention, feed_forward, tap=None):
    """The residual stream over a stack of layers (section 4.2): `x` [T, H] -> what the final norm reads.

    `layers` is a list of dicts with `attn_norm`, `attn_proj`, `mlp_norm`, `mlp_proj` (the mixes' vectors); `output`
    is the pair of the last mix. `attention(i, h)` and `feed_forward(i, h)` are the branches, their own norm
    included. A snapshot is taken BEFORE a layer whose index is a multiple of `block`.
    """
    snapshots, prefix = [], x
    for i, layer in enumerate(layers):
        mixed = residual_mix(snapshots + [prefix], layer["attn_norm"], layer["attn_proj"]) if snapshots else prefix
        if i % block == 0:
            snapshots.append(prefix)
            prefix = None
        a = attention(i, mixed)
        prefix = a if prefix is None else prefix + a
        mixed = residual_mix(snapshots + [prefix], layer["mlp_norm"], layer["mlp_proj"])
        prefix = prefix + feed_forward(i, mixed)
        if tap is not None:
            tap(i, a, prefix)
    return residual_mix(snapshots + [prefix], *output)
