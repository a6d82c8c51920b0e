"""Medians of a run's results, their ratios to one peer, and tables of them."""
import statistics

METRICS = [  # (column, test, key, digits)
    ("sat rps", "sat", "rps", 0), ("sat cpu us/req", "sat", "cpu_us", 1), ("sat user us/req", "sat", "user_us", 1), ("8k cpu us/req", "rate8k", "cpu_us", 1),
    ("2k cpu us/req", "rate2k", "cpu_us", 1), ("2k p50 us", "rate2k", "lat_us.p50", 0), ("2k p99 us", "rate2k", "lat_us.p99", 0),
    ("2k p99.9 us", "rate2k", "lat_us.p999", 0), ("idle RSS MiB", "rss", "idle_rss_kib", 0), ("held RSS MiB", "rss", "rss_kib", 0),
    ("KiB/conn", "rss", "kib_per_conn", 1), ("1 KiB rps", "sat1k", "rps", 0), ("1 KiB cpu us", "sat1k", "cpu_us", 1),
    ("64 KiB rps", "sat64k", "rps", 0), ("64 KiB cpu us", "sat64k", "cpu_us", 1), ("h2 rps", "h2", "rps", 0), ("h2 cpu us", "h2", "cpu_us", 1), ("h2 user us", "h2", "user_us", 1),
    ("h2 4k cpu us", "h2rate", "cpu_us", 1), ("grpc rps", "grpc", "rps", 0), ("grpc cpu us", "grpc", "cpu_us", 1), ("grpc user us", "grpc", "user_us", 1),
    ("TLS rps", "tls", "rps", 0), ("TLS cpu us", "tls", "cpu_us", 1), ("new TLS conn/s", "tlsnew", "rps", 0), ("new TLS conn cpu us", "tlsnew", "cpu_us", 0),
    ("resumed conn/s", "tlsresume", "rps", 0), ("resumed conn cpu us", "tlsresume", "cpu_us", 0),
]


def get(run, test, key):
    v = run["tests"].get(test)
    if key == "user_us" and isinstance(v, dict) and v.get("cpu_us") and v.get("user_share") is not None:
        return v["cpu_us"] * v["user_share"]
    for k in key.split("."):
        v = v.get(k) if isinstance(v, dict) else None
    return v


FIXED = ("rate2k", "rate8k", "h2rate")  # tests that other work on the proxy's core distorts most


def summarize(data, base="nginx", quiet=None):
    """Medians and ratios. With quiet, of the fixed-rate tests only the samples count during which other work took at
    most that share of the proxy's core; where a peer has none, its least disturbed sample (marked noisy)."""
    runs = data["runs"]
    names = list(dict.fromkeys(r["peer"] for r in runs))
    out = {}
    for n in names:
        out[n] = {}
        for col, test, key, dig in METRICS:
            s = []  # (value, ratio to the base of the same repetition, noise)
            for r in runs:
                v = get(r, test, key) if r["peer"] == n else None
                if v is None:
                    continue
                b = [get(q, test, key) for q in runs if q["peer"] == base and q["rep"] == r["rep"]]
                s.append((v, v / b[0] if b and b[0] else None, get(r, test, "other_on_proxy_core") or 0))
            noisy = False
            if quiet is not None and test in FIXED and s:
                low = [x for x in s if x[2] <= quiet]
                noisy = not low
                s = low or [min(s, key=lambda x: x[2])]
            if s:
                vals, ratios = [x[0] for x in s], [x[1] for x in s if x[1]]
                out[n][col] = {"median": statistics.median(vals), "min": min(vals), "max": max(vals), "n": len(vals), "noisy": noisy,
                               f"ratio_to_{base}": round(statistics.median(ratios), 3) if ratios else None}
    if quiet is not None:  # the samples left are of different repetitions: compare medians
        for n in out:
            for col, test, *_ in METRICS:
                if test in FIXED and col in out[n] and col in out.get(base, {}):
                    out[n][col][f"ratio_to_{base}"] = round(out[n][col]["median"] / out[base][col]["median"], 3)
    return out


def table(summary, cols=None, ratio=None):
    cols = cols or [m[0] for m in METRICS]
    dig = {m[0]: m[3] for m in METRICS}
    print("| peer | " + " | ".join(cols) + " |\n|---|" + "---:|" * len(cols))
    for n, s in summary.items():
        cells = []
        for c in cols:
            v = s.get(c)
            if not v:
                cells.append("-")
            elif ratio:
                cells.append(f"{v[ratio]:.2f}" if v.get(ratio) else "-")
            else:
                x = v["median"] / (1024 if "MiB" in c and "RSS" in c else 1)
                cells.append(f"{x:,.{1 if 'RSS' in c else dig[c]}f}" + ("*" if v.get("noisy") else ""))
        print(f"| {n} | " + " | ".join(cells) + " |")
