#!/usr/bin/env bash
# Compares the instructions of a request with the published ones, for CI: see README.md.
set -euo pipefail
cd "$(dirname "$0")"
for tool in python3 valgrind openssl; do
    if ! command -v "$tool" > /dev/null; then
        echo "instructions are NOT checked: $tool is not installed" >&2
        exit 0
    fi
done
target="${CARGO_TARGET_DIR:-$(cd ../.. && pwd)/target}"
cargo build --quiet --profile quick --package slackwater --target-dir "$target" --manifest-path ../../Cargo.toml
# Servers for the proxy; their speed is not measured.
cargo build --quiet --locked --manifest-path tools/Cargo.toml --target-dir "$target/tools"
SLACKWATER_BIN="$target/quick/slackwater" TOOLS="$target/tools/debug" exec ./instructions.py --check --samples 2
