"""The whole forward pass over a sequence, in float64 (spec, section 4.2). No cache: every call starts afresh."""

from functools import cache

import ops


class Model:
    """Kimi K3 out of a checkpoint."""

    def __init__(self, checkpoint):
        self.checkpoint = checkpoint
        self.config = checkpoint.config
        self._expert = cache(checkpoint.expert)
        self._layer = cache(checkpoint.layer)

    def forward(self, ids, tap=None):
        """Logits [T, vocabulary] of every position.

        `tap(layer, attention output, prefix sum)` sees each layer; `tap("final_norm", y, None)` the end.
        """
        ck, config = self.checkpoint, self.config
        layers = []
        for i in range(config["num_hidden_layers"]):

            def w(name):
                return self._layer(i, name)

            layers.append(
                {
                    "attn_norm": w("self_attention_res_norm.weight"),
                    "attn_proj": w("self_attention_res_proj.weight")[0],
                    "mlp_norm": w("mlp_res_norm.weight"),
                    "mlp_proj": w("mlp_res_proj.weight")[0],
                }
            )
        out = ops.residual_stack(
            ck.model("embed_tokens")[list(ids)],
            layers,
            config["attn_res_block_size"],
            (ck.model("output_attn_res_norm"), ck.model("output_attn_res_proj")[0]),
            self._attention,
            self._feed_forward,
            tap,
        )
        final = ops.rms_norm(out, ck.model("norm"))
        if tap is not None:
            tap("final_norm", final, None)
        return ops.lin(ck.head(), final)

    def _attention(self, i, h):
        x = ops.rms_norm(h, self._layer(i, "input_layernorm.weight"))
        # The lists in the config count from one.
        kda = i + 1 in self.config["linear_attn_config"]["kda_layers"]
        return self._kda(i, x) if kda else self._mla(i, x)

    def _kda(self, i, x):
        """Section 4.4."""
        config = self.config["linear_attn_config"]
        heads, dim = config["num_heads"], config["head_dim"]

        def w(name):
            return self._layer(i, f"self_attn.{name}")

        def convolved(name):
            y = ops.short_conv(ops.lin(w(f"{name}_proj.weight"), x), w(f"{name}_conv1d.weight")[:, 0])
            return y.reshape(-1, heads, dim)

        q, k, v = ops.l2_norm(convolved("q")) * dim**-0.5, ops.l2_norm(convolved("k")), convolved("v")
        f = ops.lin(w("f_b_proj.weight"), ops.lin(w("f_a_proj.weight"), x))
        g = ops.kda_log_decay(f, w("A_log"), w("dt_bias"), heads, config["gate_lower_bound"])
        beta = ops.sigmoid(ops.lin(w("b_proj.weight"), x))
        o, _ = ops.kda_recurrence(q, k, v, g, beta)
        y = ops.gated_head_norm(o, w("o_norm.weight"), ops.lin(w("g_proj.weight"), x))
        return ops.lin(w("o_proj.weight"), y)

    def _mla(self, i, x):
        """Section 4.5."""
        config = self.config
        heads, rank = config["num_attention_heads"], config["kv_lora_rank"]

        def w(name):
            return self._layer(i, f"self_attn.{name}.weight")

        q = ops.lin(w("q_b_proj"), ops.rms_norm(ops.lin(w("q_a_proj"), x), w("q_a_layernorm"), ops.MLA_EPS))
        ckv = ops.lin(w("kv_a_proj_with_mqa"), x)
        latent = ops.rms_norm(ckv[:, :rank], w("kv_a_layernorm"), ops.MLA_EPS)
        a = ops.mla_attention(
            q, latent, ckv[:, rank:], w("kv_b_proj"), heads, config["qk_nope_head_dim"], config["v_head_dim"]
        )
        return ops.lin(w("o_proj"), a * ops.sigmoid(ops.lin(w("g_proj"), x)))

    def _feed_forward(self, i, h):
        """Section 4.6."""
        config = self.config
        caps = config["activation_situ_beta"], config["activation_situ_linear_beta"]

        def w(name):
            return self._layer(i, f"{name}.weight")

        x = ops.rms_norm(h, w("post_attention_layernorm"))
        if i < config["first_k_dense_replace"]:
            return ops.situ_mlp(x, w("mlp.gate_proj"), w("mlp.up_proj"), w("mlp.down_proj"), *caps)

        def m(name):
            return w(f"block_sparse_moe.{name}")

        index, weights = ops.router(
            ops.lin(m("gate"), x),
            self._layer(i, "block_sparse_moe.gate.e_score_correction_bias"),
            config["num_experts_per_token"],
            config["routed_scaling_factor"],
        )
        z = ops.lin(m("routed_expert_down_proj"), x)
        y = ops.latent_moe(z, index, weights, lambda e: self._expert(i, e), m("routed_expert_norm"), *caps)
        shared = [m(f"shared_experts.{part}_proj") for part in ("gate", "up", "down")]
        return ops.lin(m("routed_expert_up_proj"), y) + ops.situ_mlp(x, *shared, *caps)
