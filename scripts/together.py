#!/usr/bin/env python3
"""What conversations that share their passes gain, and that they lose no bit by it.

Runs the release binary on MODEL with the prompts below, one after another and then all at once (`dormouse run
--messages-dir --together`), each as often as is asked, with the same memory: by default the least that works for all at
once, so that everything is streamed. Compares what was generated, and prints a table in Markdown: tokens a second by the
median of all steps that generate, and the gain once more with the prompts, which weigh the more the fewer tokens are
generated. Ends with code 1 where an answer differs.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PROMPTS = [
    "Why is the sky blue on a clear day?",
    "Write four lines about a mouse that sleeps through the winter.",
    "Name the planets in their order, and say which of them have rings.",
    "How would you sort a million numbers that do not fit in memory?",
    "What did people eat before there were potatoes in Europe?",
    "Explain compound interest to a child.",
    "Which is heavier, a litre of milk or a litre of oil?",
    "Tell me how a bicycle stays upright.",
]
ROOT = Path(__file__).resolve().parent.parent


def least_memory(binary, model, together):
    """The least memory that works, as it can be typed."""
    plan = [binary, "plan", "--model", model, "--together", str(together), "--memory", "1MiB", "--json"]
    refused = json.loads(subprocess.run(plan, stdout=subprocess.PIPE, check=False).stdout)
    return f"{-(-refused['smallest'] // 2**20)}MiB"


def run(binary, args, together, folder, number):
    """The results of one run over all prompts, by their names."""
    out = folder / f"answers-{together}-{number}"
    command = [binary, "run", "--model", args.model, "--memory", args.memory, "--together", str(together)]
    command += ["--messages-dir", folder / "questions", "--out", out, "--max-tokens", str(args.tokens)]
    command += ["--temperature", "1", "--top-p", "1", "--seed", "1"] + args.flags
    subprocess.run(command, check=True)
    return {path.stem: json.loads(path.read_text()) for path in sorted(out.glob("*.json"))}


def figures(results, together):
    """Tokens a second without and with the prompts, gigabytes a token, and the most memory."""
    seconds = [r["timings"]["prefill_s"] + sum(r["timings"]["decode_s"]) for r in results.values()]
    # All at once they begin together, and are done with the last of them.
    took = sum(seconds) if together == 1 else max(seconds)
    tokens = sum(len(r["ids"]) for r in results.values())
    step = statistics.median(s for r in results.values() for s in r["timings"]["decode_s"])
    read = sum(r["bytes"]["trunk"] + r["bytes"]["experts"] for r in results.values())
    return together / step, tokens / took, read / tokens / 1e9, max(r["memory"]["peak_rss"] for r in results.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--together", type=int, default=4, choices=range(2, len(PROMPTS) + 1), metavar="N")
    parser.add_argument("--tokens", type=int, default=16, help="generated for each prompt")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--memory", help="like 400MiB")
    parser.add_argument("flags", nargs="*", help="more flags for each run, after --")
    args = parser.parse_args()
    binary = os.path.join(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"), "release", "dormouse")
    if not os.access(binary, os.X_OK):
        subprocess.run(["cargo", "build", "--release", "--locked"], cwd=ROOT, check=True)
    args.memory = args.memory or least_memory(binary, args.model, args.together)
    print("| run | alone, tokens/s | together, tokens/s | gain | with prompts | GB a token | peak resident |")
    print("| --- | ---: | ---: | ---: | ---: | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "questions").mkdir()
        for number, text in enumerate(PROMPTS[: args.together]):
            (folder / "questions" / f"{number}.txt").write_text(text)
        for number in range(1, args.runs + 1):
            alone, together = (run(binary, args, count, folder, number) for count in (1, args.together))
            for prompt, expected in alone.items():
                if any(expected[field] != together[prompt][field] for field in ("prompt_ids", "ids", "finish")):
                    sys.exit(f"prompt {prompt} is answered otherwise together with others")
            one, one_whole, one_read, one_peak = figures(alone, 1)
            all_, all_whole, all_read, all_peak = figures(together, args.together)
            print(
                f"| {number} | {one:.2f} | {all_:.2f} | {all_ / one:.2f} | {all_whole / one_whole:.2f} "
                f"| {one_read:.2f}, {all_read:.2f} | {one_peak / 2**20:.0f}, {all_peak / 2**20:.0f} MiB |",
                flush=True,
            )
    print(f"\n{args.together} conversations, {args.tokens} tokens each, --memory {args.memory}: the same ids in all runs.")


if __name__ == "__main__":
    main()
