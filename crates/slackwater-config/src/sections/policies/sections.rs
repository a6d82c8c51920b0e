//! What each policy's section has: its keys, by the names of the core's fields. Ranges are the
//! core's, and so are its words for them.

use crate::sections::table::{Boolean, Core, Factor, Number, PerQuery, Share, Span, keys};
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{
    C3Settings, CapacitySettings, ElsSettings, LinearSettings, PeakEwmaSettings,
    PolledPowerOfDSettings, PowerOfDSettings, RifThenLatencySettings, Settings,
    ShortestExpectedDelaySettings, WeightedRoundRobinSettings,
};

keys! { PrequalSettings in "prequal", Settings::check {
    /// Probes that each query triggers (r_probe). Fractions are exact in the long run. 0 leaves
    /// only idle probes [A2]
    probe_rate at probe_rate: Core(PerQuery);
    /// While probing shows an overload, of replicas or of this process, the rate falls step by step
    /// towards this, and `remove_rate` with it; it comes back within half a minute of answers in
    /// time ([Decision 0011](decisions/0011-fewer-probes-in-an-overload.md)). From `probe_rate` on:
    /// it never falls, as in the paper. 0: idle probes may be all that is left.
    /// `slackwater_probe_rate` is what it is now [A2]
    probe_rate_min at probe_rate_min: Core(PerQuery);
    /// Reports removed from the pool after each query (r_remove). 0: none is removed by rate [A10]
    remove_rate at remove_rate: Core(PerQuery);
    /// The most reports in the pool (m) [A5]
    pool_capacity at pool_capacity: Core(Number);
    /// A report this old is removed [A5]
    report_age_max at report_age_max: Core(Span);
    /// From this quantile of the requests in flight on, a report is hot (Q_RIF). 0: all are, and
    /// requests in flight alone decide. 1: none is, and latency alone decides [A6, A7]
    rif_limit_quantile at rif_limit_quantile: Core(Share), "0.7 (the paper: 0.840896, 2^-0.25)";
    /// The net rate at which reports would pile up in the pool (δ of equation 1) [A9]
    pool_drift at pool_drift: Core(PerQuery);
    /// The most queries that one report may decide by the paper's equation (1), which has no such
    /// limit. Whatever it is, a report may decide as many as it takes for the pool not to run dry,
    /// 16 at the most [A9]
    reuse_max at reuse_max: Core(Number);
    /// When no probe has been sent for so long, some are [A3]
    probe_idle_max at probe_idle_max: Core(Span);
    /// How many are then sent. 0 turns idle probes off [A3]
    idle_probes at idle_probes: Core(Number);
    /// No replica is probed again sooner than this. 0: no such limit, as in the paper [A2]
    probe_interval_min at probe_interval_min: Core(Span);
    /// A probe not answered by then is lost; no query waits for it [A4]
    probe_deadline at probe_deadline: Core(Span);
    /// The most probes outstanding at once, for each worker [A4]
    probes_outstanding_max at probes_outstanding_max: Core(Number);
    /// The most probes a second, for each worker, idle ones and those of silent replicas among
    /// them; at once a tenth of it, or 16 [A4]
    probes_per_second_max at probes_per_second_max: Core(Number), "0: no limit";
    /// Probes for each query in synchronous mode (d) [S1]
    sync_probes at sync_probes: Core(Number);
    /// A synchronous choice is made by then with the answers that there are [S1]
    sync_deadline at sync_deadline: Core(Span);
    /// Send no probes: each worker goes by what it sees itself [A13]
    local_only at local_only: Boolean;
} }

keys! { LinearSettings in "linear", Settings::check {
    /// How much requests in flight weigh against latency (λ). 0: latency alone decides. 1: requests
    /// in flight alone.
    rif_weight at rif_weight: Core(Share);
    /// The latency that one request in flight is taken for (α).
    rif_scale at rif_scale: Core(Span);
} }

keys! { C3Settings in "c3", Settings::check {
    /// How many clients the replicas have: each worker of each proxy is one. A request of one's own
    /// counts for so many.
    clients at clients: Core(Number);
    /// What the newest value weighs in each average. 1: nothing is remembered.
    newest_weight at newest_weight: Core(Share);
} }

keys! { RifThenLatencySettings in "rif_then_latency", Settings::check {
    /// Replicas with at most this many times the fewest requests in flight are told apart by
    /// latency. 1: latency decides between equals only.
    rif_slack at rif_slack_millionths: Core(Factor);
} }

keys! { ShortestExpectedDelaySettings in "shortest_expected_delay", Settings::check {
    /// By how much of the mean of all a replica's mean latency may differ and still count as that
    /// mean. 0: every difference counts, chance and all; 10: requests in flight decide alone.
    latency_band at latency_band_millionths: Core(Factor);
} }

keys! { CapacitySettings in "capacity", Settings::check {
    /// Probes that each request triggers while all replicas report their capacity, and reports come
    /// with at least half of the responses; else `prequal.probe_rate` counts. 0: idle probes only,
    /// and reports that come with responses.
    probe_rate at probe_rate: Core(PerQuery);
    /// By how much of the mean a replica's cost for each request may differ and still count as the
    /// mean. 0: every difference counts, chance and all.
    cost_band at cost_band_millionths: Core(Factor);
} }

keys! { PowerOfDSettings in "power_of_d", Settings::check {
    /// Distinct replicas drawn for each request (d).
    choices at choices: Core(Number);
} }

keys! { PeakEwmaSettings in "peak_ewma", Settings::check {
    /// The time in which an average comes down to 37 % of a peak (τ).
    decay at decay: Core(Span);
    /// The average that a replica begins with. Below what requests take, a new replica is tried
    /// eagerly; above, with care.
    initial_latency at initial_latency: Core(Span);
    /// What a failure counts as, at the least. 0: as what it took. Only with
    /// `error_aversion.enabled = false`, which has its own way.
    failure_penalty at failure_penalty: Core(Span);
    /// Distinct replicas drawn for each request.
    choices at choices: Core(Number);
} }

keys! { ElsSettings in "els", Settings::check {
    /// How fast averages forget: 63 % of one come from the last `time_bias`.
    time_bias at time_bias: Core(Span);
    /// A replica whose success rate is below this share of the fleet's gets no requests. 0: nobody
    /// is excluded. 1: whoever is below the mean.
    exclude_below at exclude_below: Core(Share);
    /// A replica of which fewer samples are remembered is not excluded.
    exclude_samples_min at exclude_samples_min: Core(Number);
} }

keys! { PolledPowerOfDSettings in "polled_power_of_d", Settings::check {
    /// How often each worker asks each replica for its requests in flight.
    interval at interval: Core(Span);
    /// Distinct replicas drawn for each request.
    choices at choices: Core(Number);
} }

keys! { WeightedRoundRobinSettings in "weighted_round_robin", Settings::check {
    /// How often each worker asks each replica for its report.
    interval at interval: Core(Span);
    /// The time constant over which request rate, CPU and errors are averaged. 0: each report
    /// counts as it came.
    smoothing at smoothing: Core(Span);
    /// How often weights are taken over into the turns.
    update_period at update_period: Core(Span);
    /// For so long after its first useful report a replica keeps the mean of the others.
    blackout at blackout: Core(Span);
    /// A report this old has expired, and the next one begins a new blackout.
    expiration at expiration: Core(Span);
    /// What a share of failed requests adds to the CPU in use. 0: failures do not count.
    error_penalty at error_penalty: Core(PerQuery);
} }
