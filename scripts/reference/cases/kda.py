"""Kimi Delta Attention (spec, section 4.4)."""

import numpy as np

import ops
from case import Case, bf16


def cases():
    """All of this module."""
    yield short_conv()
    yield gate()
    yield recurrence()
    yield output_norm()


def short_conv():
    """The short convolution."""
    rng = np.random.default_rng(11)
    u, weight = bf16(rng.normal(size=(7, 5))), bf16(rng.normal(size=(5, 4)))
    shifted = np.concatenate([np.zeros((1, 5)), u[:-1]])
    ahead = np.concatenate([u[1:], np.zeros((1, 5))])
    y = ops.short_conv(u, weight)
    linear = sum(weight[:, j] * np.concatenate([np.zeros((3, 5)), u])[j : j + 7] for j in range(4))
    return Case(
        "kda_short_conv",
        "4.4",
        "Seven tokens through four taps, SiLU after it. The last tap meets the current token.",
        {"u": u, "weight": weight},
        {"y": y},
        {
            "taps_reversed": {"y": ops.short_conv(u, weight[:, ::-1])},
            "one_token_late": {"y": ops.short_conv(shifted, weight)},
            "sees_the_next_token": {"y": ops.short_conv(ahead, weight)},
            "no_silu": {"y": linear},
            "silu_before": {"y": ops.short_conv(ops.silu(u), weight)},
            "history_forgotten": {"y": np.concatenate([y[:3], ops.short_conv(u[3:], weight)])},
            "history_of_outputs": {"y": np.concatenate([y[:3], ops.short_conv(u[3:], weight, y[:3])])},
        },
    )


def gate():
    """The decay."""
    rng = np.random.default_rng(12)
    heads, dim, tokens = 3, 8, 4
    f, dt_bias = bf16(rng.normal(size=(tokens, heads * dim)) * 2), bf16(rng.normal(size=heads * dim))
    # Padded to the width of a head, as in the release: that length is what invites reading it by channel.
    a_log = bf16(np.concatenate([[-1.5, 0.25, 1.5], np.zeros(dim - heads)]))
    x = f + dt_bias
    rate = np.repeat(np.exp(a_log[:heads]), dim)
    by_channel = np.tile(np.exp(a_log), heads)
    interleaved = np.tile(np.exp(a_log[:heads]), dim)
    plain = np.repeat(a_log[:heads], dim)
    shape = (tokens, heads, dim)
    g = ops.kda_log_decay(f, a_log, dt_bias, heads)

    def outputs(value):
        value = value.reshape(shape)
        return {"log_decay": value, "decay": np.exp(value)}

    return Case(
        "kda_gate",
        "4.4",
        "A_log counts by head, though it is as long as a head is wide. The bias goes in before the rate.",
        {"f": f, "a_log": a_log, "dt_bias": dt_bias},
        outputs(g),
        {
            "a_log_by_channel": outputs(-5 * ops.sigmoid(by_channel * x)),
            "heads_interleaved": outputs(-5 * ops.sigmoid(interleaved * x)),
            "a_log_without_exp": outputs(-5 * ops.sigmoid(plain * x)),
            "bias_after_the_rate": outputs(-5 * ops.sigmoid(rate * f + dt_bias)),
            "no_bias": outputs(-5 * ops.sigmoid(rate * f)),
            "softplus_instead_of_bound": outputs(-rate * np.log1p(np.exp(x))),
            "bound_of_one": outputs(-ops.sigmoid(rate * x)),
        },
        {"heads": heads, "head_dim": dim, "lower_bound": -5.0},
    )


