#!/usr/bin/env bash
# Everything that must hold before a change lands. See --help.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    cat <<'HELP'
scripts/check.sh [STEP...]

Runs all steps, or those that are named, in this order, and stops at the first that fails:

  format   cargo fmt --check
  lint     clippy on all targets, warnings denied
  docs     rustdoc with private items, warnings denied
  build    the release binary
  smoke    the release binary: its version, and one greedy answer as JSON
  tiers    the model's tests on every instruction set below this machine's best one
  test     cargo test --locked, as the README has it

Tests that need files from outside the repository say that they were skipped. DORMOUSE_MXFP4_FIXTURE names
one of them: released MXFP4 bytes and their values.
HELP
}

step_format() { cargo fmt --check; }

step_lint() { cargo clippy --all-targets --locked -- -D warnings; }

# The readers of these docs work on the program, so private items belong to them.
step_docs() {
    RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" \
        cargo doc --no-deps --locked --document-private-items
}

step_build() { cargo build --release --locked; }

# As a new user: an empty home.
step_smoke() {
    local dormouse="${CARGO_TARGET_DIR:-target}/release/dormouse" home json
    home=$(mktemp -d)
    # shellcheck disable=SC2064  # the folder is known now
    trap "rm -rf '$home'" EXIT
    "$dormouse" --version
    json=$(DORMOUSE_HOME="$home" "$dormouse" run --prompt "Hello" --temperature 0 --json)
    printf '%s\n' "$json"
    expect "$json" '"text":"[^"]' "an answer that is not empty"
    expect "$json" '"ids":\[[0-9]' "token ids"
    expect "$json" '"finish":"stop"' "an answer that came to its end"
    if [[ $(printf '%s' "$json" | LC_ALL=C tr -d '\040-\176\200-\377' | wc -c) -ne 0 ]]; then
        echo "smoke: control codes in the output" >&2
        return 1
    fi
}

expect() {
    if ! grep -Eq -- "$2" <<<"$1"; then
        echo "smoke: expected $3" >&2
        return 1
    fi
}

step_tiers() {
    local tier tiers=(scalar)
    # The best tier of the machine is what `test` runs on.
    if grep -qw avx512f /proc/cpuinfo 2>/dev/null; then tiers+=(avx2); fi
    for tier in "${tiers[@]}"; do
        echo "-- DORMOUSE_CPU=$tier"
        DORMOUSE_CPU=$tier cargo test --locked --test golden --test identity
    done
}

step_test() { cargo test --locked; }

all=(format lint docs build smoke tiers test)

for argument in "$@"; do
    case $argument in
        -h | --help)
            usage
            exit 0
            ;;
    esac
    if [[ " ${all[*]} " != *" $argument "* ]]; then
        echo "check.sh: no step \`$argument\`; see --help" >&2
        exit 2
    fi
done

# Snapshots are compared, never written.
export INSTA_UPDATE=no
# What a developer has set for their own use must not change what is checked.
unset DORMOUSE_CPU DORMOUSE_HOME DORMOUSE_MODEL DORMOUSE_MEMORY DORMOUSE_THREADS DORMOUSE_THINK

times=""
for step in "${all[@]}"; do
    if [[ $# -gt 0 && " $* " != *" $step "* ]]; then continue; fi
    echo "== $step"
    # Times so far go before the last step, so that what ends the output is the tests' own result.
    if [[ $step == test && -n $times ]]; then echo "-- seconds so far:$times"; fi
    began=$SECONDS
    "step_$step"
    took=$((SECONDS - began))
    times+=" $step $took"
    if [[ $step != test ]]; then echo "-- $step took $took s"; fi
done
