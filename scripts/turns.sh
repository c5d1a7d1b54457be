#!/usr/bin/env bash
# Second turns compute only what is new, at every budget and after a restart, on a checkpoint too large for the tests. See
# --help.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    cat <<'HELP'
scripts/turns.sh MODEL BUDGET...

Runs the release binary on MODEL, a new process for each turn, with each BUDGET in turn (like 200MiB 1GiB 8GiB, from the
smallest that works to one that holds everything): a first turn, a second one that goes on from it, the second one again
(a retry), its message edited, and one that goes back to the first and branches off. Of each it checks that

  * exactly the tokens are computed that no state on the disk has seen;
  * its ids and logits are those of a run that computes the whole text, to the bit.

Prints the seconds that saving and restoring the states took. MODEL must have at least 30,000 ids.
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
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
drawn=4

run() {
    "$dormouse" run --model "$model" --max-tokens "$drawn" --temperature 0 --json "$@"
}

# A number in the JSON object of the last warm run.
number() {
    grep -oE "\"$1\":[0-9.e+-]+" "$work/warm.json" | head -n 1 | cut -d: -f2
}

# Runs the ids $2, of which $3 must be new, and holds the run against one that remembers nothing.
turn() {
    local what=$1 ids=$2 new=$3
    run --ids "$ids" --memory "$budget" --logits "$work/warm.f32" >"$work/warm.json"
    run --ids "$ids" --state-disk 0 --logits "$work/cold.f32" >"$work/cold.json"
    # All tokens that are drawn but the last are computed as well.
    if [[ $(number computed) -ne $((new + drawn - 1)) ]]; then
        echo "$budget, $what: $(number computed) positions computed, expected $((new + drawn - 1))" >&2
        exit 1
    fi
    cmp "$work/warm.f32" "$work/cold.f32"
    local got
    got=$(grep -oE '"ids":\[[0-9,]*\]' "$work/warm.json")
    if [[ $(grep -oE '"ids":\[[0-9,]*\]' "$work/cold.json") != "$got" ]]; then
        echo "$budget, $what: other ids than a run that remembers nothing" >&2
        exit 1
    fi
    answer=${got#*[}
    answer=${answer%]}
    echo "$budget, $what: $(number reused) reused in $(number restore_s) s, $new new," \
        "$(number saved) states of $(($(number saved_bytes) >> 10)) KiB saved in $(number save_s) s"
}

first=$(seq -s, 11 701 27371)
for budget in "$@"; do
    # Each budget begins with nothing remembered.
    export DORMOUSE_HOME=$work/home
    rm -rf "$DORMOUSE_HOME"
    turn "first turn" "$first" 40
    history=$first,$answer
    # The last token of a turn was drawn and not computed.
    turn "second turn" "$history,17,18,19" 4
    second=$answer
    turn "retry" "$history,17,18,19" 0
    turn "edit" "$history,20,21" 3
    turn "branch" "$first,23" 1
    turn "third turn" "$history,17,18,19,$second,29" 2
done
echo "all bits as without memory of what was before"
