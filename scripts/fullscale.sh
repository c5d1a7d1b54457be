#!/usr/bin/env bash
# The whole checkpoint under small budgets, and under a container's limit of the same size. See --help.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    cat <<'HELP'
scripts/fullscale.sh MODEL [BUDGET...]

Runs the release binary on MODEL, a folder with all of Kimi K3 (1.56 TB: the release, or random weights in its layout
and sizes), and prints a table in Markdown. Takes about three passes over the weights for each budget (default: 3GiB
8GiB): minutes to hours, by the disk.

For each budget it prefills five tokens and generates two greedily, and checks that

  * peak resident memory, as the kernel counts it, stays within the budget plus 5 %;
  * ids and logits are those of the first budget, to the bit.

As root, where the memory controller of cgroup v1 or v2 can be used, each run is held in a cgroup whose limit is the
budget plus 5 %: a process that went over it would be killed. Elsewhere it says that no limit was set.

Figures go to standard output, progress to standard error. Nothing is written into MODEL.
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
budgets=("$@")
if [[ ${#budgets[@]} -eq 0 ]]; then
    budgets=(3GiB 8GiB)
fi

dormouse="${CARGO_TARGET_DIR:-target}/release/dormouse"
if [[ ! -x $dormouse ]]; then
    cargo build --release --locked
fi
work=$(mktemp -d)
group=
cleanup() {
    if [[ -n $group ]]; then
        rmdir "$group" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap cleanup EXIT

# A cgroup for one run, with a limit of $1 bytes; its path in $group, or nothing.
limit_to() {
    group=
    local name="dormouse-fullscale-$$"
    if [[ -d /sys/fs/cgroup/memory ]] && mkdir "/sys/fs/cgroup/memory/$name" 2>/dev/null; then
        group=/sys/fs/cgroup/memory/$name
        echo "$1" >"$group/memory.limit_in_bytes"
    elif [[ -f /sys/fs/cgroup/cgroup.controllers ]] && mkdir "/sys/fs/cgroup/$name" 2>/dev/null; then
        group=/sys/fs/cgroup/$name
        if ! echo "$1" >"$group/memory.max" 2>/dev/null; then
            rmdir "$group"
            group=
        fi
    fi
    if [[ -z $group ]]; then
        echo "no cgroup could be made: the run is not held to a limit from outside" >&2
    fi
}

# The number at a path of keys in the JSON object of a file.
number() {
    grep -oE "\"$2\":[0-9.e+-]+" "$1" | head -n 1 | cut -d: -f2
}

echo "| budget | peak resident | load | 5 tokens read | 1 token | GB read | GB/s | held by a cgroup |"
echo "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
first=
for budget in "${budgets[@]}"; do
    echo "running with --memory $budget" >&2
    bytes=$(numfmt --from=iec-i "${budget%B}")
    limit_to $((bytes * 105 / 100))
    json=$work/$budget.json
    logits=$work/$budget.f32
    status=0
    (
        if [[ -n $group ]]; then
            echo $BASHPID >"$group/cgroup.procs"
        fi
        exec "$dormouse" run --model "$model" --ids 1008,10484,318,15383,387 --max-tokens 2 --temperature 0 \
            --state-disk 0 --memory "$budget" --json --logits "$logits"
    ) >"$json" || status=$?
    if [[ -n $group ]]; then
        rmdir "$group" || true
    fi
    if [[ $status -ne 0 ]]; then
        cat "$json" >&2
        echo "the run with $budget ended with code $status" >&2
        exit 1
    fi
    peak=$(number "$json" peak_rss)
    if [[ $peak -gt $((bytes * 105 / 100)) ]]; then
        echo "peak resident memory was $peak bytes with a budget of $bytes" >&2
        exit 1
    fi
    read_s=$(number "$json" prefill_s)
    token_s=$(grep -oE '"decode_s":\[[0-9.e+-]+' "$json" | cut -d'[' -f2)
    total=$(($(number "$json" trunk) + $(number "$json" experts)))
    awk -v budget="$budget" -v peak="$peak" -v load="$(number "$json" load_s)" -v read="$read_s" -v token="$token_s" \
        -v total="$total" -v held="${group:+yes}" 'BEGIN {
            printf "| %s | %.2f GiB | %.1f s | %.0f s | %.1f s | %.1f | %.2f | %s |\n", budget, peak / 2^30, load, read,
                token, total / 1e9, total / 1e9 / (read + token), held ? held : "no" }'
    ids=$(grep -oE '"ids":\[[0-9,]*\]' "$json")
    if [[ -z $first ]]; then
        first=$budget
        first_ids=$ids
    elif [[ $ids != "$first_ids" ]]; then
        echo "other ids with $budget than with $first: $ids, not $first_ids" >&2
        exit 1
    elif ! cmp "$logits" "$work/$first.f32" >&2; then
        echo "other logits with $budget than with $first" >&2
        exit 1
    fi
done
echo
echo "Ids and logits are the same for all of them: $first_ids"
