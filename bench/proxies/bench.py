#!/usr/bin/env python3
"""Measures HTTP reverse proxies side by side on loopback. See README.md."""
import argparse, http.client, json, math, os, re, shlex, shutil, signal, socket, string, subprocess, sys, tempfile, time
from summary import summarize, table

HERE = os.path.dirname(os.path.abspath(__file__))
E = os.environ.get
BASE = int(E("BASE_PORT", "18080"))
ROOT = os.path.normpath(os.path.join(HERE, "../.."))
PORT, H2_PORT, GRPC_PORT, TLS_PORT, ADMIN_PORT, OTLP_PORT = (BASE + i for i in range(6))
BACKENDS = [BASE + 921 + i for i in range(int(E("BACKENDS", "4")))]
GRPC_BACKENDS = [BASE + 1021 + i for i in range(2)]
PROXY_CPU, LOAD_CPU = E("PROXY_CPU", "1"), E("LOAD_CPU", "0")
WORKERS = E("WORKERS", "1")
PEERS_DIR = E("PEERS_DIR", os.path.expanduser("~/.cache/slackwater-peers"))
TOOLS = E("TOOLS", os.path.join(PEERS_DIR, "target/release"))
WRK, H2LOAD, STRACE, OPENSSL = E("WRK", "wrk"), E("H2LOAD", "h2load"), E("STRACE", "strace"), E("OPENSSL", "openssl")
CONNS = int(E("CONNS", "64"))
TESTS = ["rss", "sat", "rate2k", "rate8k", "sat1k", "sat64k", "h2", "h2rate", "grpc", "tls", "tlsnew", "tlsresume", "syscalls"]
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE") // 1024
log = lambda *a: print(*a, file=sys.stderr, flush=True)


def rd(p):
    with open(p) as f:
        return f.read()


def tree(pid):
    """The process and its descendants."""
    kids = {}
    for d in os.listdir("/proc"):
        if d.isdigit():
            try:
                s = rd(f"/proc/{d}/stat")
                kids.setdefault(int(s.rsplit(")", 1)[1].split()[1]), []).append(int(d))
            except OSError:
                pass
    out, todo = [], [pid]
    while todo:
        p = todo.pop()
        out.append(p)
        todo += kids.get(p, [])
    return out


def cpu(pids):
    """(ns by the scheduler's accounting, user ticks, system ticks) of the processes."""
    ns = ut = st = 0
    for p in pids:
        try:
            for t in os.listdir(f"/proc/{p}/task"):
                ns += int(rd(f"/proc/{p}/task/{t}/schedstat").split()[0])
            f = rd(f"/proc/{p}/stat").rsplit(")", 1)[1].split()
            ut += int(f[11])
            st += int(f[12])
        except OSError:
            pass
    return ns, ut, st


def cores():
    """{core: (busy ticks, steal ticks)}"""
    out = {}
    for l in rd("/proc/stat").splitlines():
        m = re.match(r"cpu(\d+) (.*)", l)
        if m:
            v = list(map(int, m[2].split()))
            out[m[1]] = (v[0] + v[1] + v[2] + v[5] + v[6], v[7])
    return out


def memory(pids):
    rss = pss = 0
    for p in pids:
        try:
            rss += int(rd(f"/proc/{p}/statm").split()[1]) * PAGE
            pss += int(re.search(r"^Pss:\s+(\d+)", rd(f"/proc/{p}/smaps_rollup"), re.M)[1])
        except OSError:
            pass
    return {"rss_kib": rss, "pss_kib": pss, "threads": sum(len(os.listdir(f"/proc/{p}/task")) for p in pids)}


def pinned(core, cmd, **kw):
    return subprocess.Popen(["taskset", "-c", core] + cmd, stdin=subprocess.DEVNULL, **kw)


def wait_port(port, proc=None, limit=15):
    t = time.time()
    while time.time() - t < limit:
        if proc and proc.poll() is not None:
            raise RuntimeError(f"exited with {proc.returncode} before it listened")
        try:
            socket.create_connection(("127.0.0.1", port), 0.5).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"port {port} did not open")


