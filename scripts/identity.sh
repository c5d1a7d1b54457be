#!/usr/bin/env bash
# Same bits at every budget, on a checkpoint too large for the tests. See --help.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    cat <<'HELP'
scripts/identity.sh MODEL BUDGET...

Runs the release binary on MODEL with each BUDGET (like 200MiB 1GiB 8GiB, from the smallest that works to one that holds
everything) and compares the logits of a prompt of 40 tokens and of three generated ones, to the bit. From budget to
budget it also varies the reader, the number of threads and the chunk of the prefill; every second run is checked against
a manifest, for which MODEL must be writable: it is sealed first, and the manifest is removed at the end.

MODEL must have at least 30,000 ids. Ends with code 1 at the first difference.
HELP
}

case "${1:---help}" in
-h | --help)
    usage
    exit 0
    ;;
esac
model=$1
shift
if [[ $# -eq 0 ]]; then
    usage >&2
    exit 2
fi

dormouse="${CARGO_TARGET_DIR:-target}/release/dormouse"
if [[ ! -x $dormouse ]]; then
    cargo build --release --locked
fi
manifest=$model/dormouse.manifest
if [[ -e $manifest ]]; then
    echo "$manifest is there already: this script would remove it" >&2
    exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work" "$manifest"' EXIT

"$dormouse" verify --model "$model" --seal >&2
mv "$manifest" "$work/manifest"
ids=$(seq -s, 11 701 27371)
readers=(auto direct buffered mmap)
chunks=(64 1 16)
run=0
for budget in "$@"; do
    reader=${readers[run % 4]} threads=$((1 + run % 2)) chunk=${chunks[run % 3]} checked=no
    if ((run % 2 == 0)); then
        cp -p "$work/manifest" "$manifest"
        checked=yes
    else
        rm -f "$manifest"
    fi
    "$dormouse" run --model "$model" --ids "$ids" --max-tokens 3 --temperature 0 --memory "$budget" --reader "$reader" \
        --threads "$threads" --prefill-chunk "$chunk" --json --logits "$work/$run.f32" >"$work/$run.json"
    peak=$(grep -oE '"peak_rss":[0-9]+' "$work/$run.json" | cut -d: -f2)
    echo "$budget: reader $reader, threads $threads, chunks of $chunk, checked $checked, peak $((peak >> 20)) MiB"
    if ! grep -q "\"checked\":$([[ $checked == yes ]] && echo true || echo false)" "$work/$run.json"; then
        echo "the run should have been checked: $checked" >&2
        exit 1
    fi
    cmp "$work/0.f32" "$work/$run.f32"
    run=$((run + 1))
done
echo "$run runs, the same bits in all: $(wc -c <"$work/0.f32") bytes of logits"
