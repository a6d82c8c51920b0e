#!/usr/bin/env python3
"""Counts what a request through `slackwater serve` costs in instructions, by function. See README.md."""
import argparse, collections, os, re, signal, socket, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
E = os.environ.get
BASE = int(E("BASE_PORT", "18080"))
PORT, BACKENDS = BASE + 10, [BASE + 941 + i for i in range(4)]
PEERS_DIR = E("PEERS_DIR", os.path.expanduser("~/.cache/slackwater-peers"))
TOOLS = E("TOOLS", os.path.join(PEERS_DIR, "target/release"))
CONNS = 16


def config(args):
    probe = "none" if args.policy == "round_robin" else "udp"
    admin = "127.0.0.1:0" if args.toml else "none"
    replicas = ", ".join(f'"127.0.0.1:{port}"' for port in BACKENDS)
    return (f'listen = ["127.0.0.1:{PORT}"]\nreplicas = [{replicas}]\npolicy = "{args.policy}"\nworkers = 1\n'
            f'[probe]\ntransport = "{probe}"\n[admin]\nlisten = "{admin}"\n' + "".join(f"{line}\n" for line in args.toml))


def connect(deadline_s=60):
    until = time.monotonic() + deadline_s
    while True:
        try:
            return socket.create_connection(("127.0.0.1", PORT), timeout=deadline_s)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def read_response(connection):
    text = b""
    while b"\r\n\r\n" not in text:
        part = connection.recv(1 << 18)
        if not part:
            sys.exit("the proxy closed a connection")
        text += part
    head, _, body = text.partition(b"\r\n\r\n")
    left = int(re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)[1]) - len(body)
    while left > 0:
        left -= len(connection.recv(1 << 18))


def run(args, requests, folder):
    """Instructions by function, of a whole process that forwards this many requests."""
    out, conf = os.path.join(folder, "out"), os.path.join(folder, "slackwater.toml")
    with open(conf, "w") as file:
        file.write(config(args))
    proxy = subprocess.Popen(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", args.bin, "serve", "--config", conf],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        connect().close()
        connections = [connect() for _ in range(CONNS)]
        fields = "".join(f"{field}\r\n" for field in args.field)
        request = f"GET {args.path} HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\n{fields}\r\n".encode()
        for _ in range(requests // CONNS):
            for connection in connections:
                connection.sendall(request)
            for connection in connections:
                read_response(connection)
    finally:
        proxy.send_signal(signal.SIGTERM)
        proxy.wait()
    told = subprocess.run(["callgrind_annotate", "--threshold=100", "--show-percs=no", out],
                          capture_output=True, text=True, check=True).stdout
    counts = collections.Counter()
    for line in told.splitlines():
        if match := re.match(r"\s*([\d,]+)\s+\S+?:(.*)$", line):
            counts[re.sub(r"\s*\[.*?\]$", "", match[2])] += int(match[1].replace(",", ""))
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default=os.path.normpath(os.path.join(HERE, "../../target/release/slackwater")))
    parser.add_argument("--requests", type=int, default=3200, help="counted; as many again come before them")
    parser.add_argument("--path", default="/", help="/, /1k or /64k")
    parser.add_argument("--policy", default="round_robin", help="anything else is probed over UDP")
    parser.add_argument("--field", action="append", default=[], help="of the requests' heads, beside Host")
    parser.add_argument("--toml", action="append", default=[], help="a line at the end of the configuration")
    parser.add_argument("--top", type=int, default=40, help="functions to show")
    args = parser.parse_args()
    backend = subprocess.Popen([f"{TOOLS}/backend", "--ports", ",".join(map(str, BACKENDS))])
    try:
        with tempfile.TemporaryDirectory() as folder:
            once, twice = (run(args, requests, folder) for requests in (args.requests, 2 * args.requests))
    finally:
        backend.kill()
    requests = args.requests // CONNS * CONNS
    each = {name: (count - once[name]) / requests for name, count in twice.items()}
    print(f"{sum(each.values()):8.0f} instructions for each request")
    for name, count in sorted(each.items(), key=lambda it: -it[1])[: args.top]:
        print(f"{count:8.0f} {name}")


if __name__ == "__main__":
    main()