def stop(proc):
    if proc and proc.poll() is None:
        kids = tree(proc.pid)[1:]
        proc.terminate()
        try:
            proc.wait(5)
        except subprocess.TimeoutExpired:
            proc.kill()
            proc.wait()
        for k in kids:
            try:
                os.kill(k, signal.SIGKILL)
            except OSError:
                pass


def definitions():
    """peers.json with inheritance: an entry takes missing keys, and missing `vars`, from the entry that it is `like`."""
    found = json.loads(rd(os.path.join(HERE, "peers.json")))

    def whole(d):
        out = {}
        for name in d.get("like", []):
            above = whole(found[name])
            out = {**out, **above, "vars": {**out.get("vars", {}), **above.get("vars", {})}}
        return {**out, **d, "vars": {**out.get("vars", {}), **d.get("vars", {})}}

    return {name: whole(d) for name, d in found.items()}


class Peer:
    def __init__(self, name, d, grpc_ok):
        self.name, self.d = name, d
        self.work = tempfile.mkdtemp(prefix=f"bench-{name}-")
        self.vars = {
            "PORT": PORT, "H2_PORT": H2_PORT, "GRPC_PORT": GRPC_PORT, "TLS_PORT": TLS_PORT, "ADMIN_PORT": ADMIN_PORT,
            "OTLP_PORT": OTLP_PORT, "ROOT": ROOT, "COLLECTOR": E("COLLECTOR_BIN", f"{TOOLS}/slackwater-collector"),
            "CERTIFICATE": os.path.join(SHARED, "certificate.pem"), "KEY": os.path.join(SHARED, "certificate.pem.key"), "WORK": self.work, "WORKERS": WORKERS, "TOOLS": TOOLS,
            "HERE": HERE, "NGINX_EXTRA": "", "NGINX_LOG": "off", "NGINX_BALANCE": "", "HAPROXY_LOG": "", "HAPROXY_TLS": "", "HAPROXY_BALANCE": "roundrobin",
            "SETTINGS": "", "ADMIN": "none", "SEEING": "", "UPSTREAM": f"127.0.0.1:{BACKENDS[0]}",
            "UPSTREAMS": ",".join(f"127.0.0.1:{p}" for p in BACKENDS),
            "GRPC_UPSTREAMS": ",".join(f"127.0.0.1:{p}" for p in GRPC_BACKENDS),
            "UPSTREAMS_SPACE": " ".join(f"127.0.0.1:{p}" for p in BACKENDS),
            "GRPC_UPSTREAMS_H2C": " ".join(f"h2c://127.0.0.1:{p}" for p in GRPC_BACKENDS),
            "NGINX_SERVERS": " ".join(f"server 127.0.0.1:{p};" for p in BACKENDS),
            "NGINX_GRPC_SERVERS": " ".join(f"server 127.0.0.1:{p};" for p in GRPC_BACKENDS),
            "HAPROXY_SERVERS": "\n    ".join(f"server s{i} 127.0.0.1:{p}" for i, p in enumerate(BACKENDS)),
            "HAPROXY_GRPC_SERVERS": "\n    ".join(f"server g{i} 127.0.0.1:{p} proto h2" for i, p in enumerate(GRPC_BACKENDS)),
            "ENVOY_ENDPOINTS": ", ".join(self.envoy(p) for p in BACKENDS),
            "ENVOY_GRPC_ENDPOINTS": ", ".join(self.envoy(p) for p in GRPC_BACKENDS),
            "SLACKWATER_REPLICAS": ", ".join(f'"127.0.0.1:{p}"' for p in BACKENDS),
            "SLACKWATER_GRPC_REPLICAS": ", ".join(f'"127.0.0.1:{p}"' for p in GRPC_BACKENDS),
            "TRAEFIK_SERVERS": ", ".join(f'{{ url: "http://127.0.0.1:{p}" }}' for p in BACKENDS),
            "TRAEFIK_GRPC_SERVERS": ", ".join(f'{{ url: "h2c://127.0.0.1:{p}" }}' for p in GRPC_BACKENDS),
        }
        self.vars.update({k: self.fill(v) for k, v in d.get("vars", {}).items()})
        var, default = d.get("bin", ["", ""])
        self.bin = shutil.which(E(var) or self.fill(default)) if var else ""
        self.vars["BIN"] = self.bin or ""
        self.caps = [c for c in d.get("caps", ["h1"]) if c != "grpc" or grpc_ok]
        self.h2_port = H2_PORT if d.get("h2_port") == "own" else PORT
        self.proc, self.beside = None, []

    @staticmethod
    def envoy(p):
        return f"{{ endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {p} }} }} }} }}"

    def takes(self, test):
        """Whether the test is selected and the peer supports it."""
        if "direct" in self.d and test in ("rss", "syscalls"):
            return False
        need = {"h2": "h2", "h2rate": "h2", "grpc": "grpc", "tls": "tls", "tlsnew": "tls", "tlsresume": "tls"}.get(test, "h1")
        return need in self.caps and test in self.d.get("tests", TESTS)

    def fill(self, s):
        return string.Template(s).safe_substitute({**self.vars, "PEERS_DIR": PEERS_DIR}) if s else s

    def version(self):
        if "version" not in self.d or not self.bin:
            return ""
        r = subprocess.run(shlex.split(self.fill(self.d["version"])), capture_output=True, text=True)
        out = [l.strip() for l in (r.stdout + r.stderr).splitlines() if l.strip()]
        mod = [l for l in out if l.startswith("mod\t") or l.startswith("Version:")]
        # Some programs print their path before their version.
        return " ".join(w for w in (mod or out or [""])[0].split() if not w.startswith("/"))

    def start(self, under=(), limit=15):
        """Starts the peer, optionally under another program, and the processes beside it on the load's core."""
        for port in {PORT, self.h2_port, GRPC_PORT, TLS_PORT, ADMIN_PORT, OTLP_PORT}:
            try:
                socket.create_connection(("127.0.0.1", port), 0.2).close()
            except OSError:
                continue
            raise RuntimeError(f"port {port} is in use by something else; set BASE_PORT or NETNS=1")
        for t in self.d.get("conf", []):
            with open(os.path.join(self.work, t), "w") as f:
                f.write(self.fill(rd(os.path.join(HERE, "conf", t + ".in"))))
        env = {**os.environ, **{k: self.fill(v) for k, v in self.d.get("env", {}).items()}}
        self.err = open(os.path.join(self.work, "stderr"), "w")
        self.proc = pinned(PROXY_CPU, [*under, *shlex.split(self.fill(self.d["cmd"]))], env=env, stdout=self.err, stderr=self.err, cwd=self.work)
        self.beside = [pinned(LOAD_CPU, shlex.split(self.fill(c)), stdout=self.err, stderr=self.err) for c in self.d.get("beside", [])]
        try:
            wait_port(PORT, self.proc, limit)
        except RuntimeError as e:
            raise RuntimeError(f"{e}: {rd(self.err.name)[-600:]}")
        time.sleep(0.7)
        self.pids = tree(self.proc.pid)

    def stop(self):
        stop(self.proc)
        for b in self.beside:
            if b.poll() is not None:
                log(f"    {self.name}: what ran beside it ended early with {b.returncode}: {rd(self.err.name)[-300:]}")
            stop(b)
        t = time.time()
        while time.time() - t < 5:
            try:
                socket.create_connection(("127.0.0.1", PORT), 0.2).close()
                time.sleep(0.1)
            except OSError:
                break
        shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(self.work, exist_ok=True)

    def spread(self, n=40):
        """Which backends answered, over keep-alive and over fresh connections."""
        seen = {}
        c = None
        for i in range(n):
            if c is None or i % 4 == 0:
                c = http.client.HTTPConnection("127.0.0.1", PORT, timeout=5)
            c.request("GET", "/", headers={"Host": "bench.local"})
            r = c.getresponse()
            body = r.read()
            if r.status != 200 or body != b"ok":
                raise RuntimeError(f"status {r.status}, body {body[:60]!r}")
            b = r.getheader("x-backend")
            seen[b] = seen.get(b, 0) + 1
        return seen


