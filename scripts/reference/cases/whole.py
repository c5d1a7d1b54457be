"""The parts in their places: layers of the tiny checkpoint, and what comes out when one operator in them is wrong.

An operator that is right by itself can still be called wrongly. Here the mistakes are put into the forward pass, and
the engine's own pass is held against what they give.
"""

from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import numpy as np

import checkpoint
import ops
from case import Case
from model import Model

from .kda import wrong_recurrence
from .mla import wrong_attentions
from .residual import WRONG_STACKS, wrong_stack

TINY = Path(__file__).resolve().parents[3] / "tests" / "fixtures" / "tiny"


def cases():
    """All of this module."""
    yield kda_layer()
    yield mla_layer()
    yield mla_layer_of_small_latents()
    yield moe_layer()
    yield residual_stream()


def replaced(**functions):
    """Operators replaced by wrong ones while the context is open."""
    return patch.multiple(ops, **functions)


def run(ids, layer, change=None, scaled=None, model=Model):
    """A layer's mixer output and prefix sum, and the final norm, over `ids`."""
    files = checkpoint.Checkpoint(TINY)
    if scaled:
        plain = files.tensor
        files.tensor = lambda name: plain(name) * 2.0 ** scaled.get(name, 0) if name in scaled else plain(name)
    seen = {}

    def tap(at, first, second):
        if at == layer:
            seen["mixer_output"], seen["layer_output"] = first, second
        elif at == "final_norm":
            seen["final_norm"] = first

    with change or nullcontext():
        model(files).forward(ids, tap)
    return seen


def case(name, section, about, ids, layer, output, changes, scaled=None, models=None):
    """A case out of one output of the pass; `changes` are contexts, `models` classes with a wrong method."""

    def only(**how):
        return {output: run(ids, layer, scaled=scaled, **how)[output]}

    mistakes = {mistake: only(change=change) for mistake, change in changes.items()}
    mistakes |= {mistake: only(model=model) for mistake, model in (models or {}).items()}
    params = {"ids": ids, "layer": layer} | ({"scaled_by_power_of_two": scaled} if scaled else {})
    return Case(name, section, about, {}, only(), mistakes, params, relative_tolerance=5e-5)


def kda_layer():
    """The first layer's mixer."""

    def by_channel(f, a_log, dt_bias, heads, lower_bound=-5.0):
        x = (f + dt_bias).reshape(len(f), heads, -1)
        return lower_bound * ops.sigmoid(np.exp(np.resize(a_log, x.shape[-1])) * x)

    def interleaved(f, a_log, dt_bias, heads, lower_bound=-5.0):
        x = f + dt_bias
        rate = np.exp(np.resize(a_log[:heads], x.shape[-1]))
        return (lower_bound * ops.sigmoid(rate * x)).reshape(len(f), heads, -1)

    def over_all_heads(o, weight, gate):
        flat = o.reshape(len(o), -1)
        return ops.rms_norm(flat, np.resize(weight, flat.shape[-1])) * ops.sigmoid(gate)

    conv = ops.short_conv
    steps = ("read_before_update", "error_before_decay", "state_transposed", "no_beta", "decay_after_update")
    return case(
        "layer_kda",
        "4.4",
        "Mixer output of layer 0 of the tiny checkpoint. Its A_log is padded.",
        [3, 7, 11, 5],
        0,
        "mixer_output",
        {
            "a_log_by_channel": replaced(kda_log_decay=by_channel),
            "heads_interleaved": replaced(kda_log_decay=interleaved),
            "norm_over_all_heads": replaced(gated_head_norm=over_all_heads),
            "taps_reversed": replaced(short_conv=lambda u, w: conv(u, w[:, ::-1])),
            **{step: replaced(kda_recurrence=lambda *a, step=step: wrong_recurrence(*a, step)) for step in steps},
        },
    )


def mla_layer():
    """The first MLA layer's mixer."""
    names = (
        "shared_part_dropped",
        "shared_part_rotated",
        "shared_part_first_in_the_query",
        "scale_of_the_nope_part",
        "sees_the_future",
        "keys_and_values_not_split_by_head",
    )

    class WithoutGate(Model):
        def _mla(self, i, x):
            with replaced(sigmoid=lambda x: 1.0):
                return super()._mla(i, x)

    class WithSilu(Model):
        def _mla(self, i, x):
            with replaced(sigmoid=lambda x, right=ops.sigmoid: x * right(x)):
                return super()._mla(i, x)

    return case(
        "layer_mla",
        "4.5",
        "Mixer output of layer 3 of the tiny checkpoint.",
        [3, 7, 11, 5],
        3,
        "mixer_output",
        {name: replaced(mla_attention=lambda *a, name=name: wrong_attentions(*a)[name]) for name in names},
        models={"no_gate": WithoutGate, "gate_through_silu": WithSilu},
    )


