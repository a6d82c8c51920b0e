//! Plays one figure and prints its numbers and claims: `figure NAME SEEDS WARMUP_S SPAN_S [THREADS] [POLICY…]`.

use core::sync::atomic::AtomicBool;
use core::time::Duration;
use slackwater_sim::figure::{self, Effort};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| {
        arguments
            .get(index)
            .and_then(|text| text.parse::<u64>().ok())
    };
    let Some(figure) = arguments.first().and_then(|name| figure::named(name)) else {
        return;
    };
    let effort = Effort {
        seeds: number(1).unwrap_or(1),
        warmup: number(2).map(Duration::from_secs),
        span: number(3).map(Duration::from_secs),
    };
    let threads = usize::try_from(number(4).unwrap_or(1)).unwrap_or(1);
    let started = std::time::Instant::now();
    let played = if let Some(filter) = arguments.get(5) {
        figure
            .cells(&effort)
            .into_iter()
            .filter(|c| format!("{} {} {}", c.step, c.policy.name, c.param).contains(filter))
            .map(|cell| {
                let runs: Vec<_> = (1..=effort.seeds)
                    .map(|s| slackwater_sim::run(&cell.scenario, &cell.policy, s))
                    .collect();
                let all = slackwater_sim::Measured::together(&runs).unwrap();
                figure::Played { cell, runs, all }
            })
            .collect()
    } else {
        figure::play(figure, &effort, threads, &|_| {}, &AtomicBool::new(false))
    };
    println!(
        "step,load,policy,param,qps,p50,p90,p99,p999,mean,err/s,err%,rif50,rif99,rifmax,util,util1s_p99,ppq,Mev/s,wall_s"
    );
    for p in &played {
        let m = &p.all;
        let ms = |q: f64| m.latency.quantile(q).as_secs_f64() * 1e3;
        println!(
            "{},{:.2},{},{},{:.0},{:.1},{:.1},{:.1},{:.1},{:.1},{:.2},{:.3},{},{},{},{:.3},{:.3},{:.2},{:.2},{:.1}",
            p.cell.step,
            p.cell.load,
            p.cell.policy.name,
            p.cell.param,
            m.rate(),
            ms(0.5),
            ms(0.9),
            ms(0.99),
            ms(0.999),
            m.latency.mean().as_secs_f64() * 1e3,
            m.errors_per_second(),
            m.error_share() * 100.0,
            m.rif_quantile(0.5),
            m.rif_quantile(0.99),
            m.rif_quantile(1.0),
            m.utilization.mean(),
            m.utilization.quantile_1s(0.99),
            m.probes_per_query(),
            m.events_per_second() / 1e6,
            m.wall.as_secs_f64(),
        );
    }
    let findings = figure.findings(&played);
    for claim in findings.claims {
        println!("{:?}: {}\n    {}", claim.verdict, claim.says, claim.found);
    }
    for table in findings.tables {
        println!("{}\n{}", table.title, table.columns.join(" | "));
        for row in table.rows {
            println!("{}", row.join(" | "));
        }
    }
    eprintln!("{:.1} s", started.elapsed().as_secs_f64());
}
