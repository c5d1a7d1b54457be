#!/usr/bin/env bash
# What the screen takes of a core, idle and while slow tokens are computed. Takes a minute after the build.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --locked --release --test pty waiting::screen_cost -- --exact --ignored --nocapture