def mla_layer_of_small_latents():
    """The same with latents near the epsilon of their norms."""
    norm = ops.rms_norm

    def with_model_eps(rank):
        return lambda x, w, eps=ops.RMS_EPS: norm(x, w, ops.RMS_EPS if len(w) == rank else eps)

    prefix = "language_model.model.layers.3.self_attn."
    return case(
        "layer_mla_eps",
        "4.1",
        """Mixer output of layer 3 of the tiny checkpoint with the two projections down multiplied by 2^-10, so that
        the mean square of both latents is near the epsilon of their norms.""",
        [3, 7, 11],
        3,
        "mixer_output",
        {
            "eps_1e-5_in_the_query_norm": replaced(rms_norm=with_model_eps(64)),
            "eps_1e-5_in_the_latent_norm": replaced(rms_norm=with_model_eps(48)),
        },
        scaled={f"{prefix}q_a_proj.weight": -10, f"{prefix}kv_a_proj_with_mqa.weight": -10},
    )


def moe_layer():
    """The first expert layer."""

    def combined(one, after=True):
        def latent_moe(z, index, weights, experts, norm, *caps):
            y = np.zeros_like(z)
            for t in range(len(z)):
                for e, w in zip(index[t], weights[t]):
                    y[t] += one(z[t], w, experts(int(e)), norm)
            return ops.rms_norm(y, norm) if after else y

        return replaced(latent_moe=latent_moe)

    def mlp(x, m):
        return ops.situ_mlp(x, *m)

    def scaled_activation(x, w, m):
        return ops.lin(m[2], ops.situ(w * ops.lin(m[0], x), w * ops.lin(m[1], x)))

    def choosing(by, of):
        def router(scores, bias, top_k, scale=1.0):
            s = ops.sigmoid(scores)
            index = np.argsort(-by(s, bias), axis=-1, kind="stable")[:, :top_k]
            weights = np.take_along_axis(of(s, bias), index, axis=-1)
            return index, weights / weights.sum(axis=-1, keepdims=True)

        return replaced(router=router)

    def capped(gate, up, beta=4.0, linear_beta=25.0):
        gate = beta * np.tanh(gate / beta)
        return gate * ops.sigmoid(gate) * linear_beta * np.tanh(up / linear_beta)

    decode = ops.mxfp4_decode

    def swapped(packed, scale):
        return decode((packed << 4) | (packed >> 4), scale)

    class WithoutShared(Model):
        def _feed_forward(self, i, h):
            x = ops.rms_norm(h, self._layer(i, "post_attention_layernorm.weight"))
            whole = super()._feed_forward(i, h)
            if i < self.config["first_k_dense_replace"]:
                return whole
            parts = [
                self._layer(i, f"block_sparse_moe.shared_experts.{part}_proj.weight") for part in ("gate", "up", "down")
            ]
            return whole - ops.situ_mlp(x, *parts)

    return case(
        "layer_moe",
        "4.6",
        "Prefix sum after layer 1 of the tiny checkpoint, the first with experts.",
        [3, 7],
        1,
        "layer_output",
        {
            "norm_for_each_expert": combined(lambda x, w, m, norm: w * ops.rms_norm(mlp(x, m), norm), after=False),
            "no_norm": combined(lambda x, w, m, norm: w * mlp(x, m), after=False),
            "weights_before_the_activation": combined(lambda x, w, m, norm: scaled_activation(x, w, m)),
            "weights_on_the_input": combined(lambda x, w, m, norm: mlp(w * x, m)),
            "no_weights": combined(lambda x, w, m, norm: mlp(x, m)),
            "gate_and_up_exchanged": combined(lambda x, w, m, norm: w * mlp(x, (m[1], m[0], m[2]))),
            "bias_in_the_weights": choosing(lambda s, b: s + b, lambda s, b: s + b),
            "chosen_without_bias": choosing(lambda s, b: s, lambda s, b: s),
            "capped_gate_into_the_sigmoid": replaced(situ=capped),
            "nibbles_swapped": patch.object(checkpoint, "mxfp4_decode", swapped),
        },
        models={"shared_experts_left_out": WithoutShared},
    )


def residual_stream():
    """The stream through all layers."""
    return case(
        "model_residual",
        "4.2",
        "What the head reads, after all 13 layers of the tiny checkpoint: blocks of three, five snapshots.",
        [3, 7, 11],
        12,
        "final_norm",
        {
            mistake: replaced(residual_stack=lambda *a, mistake=mistake: wrong_stack(*a, mistake))
            for mistake in WRONG_STACKS
        },
    )
