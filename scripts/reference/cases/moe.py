"""Router and experts (spec, section 4.6)."""

import numpy as np

import ops
from case import Case, bf16

from .mxfp4 import random_matrix


def cases():
    """All of this module."""
    yield router()
    yield experts()


def dense(index, weights, experts):
    """Weights at their experts' places, zero elsewhere: no order of the chosen ones is part of the contract."""
    out = np.zeros((len(index), experts))
    np.put_along_axis(out, index, weights, axis=1)
    return out


def router():
    """The choice of experts and their weights."""
    rng = np.random.default_rng(31)
    tokens, count, top_k = 6, 10, 3
    scores, bias = bf16(rng.normal(size=(tokens, count)) * 1.5), bf16(rng.normal(size=count) * 0.4)
    # Experts 2, 5 and 8 are twins. In the last row they tie for the last two places: 2 and 5 must win.
    bias[[5, 8]] = bias[2]
    scores[-1] = -4.0
    scores[-1, [2, 5, 8]] = 0.5
    scores[-1, 0] = 6.0
    s = ops.sigmoid(scores)
    index, weights = ops.router(scores, bias, top_k)
    ordered = -np.sort(-(s + bias), axis=1)
    assert (ordered[:-1, top_k - 1] - ordered[:-1, top_k]).min() > 1e-3, "a choice hangs on rounding"

    def from_choice(choice, of=s, renormalised=True):
        w = np.take_along_axis(of, choice, axis=1)
        return {"weights": dense(choice, w / w.sum(1, keepdims=True) if renormalised else w, count)}

    unbiased = np.argsort(-s, axis=1, kind="stable")[:, :top_k]
    higher = count - 1 - np.argsort(-(s + bias)[:, ::-1], axis=1, kind="stable")[:, :top_k]
    soft = ops.softmax(scores)
    softmaxed = np.argsort(-(soft + bias), axis=1, kind="stable")[:, :top_k]
    return Case(
        "router",
        "4.6",
        """Scores before their sigmoid. The bias chooses the experts and is not in their weights; in the last row three
        experts tie for two places, which go to the lower indices. Expected are the weights at their experts' places.""",
        {"scores": scores, "bias": bias},
        {"weights": dense(index, weights, count)},
        {
            "bias_in_the_weights": from_choice(index, s + bias),
            "chosen_without_bias": from_choice(unbiased),
            "not_renormalised": from_choice(index, renormalised=False),
            "ties_to_the_higher_index": from_choice(higher),
            "softmax_instead_of_sigmoid": from_choice(softmaxed, soft),
            "renormalised_over_all": {
                "weights": dense(index, np.take_along_axis(s / s.sum(1, keepdims=True), index, 1), count)
            },
            "one_expert_fewer": from_choice(index[:, : top_k - 1]),
        },
        {"experts": count, "top_k": top_k, "scale": 1.0},
    )


def experts():
    """The routed experts and how they come together."""
    rng = np.random.default_rng(32)
    tokens, count, latent, width = 3, 4, 64, 32
    z = bf16(rng.normal(size=(tokens, latent)) * 1.2)
    norm = bf16(rng.normal(1.0, 0.4, size=latent))
    index = np.array([[2, 0], [1, 3], [0, 1]])
    share = np.array([0.8125, 0.65625, 0.546875])
    weights = np.stack([share, 1 - share], axis=1)
    inputs, decoded = {"z": z, "norm": norm, "weights": dense(index, weights, count)}, []
    for expert in range(count):
        shapes = {"w1": (width, latent), "w3": (width, latent), "w2": (latent, width)}
        matrices = {}
        for part, shape in shapes.items():
            packed, scale = random_matrix(rng, *shape, 122, 126)
            inputs[f"experts.{expert}.{part}.packed"], inputs[f"experts.{expert}.{part}.scale"] = packed, scale
            matrices[part] = ops.mxfp4_decode(packed, scale)
        decoded.append((matrices["w1"], matrices["w3"], matrices["w2"]))

    def combine(one, after=lambda y: ops.rms_norm(y, norm)):
        y = np.zeros_like(z)
        for t in range(tokens):
            for e, w in zip(index[t], weights[t]):
                y[t] += one(z[t], w, *decoded[e])
        return {"y": after(y)}

    def plain(x, w, w1, w3, w2):
        return w * ops.situ_mlp(x, w1, w3, w2)

    def same(y):
        return y

    expected = ops.latent_moe(z, index, weights, lambda e: decoded[e], norm)
    assert np.abs(expected - combine(plain)["y"]).max() < 1e-12
    return Case(
        "moe_experts",
        "4.6",
        """Four packed experts in their latent, two awake for each token. Weights go on an expert's output; the norm comes
        once, on the sum. Before the projection up, without the shared experts. The routing weights lie at their experts'
        places, zero means asleep.""",
        inputs,
        {"y": expected},
        {
            "norm_for_each_expert": combine(lambda x, w, *m: w * ops.rms_norm(ops.situ_mlp(x, *m), norm), same),
            "no_norm": combine(plain, same),
            "weights_before_the_activation": combine(
                lambda x, w, w1, w3, w2: ops.lin(w2, ops.situ(w * ops.lin(w1, x), w * ops.lin(w3, x)))
            ),
            "weights_on_the_input": combine(lambda x, w, *m: ops.situ_mlp(w * x, *m)),
            "no_weights": combine(lambda x, w, *m: ops.situ_mlp(x, *m)),
            "gate_and_up_exchanged": combine(lambda x, w, w1, w3, w2: w * ops.situ_mlp(x, w3, w1, w2)),
        },
        {"experts": count, "latent": latent, "width": width, "eps": ops.RMS_EPS, "beta": 4.0, "linear_beta": 25.0},
    )
