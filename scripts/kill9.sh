#!/usr/bin/env bash
# Kills the program 50 times (or as often as is asked) while it writes turns of a session, and as often while it reads a
# long prompt or saves the model's state, and holds what it goes on to against undisturbed runs. `cargo test` does the same
# with fewer kills.
set -euo pipefail
cd "$(dirname "$0")/.."

kills=${1:-50}
if [[ ! $kills =~ ^[1-9][0-9]*$ ]]; then
    echo "usage: scripts/kill9.sh [KILLS]" >&2
    exit 2
fi
DORMOUSE_TEST_KILLS=$kills cargo test --locked --test cli -- --exact sessions::a_turn_survives_kill_9_at_any_moment \
    states::a_state_survives_kill_9_while_it_is_written_and_while_the_prompt_is_read
