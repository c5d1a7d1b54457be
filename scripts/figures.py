#!/usr/bin/env python3
"""The table of figures in the README, measured anew.

    scripts/figures.py [--mid DIR] [--wide DIR] [--repeats N] [--parts PART,PART]

Runs `dormouse bench` of the release binary (built first if there is none) and prints one table in Markdown, with the
command of each row. --mid and --wide are synthetic checkpoints: one of all kinds of layers that fits into 12 GiB, and one
of the released widths with a few layers (16 GB). Rows whose checkpoint is not given are left out; the parts are kernels,
resident, streamed, checksums (all three of --wide) and mid. Nothing else should run meanwhile. It takes about ten
minutes where the disk gives 2 GB/s, and for --wide 20 GiB of memory that are free. --wide is sealed and unsealed for the
cost of the checksums, so its folder must be writable.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "dormouse"


PARTS = ["kernels", "resident", "streamed", "checksums", "mid"]


class Rows(list):
    """Lines of the table, each told as soon as it is there."""

    def append(self, row):
        print("  " + " | ".join(row[:3]), file=sys.stderr)
        super().append(row)


def bench(arguments, tier=None):
    """Runs the program and gives what it printed, and the command as one would type it."""
    environment = dict(os.environ, **({"DORMOUSE_CPU": tier} if tier else {}))
    command = [str(BINARY), *map(str, arguments), "--json"]
    print("measuring: " + " ".join(map(str, arguments)), file=sys.stderr)
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with code {done.returncode}")
    shown = [pathlib.Path(a).name if str(a).startswith("/") else str(a) for a in arguments]
    prefix = f"DORMOUSE_CPU={tier} " if tier else ""
    return json.loads(done.stdout), f"`{prefix}dormouse {' '.join(shown)}`"


def processor():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown processor"


def kernels(rows, repeats, tier=None):
    result, command = bench(["bench", "kernels", "--repeats", repeats], tier)
    for line in result["kernels"]:
        if tier and "64 vectors" not in line["kernel"]:
            continue
        name = f"{line['kernel']}, {line['threads']} thread{'s' * (line['threads'] > 1)}, {result['tier']}"
        rates = line["gb_s"]
        spread = f"{rates['median']:.1f} GB/s ({rates['least']:.1f} to {rates['most']:.1f})"
        share = f"{line['of_read_limit']:.0%} of the read limit"
        if "64 vectors" in line["kernel"]:
            macs = line["gmac_s"]
            spread = f"{macs['median']:.1f} GMAC/s ({macs['least']:.1f} to {macs['most']:.1f})"
            share = f"{macs['median'] / line['threads']:.1f} a thread"
        if line["kernel"] == "sampling":
            spread, share = f"{163_840 * 4 / rates['median'] / 1e6:.2f} ms", "of 163,840 logits"
        rows.append((name, spread, share, command))
    limit = [line for line in result["kernels"] if line["kernel"] == "read limit"]
    return max(line["gb_s"]["median"] for line in limit)


def seconds(result):
    return f"{result['median_s']:.3f} s ({result['least_s']:.3f} to {result['most_s']:.3f})"


def resident(rows, wide, limit):
    result, command = bench(["bench", "decode", "--model", wide, "--memory", "20GiB", "--prompt", 64, "--warm"])
    share = result["plan"]["token"]["touched"] / result["median_s"] / 1e9 / limit
    rows.append(("wide, all in memory: a token", seconds(result), f"{share:.0%} of the read limit", command))
    ratio = result["prefill_s"] / result["median_s"]
    rows.append(("wide, 64 tokens of prefill", f"{result['prefill_s']:.2f} s", f"{ratio:.1f} tokens", command))


def streamed(rows, wide):
    result, _ = bench(["bench", "decode", "--model", wide, "--memory", "20GiB"])
    busy = result["cpu_s"]["compute"]
    for _ in range(3):
        arguments = ["bench", "decode", "--model", wide, "--memory", "1GiB", "--tokens", 6, "--disk"]
        result, command = bench(arguments)
        disk, bytes_ = result["disk"], sum(result["bytes_per_token"].values())
        shown = f"{result['median_s']:.2f} s for {bytes_ / 1e9:.1f} GB"
        against = f"{disk['ratio']:.2f} times the disk's best ({disk['best_bytes_per_s'] / 1e9:.2f} GB/s)"
        rows.append(("wide, all streamed: a token", shown, against, command))
        # Beyond what the arithmetic takes when nothing has to be waited for.
        waited = result["waited_share"] * statistics.fmean(result["decode_s"])
        idle = (result["cpu_s"]["compute"] - busy) / waited / result["threads"]
        shown = f"{result['cpu_s']['compute']:.2f} s of processors, {busy:.2f} s when all is in memory"
        rows.append(("wide, all streamed: waiting", shown, f"{idle:.1%} of a core for each thread", command))


def checksums(rows, wide):
    """With and without a manifest in turns, each run beside the one before it: a disk is not the same for long."""
    manifest = pathlib.Path(wide) / "dormouse.manifest"
    aside = manifest.with_suffix(".aside")
    bench(["verify", "--model", wide, "--seal"])
    rates, readers = {True: [], False: []}, {True: [], False: []}
    try:
        for turn in range(10):
            checked = turn % 2 == 0
            if checked != manifest.exists():
                os.rename(*((aside, manifest) if checked else (manifest, aside)))
            result, command = bench(["bench", "decode", "--model", wide, "--memory", "1GiB", "--tokens", 4])
            assert result["checked"] == checked
            rates[checked].append(result["bytes_per_s"])
            bytes_ = sum(result["bytes_per_token"].values())
            readers[checked].append(result["cpu_s"]["read"] / bytes_ * 1e9)
    finally:
        for path in (manifest, aside):
            path.unlink(missing_ok=True)
    with_, without = (statistics.median(rates[c]) for c in (True, False))
    cost = statistics.median(1 - a / b for a, b in zip(rates[True], rates[False]))
    shown = f"{with_ / 1e9:.2f} against {without / 1e9:.2f} GB/s"
    rows.append(("wide, streamed, with and without checksums", shown, f"{cost:+.1%} (median of pairs)", command))
    with_, without = (statistics.median(readers[c]) for c in (True, False))
    shown = f"{with_:.3f} against {without:.3f} s of processors"
    rows.append(("the same, by GB read", shown, f"{with_ - without:+.3f} s", command))


def mid(rows, folder):
    result, command = bench(
        ["bench", "decode", "--model", folder, "--memory", "12GiB", "--prompt", 512, "--warm"]
    )
    ratio = result["prefill_s"] / result["median_s"]
    rows.append(("mid, all in memory: a token", seconds(result), "", command))
    rows.append(("mid, 512 tokens of prefill", f"{result['prefill_s']:.1f} s", f"{ratio:.0f} tokens", command))
    result, command = bench(["bench", "context", "--model", folder, "--memory", "12GiB"])
    for point in result["points"]:
        name = f"mid, a token after {point['positions']:,}"
        rows.append((name, f"{point['median_s']:.3f} s", f"state of {point['state_bytes'] >> 20} MiB", command))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mid")
    parser.add_argument("--wide")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--parts", default=",".join(PARTS))
    options = parser.parse_args()
    parts = options.parts.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"no such part: {', '.join(unknown)} (there are {', '.join(PARTS)})")
    if not BINARY.exists():
        subprocess.run(["cargo", "build", "--release", "--locked"], cwd=ROOT, check=True)
    rows = Rows()
    if "kernels" in parts or "resident" in parts:
        limit = kernels(rows, options.repeats)
    if "kernels" in parts:
        kernels(rows, options.repeats, "avx2")
    if options.wide:
        wide = os.path.abspath(options.wide)
        if "resident" in parts:
            resident(rows, wide, limit)
        if "streamed" in parts:
            streamed(rows, wide)
        if "checksums" in parts:
            checksums(rows, wide)
    if options.mid and "mid" in parts:
        mid(rows, os.path.abspath(options.mid))
    print(f"{datetime.date.today()}, {processor()}, {os.cpu_count()} processors, medians (least to most)\n")
    print("| what | measured | | command |\n| --- | --- | --- | --- |")
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