def prepare():
    """The peers' shared folder, with a certificate."""
    global SHARED
    SHARED = tempfile.mkdtemp(prefix="bench-shared-")
    subprocess.run([OPENSSL, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                    "-subj", "/CN=bench.local", "-addext", "subjectAltName=DNS:bench.local,IP:127.0.0.1",
                    "-out", os.path.join(SHARED, "certificate.pem"), "-keyout", os.path.join(SHARED, "certificate.pem.key")],
                   check=True, capture_output=True)


def start_backend():
    back = pinned(LOAD_CPU, [f"{TOOLS}/backend", "--ports", ",".join(map(str, BACKENDS))])
    try:
        wait_port(BACKENDS[0], back)
        time.sleep(0.2)
        if back.poll() is not None:
            raise RuntimeError("it ended")
    except RuntimeError as e:
        stop(back)
        raise RuntimeError(f"the backend: {e}: are ports {BACKENDS[0]} to {BACKENDS[-1]} in use? Set BASE_PORT or NETNS=1")
    return back


def start_grpc_backend():
    back = pinned(LOAD_CPU, [f"{TOOLS}/h2backend", "--ports", ",".join(map(str, GRPC_BACKENDS))])
    wait_port(GRPC_BACKENDS[0], back)
    return back


def realtime(pids, on):
    for p in pids:
        subprocess.run(["chrt", "-a"] + (["-r", "-p", "1"] if on else ["-o", "-p", "0"]) + [str(p)],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def measured(pids, cmd, parse, rt=False):
    """Runs a load command on the load core; adds the proxy's CPU per request and how busy each core was.
    rt: with RT=1 the proxy, the backends and the generator run as SCHED_RR meanwhile, so that other work on the
    machine neither delays nor batches the requests (only for fixed rates, which leave the cores mostly idle)."""
    rt = rt and E("RT") == "1"
    if rt:
        realtime(pids + BACK_PIDS, True)
    c0, k0, t0 = cpu(pids), cores(), time.time()
    r = subprocess.run((["chrt", "-r", "1"] if rt else []) + ["taskset", "-c", LOAD_CPU] + cmd, capture_output=True, text=True, timeout=120)
    c1, k1, t1 = cpu(pids), cores(), time.time()
    if rt:
        realtime(pids + BACK_PIDS, False)
    out = parse(r.stdout + r.stderr)
    n = out.get("requests") or 0
    ns = c1[0] - c0[0]
    wall = t1 - t0
    out["wall_s"] = round(wall, 3)
    out["proxy_util"] = round(ns / 1e9 / wall, 3)
    if n:
        out["cpu_us"] = round(ns / 1e3 / n, 3)
        tot = (c1[1] - c0[1]) + (c1[2] - c0[2])
        out["user_share"] = round((c1[1] - c0[1]) / tot, 3) if tot else None
        out["stat_cpu_us"] = round(tot / TICK * 1e6 / n, 3)
    d = lambda c, i: (k1[c][i] - k0[c][i]) / TICK / wall
    if PROXY_CPU in k1 and LOAD_CPU in k1:
        out["other_on_proxy_core"] = round(max(0.0, d(PROXY_CPU, 0) - out["proxy_util"]), 3)
        out["load_core_busy"] = round(d(LOAD_CPU, 0), 3)
        out["steal"] = round(d(PROXY_CPU, 1) + d(LOAD_CPU, 1), 3)
    if out.get("errors"):
        log(f"    errors: {out['errors']}")
    return out


def wrk(path, secs, scheme="http", port=None):
    def parse(s):
        m = re.search(r"(\d+) requests in", s)
        e = re.search(r"Non-2xx or 3xx responses: (\d+)", s)
        k = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", s)
        r = re.search(r"Requests/sec:\s+([\d.]+)", s)
        if not m:
            raise RuntimeError("wrk: " + s[-300:])
        return {"requests": int(m[1]), "rps": float(r[1]),
                "errors": (int(e[1]) if e else 0) + (sum(map(int, k.groups())) if k else 0)}
    return [WRK, "-t1", f"-c{CONNS}", f"-d{secs}s", "-H", "Host: bench.local", "-H", "User-Agent: loadgen", "-H", "Accept: */*",
            "-H", "Cookie: session=0123456789abcdef", f"{scheme}://127.0.0.1:{port or TARGET}{path}"], parse


def handshakes(secs, resumed):
    """Connections of one request each, one after the other; CPU is counted for each connection."""
    def parse(s):
        m = re.findall(r"(\d+) connections in (\d+) real seconds", s)
        if not m or int(m[-1][0]) == 0:
            raise RuntimeError("openssl s_time: " + s[-300:])
        return {"requests": int(m[-1][0]), "errors": 0, "rps": round(int(m[-1][0]) / secs, 1)}
    return [OPENSSL, "s_time", "-connect", f"127.0.0.1:{TLS_PORT}", "-www", "/", "-time", str(math.ceil(secs)),
            "-reuse" if resumed else "-new"], parse


def loadgen(rate, secs, extra=()):
    return [f"{TOOLS}/loadgen", "--addr", f"127.0.0.1:{TARGET}", "--conns", str(CONNS), "--rate", str(rate), "--duration", str(secs),
            "--warmup", "0.5", *extra], lambda s: json.loads(s.strip().splitlines()[-1])


def h2load(port, secs, rps=0, grpc=False):
    def parse(s):
        m = re.search(r"requests: (\d+) total, (\d+) started, (\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored", s)
        r = re.search(r"finished in [\d.]+m?s, ([\d.]+) req/s", s)
        if not m:
            raise RuntimeError("h2load: " + s[-300:])
        return {"requests": int(m[4]), "errors": int(m[5]), "rps": float(r[1])}
    c = 16
    cmd = [H2LOAD, "-t1", f"-c{c}", "-m8", "-D", str(secs), "-H", "cookie: session=0123456789abcdef"]
    if rps:
        cmd += ["--rps", str(rps / c)]
    if grpc:
        cmd += ["-d", GRPC_BODY, "-H", "content-type: application/grpc", "-H", "te: trailers"]
    return cmd + [f"http://127.0.0.1:{port}/bench.Echo/Say" if grpc else f"http://127.0.0.1:{port}/"], parse


def t_rss(p):
    """Memory before the first request, and for each idle connection: N more of them after N / 4 are open, so that what the
    first requests touch does not count as theirs."""
    idle = memory(p.pids)
    n = int(E("HOLD", "1000"))
    holding = []
    held = errors = 0
    try:
        for conns in (n // 4, n):
            before = memory(p.pids)
            g = pinned(LOAD_CPU, [f"{TOOLS}/loadgen", "--addr", f"127.0.0.1:{TARGET}", "--conns", str(conns), "--hold", "60"],
                       stdout=subprocess.PIPE, text=True)
            holding.append(g)
            line = g.stdout.readline().split()
            held, errors = held + int(line[1]), errors + int(line[3])
            time.sleep(1)
            p.pids = tree(p.pids[0])
        m = memory(p.pids)
    finally:
        for g in holding:
            stop(g)
    time.sleep(0.5)
    return {"idle_rss_kib": idle["rss_kib"], "idle_pss_kib": idle["pss_kib"], "held": held, "errors": errors,
            "rss_kib": m["rss_kib"], "pss_kib": m["pss_kib"], "threads": m["threads"],
            "kib_per_conn": round((m["pss_kib"] - before["pss_kib"]) / n, 2)}


def t_syscalls(p):
    """System calls per request at 500 rps (each event alone) and in closed loops (events in batches), under strace."""
    out = {}
    lg = lambda *a: ([f"{TOOLS}/loadgen", "--addr", f"127.0.0.1:{TARGET}", "--duration", "2", *a], loadgen(0, 0)[1])
    kinds = {"low": lg("--rate", "500", "--conns", "16"), "closed": lg("--conns", str(CONNS))}
    if "h2" in p.caps:
        kinds["h2"] = h2load(p.h2_port, 2)
    if "grpc" in p.caps:
        kinds["grpc"] = h2load(GRPC_PORT, 2, grpc=True)
    for kind, (cmd, parse) in kinds.items():
        f = os.path.join(p.work, "strace")
        s = subprocess.Popen([STRACE, "-f", "-c", "-o", f] + sum((["-p", str(x)] for x in p.pids), []),
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.6)
        r = subprocess.run(["taskset", "-c", LOAD_CPU] + cmd, capture_output=True, text=True, timeout=60)
        s.send_signal(signal.SIGINT)
        s.wait(20)
        n = parse(r.stdout)["requests"]
        calls = {}
        for l in rd(f).splitlines():
            m = re.match(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?([a-z_0-9]+)$", l)
            if m and m[2] != "total":
                calls[m[2]] = round(int(m[1]) / n, 2)
        calls = {k: v for k, v in sorted(calls.items(), key=lambda x: -x[1]) if v >= 0.02}
        out[kind] = {"requests": n, "per_request": calls, "total": round(sum(calls.values()), 2)}
    return out


def warm_up(p, test):
    """A second of the test's kind of load on a process that has just started."""
    if test in ("h2", "h2rate"):
        cmd = h2load(p.h2_port, 1)[0]
    elif test == "grpc":
        cmd = h2load(GRPC_PORT, 1, grpc=True)[0]
    elif test == "tls":
        cmd = wrk("/", 1, "https", TLS_PORT)[0]
    elif test in ("rss", "tlsnew", "tlsresume"):
        return
    else:
        cmd = wrk("/", 1)[0]
    subprocess.run(["taskset", "-c", LOAD_CPU] + cmd, capture_output=True)


def run_test(p, t, secs):
    if t == "rss":
        return t_rss(p)
    if t == "sat":
        return measured(p.pids, *wrk("/", secs))
    if t == "rate2k":
        return measured(p.pids, *loadgen(2000, secs * 1.5), rt=True)
    if t == "rate8k":
        return measured(p.pids, *loadgen(8000, secs), rt=True)
    if t == "sat1k":
        return measured(p.pids, *wrk("/1k", secs))
    if t == "sat64k":
        return measured(p.pids, *wrk("/64k", secs))
    if t == "h2":
        return measured(p.pids, *h2load(p.h2_port, secs))
    if t == "h2rate":
        return measured(p.pids, *h2load(p.h2_port, secs, rps=4000), rt=True)
    if t == "grpc":
        return measured(p.pids, *h2load(GRPC_PORT, secs, grpc=True))
    if t == "tls":
        return measured(p.pids, *wrk("/", secs, "https", TLS_PORT))
    if t in ("tlsnew", "tlsresume"):
        return measured(p.pids, *handshakes(secs, t == "tlsresume"))
    return t_syscalls(p)


def run_once(p, test, secs, run, rep, back):
    """One test of one peer, with its own process."""
    global TARGET
    try:
        if "direct" in p.d:
            TARGET, p.pids = BACKENDS[0], [back.pid]
        else:
            TARGET = PORT
            p.start()
            if "spread" not in run:
                run["spread"] = p.spread()
                if len(run["spread"]) < len(BACKENDS):
                    log(f"    not balanced: {run['spread']}")
        warm_up(p, test)
        if any(b.poll() is not None for b in p.beside):
            raise RuntimeError(f"what runs beside it ended: {rd(p.err.name)[-300:]}")
        run["tests"][test] = r = run_test(p, test, secs)
        what = f"{r['cpu_us']} us, {r.get('rps')}/s, other {r.get('other_on_proxy_core')}" if r.get("cpu_us") else ""
        log(f"rep {rep} {test:9} {p.name:24} {what}")
    except Exception as e:
        run["tests"][test] = {"error": str(e)[:600]}
        log(f"rep {rep} {test:9} {p.name:24} failed: {e}")
    finally:
        if "direct" not in p.d:
            p.stop()


def main():
    global GRPC_BODY, BACK_PIDS
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("peers", nargs="*", help="names from peers.json or --add (default: all that are installed)")
    ap.add_argument("--add", action="append", default=[], metavar="NAME=CMD",
                    help="another proxy; CMD may use ${PORT} ${GRPC_PORT} ${UPSTREAMS} ${GRPC_UPSTREAMS} ${WORK} ${WORKERS}")
    ap.add_argument("--caps", action="append", default=[], metavar="NAME=h1,h2,grpc", help="what an added proxy can do (default h1)")
    ap.add_argument("--conf", action="append", default=[], metavar="NAME=FILE,...", help="templates in conf/ (FILE.in) to fill into ${WORK}/FILE")
    ap.add_argument("--reps", type=int, default=3)
    ap.add_argument("--secs", type=float, default=4)
    ap.add_argument("--tests", default=",".join(t for t in TESTS if t != "syscalls"))
    ap.add_argument("--base", default="nginx", help="ratios are to this peer of the same repetition")
    ap.add_argument("--out", default="")
    ap.add_argument("--quiet", type=float, help="with --summarize: fixed-rate samples with more other work on the proxy's core do not count (0.1, say)")
    ap.add_argument("--summarize", nargs="+", metavar="JSON", help="only print the tables of earlier results")
    a = ap.parse_args()
    if a.summarize:
        data = {"runs": []}
        for f in a.summarize:
            for r in json.loads(rd(f))["runs"]:
                data["runs"].append({**r, "rep": (f, r["rep"])})
        s = summarize(data, a.base, a.quiet)
        table(s)
        print(f"\nRatios to {a.base}, median over repetitions:\n")
        table(s, ratio=f"ratio_to_{a.base}")
        return
    secs = int(a.secs) if a.secs == int(a.secs) else a.secs
    defs = definitions()
    added = []
    for x in a.add:
        n, c = x.split("=", 1)
        defs[n] = {"cmd": c, "caps": ["h1"]}
        added.append(n)
    for x in a.caps:
        n, c = x.split("=", 1)
        defs[n]["caps"] = c.split(",")
    for x in a.conf:
        n, c = x.split("=", 1)
        defs[n]["conf"] = c.split(",")
    names = a.peers + [n for n in added if n not in a.peers] if a.peers else [n for n in defs if defs[n].get("default", True)]
    prepare()
    GRPC_BODY = os.path.join(SHARED, "body.grpc")
    with open(GRPC_BODY, "wb") as f:
        f.write(b"\0\0\0\0\x05hello")
    back = start_backend()
    gback, grpc_ok = None, os.path.exists(f"{TOOLS}/h2backend")
    data = {"meta": {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "uname": " ".join(os.uname()[i] for i in (0, 2, 4)), "cpus": os.cpu_count(),
                     "reps": a.reps, "secs": secs, "conns": CONNS, "workers": WORKERS, "versions": {}}, "runs": []}
    try:
        if grpc_ok:
            gback = start_grpc_backend()
        BACK_PIDS = [b.pid for b in (back, gback) if b]
        peers = []
        for n in names:
            p = Peer(n, defs[n], grpc_ok)
            if "bin" in defs[n] and not p.bin:
                log(f"{n}: not installed, left out")
                continue
            data["meta"]["versions"][n] = p.version()
            peers.append(p)
        for rep in range(a.reps):
            # Peers take turns within each test, so that compared values are measured within
            # seconds. The order changes each time, so that drift of the machine favours none of
            # them.
            runs = {p.name: {"peer": p.name, "rep": rep, "at": time.strftime("%H:%M:%S"), "tests": {}} for p in peers}
            data["runs"] += runs.values()
            for i, test in enumerate(a.tests.split(",")):
                turn = [p for p in peers if p.takes(test)]
                k = (rep + i) % max(1, len(turn))
                for p in turn[k:] + turn[:k]:
                    run_once(p, test, secs, runs[p.name], f"{rep + 1}/{a.reps}", back)
                if a.out:
                    data["summary"] = summarize(data, a.base)
                    with open(a.out, "w") as f:
                        json.dump(data, f, indent=1)
    finally:
        stop(gback)
        stop(back)
        shutil.rmtree(SHARED, ignore_errors=True)
    table(summarize(data, a.base))
    print(f"\nRatios to {a.base}, median over repetitions:\n")
    table(summarize(data, a.base), ratio=f"ratio_to_{a.base}")
    if "syscalls" in a.tests.split(","):
        for r in data["runs"]:
            s = r["tests"].get("syscalls")
            if s and "low" in s:
                print(f"\n{r['peer']}: system calls per request")
                for kind, c in s.items():
                    print(f"  {kind:6} {c['total']:6} {c['per_request']}")


if __name__ == "__main__":
    main()
