"""Holds the float64 reference against golden values of the tiny checkpoint.

    python compare.py FOLDER [--tolerance 1e-4]

FOLDER is a checkpoint with a `golden/` folder in it, such as `tests/fixtures/tiny`. Prints the largest absolute
difference of each kind of value, and fails if one is over the tolerance or if a greedy id differs.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from checkpoint import Checkpoint
from model import Model


def main():
    """Prints the differences; the exit code says whether they are small."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    args = parser.parse_args()
    golden = args.folder / "golden"
    model, worst = Model(Checkpoint(args.folder)), 0.0

    def report(what, ours, theirs):
        nonlocal worst
        assert ours.shape == theirs.shape, f"{what}: shape {ours.shape}, golden {theirs.shape}"
        diff = float(np.abs(ours - theirs).max())
        worst = max(worst, diff)
        print(f"{what:44} {diff:.2e}   (largest value {np.abs(theirs).max():.2f})")

    seen = {}

    def tap(layer, first, second):
        if layer == "final_norm":
            seen["final_norm"] = first
        else:
            seen[f"layer_{layer:02}_attn_out"], seen[f"layer_{layer:02}_prefix_sum"] = first, second

    ids = json.loads((golden / "ids.json").read_text())
    prompt, generated = ids["prompt_ids"], ids["generated"]
    logits = model.forward(prompt, tap)
    report("ids.logits.f32, last prompt position", logits[-1], np.fromfile(golden / "ids.logits.f32", "<f4"))
    layers = np.load(golden / "ids.layers.npz")
    assert set(layers) == set(seen), "ids.layers.npz has other values than the reference"
    for name in sorted(seen):
        report(f"ids.layers.npz, {name}", seen[name], layers[name])

    rows = model.forward(prompt + generated[:-1])
    report("ids.all.npy, every position", rows, np.load(golden / "ids.all.npy"))
    ok = rows[len(prompt) - 1 :].argmax(axis=1).tolist() == generated
    print(f"{'ids.json, greedy ids':44} {'equal' if ok else 'DIFFERENT'}")

    chat = json.loads((golden / "chat.json").read_text())
    prompt, generated = chat["prompt_ids"], chat["generated"]
    rows = model.forward(prompt + generated[:-1])[len(prompt) - 1 :]
    report("chat.logits.f32, last prompt position", rows[0], np.fromfile(golden / "chat.logits.f32", "<f4"))
    chat_ok = rows.argmax(axis=1).tolist() == generated
    print(f"{'chat.json, greedy ids':44} {'equal' if chat_ok else 'DIFFERENT'}")

    print(f"largest difference {worst:.2e}, tolerance {args.tolerance:.0e}")
    return 0 if ok and chat_ok and worst <= args.tolerance else 1


if __name__ == "__main__":
    sys.exit(main())