def recurrence():
    """The delta rule."""
    rng = np.random.default_rng(13)
    tokens, heads, dim = 6, 2, 8
    # Two tokens are so small that the epsilon of their norm counts.
    sizes = np.array([1.0, 2e-3, 0.7, 1.5, 1e-3, 2.0])[:, None, None]
    q, k = (bf16(rng.normal(size=(tokens, heads, dim)) * sizes) for _ in range(2))
    v = bf16(rng.normal(size=(tokens, heads, dim)))
    # From channels that remember for thousands of tokens to channels that forget at once.
    decay = bf16(np.exp(-5 * ops.sigmoid(rng.normal(-3.0, 2.5, size=(tokens, heads, dim)))))
    beta = bf16(ops.sigmoid(rng.normal(0.5, 1.0, size=(tokens, heads))))
    g = np.log(decay)

    def outputs(q, k, run=ops.kda_recurrence):
        out, state = run(q, k, v, g, beta)
        return {"out": out, "state": state}

    def mean_eps(x):
        return x / np.sqrt((np.mean(x * x, axis=-1, keepdims=True) + ops.L2_EPS) * dim)

    scale = dim**-0.5
    right = ops.l2_norm(q) * scale, ops.l2_norm(k)
    return Case(
        "kda_recurrence",
        "4.4",
        """Six tokens from an empty state. Queries and keys are normed first, and queries scaled. The state is
        [head, key, value]: it decays by key, then the error is taken, then written, then read.""",
        {"q": q, "k": k, "v": v, "decay": decay, "beta": beta},
        outputs(*right),
        {
            **{name: outputs(*right, lambda *a, name=name: wrong_recurrence(*a, name)) for name in WRONG_STEPS},
            "queries_and_keys_exchanged": outputs(right[1] * scale, right[0] / scale),
            "eps_on_the_mean": outputs(mean_eps(q) * scale, mean_eps(k)),
            "eps_of_the_model": outputs(ops.l2_norm(q, ops.RMS_EPS) * scale, ops.l2_norm(k, ops.RMS_EPS)),
            "queries_not_scaled": outputs(right[0] / scale, right[1]),
            "keys_scaled": outputs(right[0], right[1] * scale),
            "keys_not_normed": outputs(right[0], k),
        },
        {"heads": heads, "head_dim": dim},
    )


WRONG_STEPS = (
    "read_before_update",
    "error_before_decay",
    "decay_after_update",
    "decay_by_value",
    "state_transposed",
    "no_error",
    "no_beta",
    "beta_on_the_value_only",
    "g_as_the_decay_itself",
)


def wrong_recurrence(q, k, v, g, beta, mistake):
    """The recurrence with one step wrong."""
    tokens, heads, dim = q.shape
    state, out = np.zeros((heads, dim, dim)), np.empty(q.shape)
    for t in range(tokens):
        for h in range(heads):
            s, kt, b = state[h], k[t, h], beta[t, h]
            decay = (-g[t, h] if mistake == "g_as_the_decay_itself" else np.exp(g[t, h]))[:, None]
            before = s.copy()
            if mistake == "decay_by_value":
                s *= decay.T
            elif mistake != "decay_after_update":
                s *= decay
            error = v[t, h] - kt @ (before if mistake == "error_before_decay" else s)
            if mistake == "no_error":
                error = v[t, h]
            if mistake == "beta_on_the_value_only":
                error = b * v[t, h] - kt @ s
            if mistake == "read_before_update":
                out[t, h] = q[t, h] @ s
            s += (1 if mistake in ("no_beta", "beta_on_the_value_only") else b) * np.outer(kt, error)
            if mistake == "decay_after_update":
                s *= decay
            if mistake != "read_before_update":
                out[t, h] = (s if mistake != "state_transposed" else s.T).T @ q[t, h]
    return out, state.transpose(0, 2, 1) if mistake == "state_transposed" else state


def output_norm():
    """Norm and gate of the output."""
    rng = np.random.default_rng(14)
    tokens, heads, dim = 3, 3, 8
    # Heads of very different size, the last one so small that the epsilon counts.
    o = bf16(rng.normal(size=(tokens, heads, dim)) * np.array([4.0, 0.3, 2e-3])[None, :, None])
    weight, raw = bf16(rng.normal(1.0, 0.4, size=dim)), bf16(rng.normal(size=(tokens, heads * dim)) * 1.5)
    flat = o.reshape(tokens, -1)
    wide = np.tile(weight, heads)
    gate_ = ops.sigmoid(raw)
    normed = ops.rms_norm(o, weight).reshape(tokens, -1)
    return Case(
        "kda_output_norm",
        "4.4",
        "Each head is normed by itself with one shared weight; the gate goes through a sigmoid and comes after.",
        {"o": o, "weight": weight, "gate": raw},
        {"y": ops.gated_head_norm(o, weight, raw)},
        {
            "norm_over_all_heads": {"y": ops.rms_norm(flat, wide) * gate_},
            "gate_without_sigmoid": {"y": normed * raw},
            "gate_through_silu": {"y": normed * ops.silu(raw)},
            "gate_before_the_norm": {"y": ops.rms_norm(o * gate_.reshape(o.shape), weight).reshape(tokens, -1)},
            "no_gate": {"y": normed},
            "eps_1e-6": {"y": ops.rms_norm(o, weight, 1e-6).reshape(tokens, -1) * gate_},
        },
        {"heads": heads, "head_dim": dim, "eps": ops.RMS_EPS},
    )
