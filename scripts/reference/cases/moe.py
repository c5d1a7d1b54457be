"""The router (spec, section 4.6)."""

import numpy as np

import ops
from case import Case, bf16


def cases():
    """All of this module."""
    yield router()


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
