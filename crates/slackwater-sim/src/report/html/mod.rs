//! Pages: one for a figure, one for a comparison, and the list of figures. Each is a self-contained
//! file.
//!
//! Pages have no scripts and no external assets, and are light or dark as the reader's system is.
//! Headings, lists and tables are semantic elements. Verdicts are words before they are colours,
//! and every chart has its numbers as a table below it.

mod chart;
mod shell;
mod table;

use super::markup::Markup;
use super::svg::Styles;
use super::{RunInfo, compared, tables, text};
use crate::figure::{Axis, Chart, Claim, Figure, Findings, Line, Played, Plot, Verdict};
use crate::number;
use crate::report::quantity::LATENCIES;
use core::fmt::Write;
use core::time::Duration;

/// Returns the page of a figure.
pub(super) fn figure_page(
    figure: &dyn Figure,
    played: &[Played],
    findings: &Findings,
    about: &RunInfo,
) -> String {
    shell::page(figure.title(), |markup| {
        markup.line(
            "p",
            &[("class", &"kind")],
            format_args!("Slackwater testbed: {}", figure.name()),
        );
        markup.line("h1", &[], figure.title());
        markup.line("p", &[], figure.about());
        made_by(markup, played, about, Some(figure.name()));
        claims(markup, &findings.claims);
        charts(markup, &findings.charts);
        if !findings.tables.is_empty() {
            section(markup, "Tables", |markup| {
                for (index, own) in findings.tables.iter().enumerate() {
                    table::titled(markup, own, &format!("table-{}", index + 1), 1);
                }
            });
        }
        cells(markup, played);
    })
}

/// Returns the page of several policies on one scenario.
pub(super) fn comparison_page(
    name: &str,
    title: &str,
    played: &[Played],
    about: &RunInfo,
) -> String {
    shell::page(title, |markup| {
        markup.line("p", &[("class", &"kind")], "Slackwater testbed: comparison");
        markup.line("h1", &[], title);
        made_by(markup, played, about, Some(name));
        let sentences = compared::sentences(played);
        if !sentences.is_empty() {
            section(markup, "In words", |markup| {
                for sentence in sentences {
                    markup.line("p", &[], sentence);
                }
            });
        }
        charts(markup, &[latency_chart(played)]);
        if let Some(against) = tables::against_first(played) {
            section(markup, "Policy against policy", |markup| {
                table::titled(markup, &against, "against", 1);
                markup.line(
                    "p",
                    &[("class", &"note")],
                    "Policies met the same arrivals, costs and neighbours, so they are compared seed by seed. Latencies are how \
                     many times the first policy's (geometric mean over seeds), errors are the difference in percentage points. \
                     An interval that contains 1 (of errors: 0) shows no difference; a single seed shows none either way.",
                );
            });
        }
        cells(markup, played);
    })
}

/// Returns the list of figures.
pub(super) fn index_page(figures: &[(&dyn Figure, &Findings)], about: &RunInfo) -> String {
    let title = "Slackwater testbed: all figures";
    shell::page(title, |markup| {
        markup.line("h1", &[], title);
        let claims: Vec<Claim> = figures
            .iter()
            .flat_map(|(_, findings)| findings.claims.clone())
            .collect();
        if !claims.is_empty() {
            markup.line(
                "p",
                &[("class", &"count")],
                capitalized(&text::count(&claims)),
            );
        }
        made_by(markup, &[], about, None);
        markup.element("div", &[("class", &"scroll")], |markup| {
            markup.element("table", &[("class", &"index")], |markup| {
                markup.element("thead", &[], |markup| {
                    markup.element("tr", &[], |markup| {
                        for column in ["figure", "what it shows", "claims reproduced", "data"] {
                            markup.line("th", &[("scope", &"col")], column);
                        }
                    });
                });
                markup.element("tbody", &[], |markup| {
                    for (figure, findings) in figures {
                        index_row(markup, *figure, &findings.claims);
                    }
                });
            });
        });
    })
}

fn index_row(markup: &mut Markup, figure: &dyn Figure, claims: &[Claim]) {
    let name = figure.name();
    let reproduced = text::reproduced(claims);
    let class = if reproduced == claims.len() {
        "good"
    } else {
        "bad"
    };
    markup.element("tr", &[], |markup| {
        markup.element("th", &[("scope", &"row")], |markup| {
            markup.line("a", &[("href", &format_args!("{name}.html"))], name);
        });
        markup.line("td", &[], figure.title());
        if claims.is_empty() {
            markup.line("td", &[], "none stated");
        } else {
            markup.line(
                "td",
                &[("class", &class)],
                format_args!("{reproduced} of {}", claims.len()),
            );
        }
        markup.element("td", &[], |markup| {
            markup.line("a", &[("href", &format_args!("{name}.csv"))], "CSV");
        });
    });
}

/// Writes how the numbers were made; `data` names the CSV.
fn made_by(markup: &mut Markup, played: &[Played], about: &RunInfo, data: Option<&str>) {
    let mut entries = vec![("Command", about.command.clone())];
    if let Some(seeds) = range(played.iter().map(|played| played.runs.len())) {
        entries.push(("Seeds", joined(seeds, |seeds| seeds.to_string())));
    }
    let spans = |of: fn(&Played) -> Duration| {
        range(played.iter().map(of)).map(|spans| joined(spans, number::span))
    };
    if let (Some(span), Some(warmup)) = (
        spans(|played| played.cell.scenario.span),
        spans(|played| played.cell.scenario.warmup),
    ) {
        entries.push((
            "Measured",
            format!("{span} after {warmup} of warm-up, for each cell and seed"),
        ));
    }
    let queries: u64 = played.iter().map(|played| played.all.queries).sum();
    let events: u64 = played.iter().map(|played| played.all.events).sum();
    let of_cores: Duration = played.iter().map(|played| played.all.cpu).sum();
    if queries > 0 {
        entries.push(("Queries", number::count(queries)));
    }
    entries.push(("Version", about.version.clone()));
    let mut took = format!("{} on {} threads", number::span(about.wall), about.threads);
    if !of_cores.is_zero() {
        let millions = number::shown(events as f64 / of_cores.as_secs_f64() / 1e6, 1);
        // Writing to a string cannot fail.
        let _ = write!(took, "; {millions} million events a second on one core");
    }
    entries.push(("Took", took));
    markup.element("dl", &[("class", &"made")], |markup| {
        for (name, value) in &entries {
            markup.line("dt", &[], name);
            markup.element("dd", &[], |markup| {
                if *name == "Command" {
                    markup.line("code", &[], value);
                } else {
                    markup.text(value);
                }
            });
        }
        if let Some(name) = data {
            markup.line("dt", &[], "Data");
            markup.element("dd", &[], |markup| {
                markup.line(
                    "a",
                    &[("href", &format_args!("{name}.csv"))],
                    format_args!("{name}.csv"),
                );
            });
        }
    });
}

/// Returns the least and the most.
fn range<T: Ord + Copy>(values: impl Iterator<Item = T> + Clone) -> Option<(T, T)> {
    Some((values.clone().min()?, values.max()?))
}

fn joined<T: PartialEq>((least, most): (T, T), shown: impl Fn(T) -> String) -> String {
    if least == most {
        shown(least)
    } else {
        format!("{} to {}", shown(least), shown(most))
    }
}

fn claims(markup: &mut Markup, claims: &[Claim]) {
    if claims.is_empty() {
        return;
    }
    section(markup, "Claims", |markup| {
        markup.line(
            "p",
            &[("class", &"count")],
            capitalized(&text::count(claims)),
        );
        markup.element("ol", &[("class", &"claims")], |markup| {
            for claim in claims {
                let (class, sign) = match claim.verdict {
                    Verdict::Reproduced => ("good", "✓"),
                    Verdict::NotReproduced => ("bad", "✗"),
                };
                markup.element("li", &[("class", &class)], |markup| {
                    markup.element("p", &[("class", &"verdict")], |markup| {
                        markup.line("span", &[("aria-hidden", &"true")], sign);
                        markup.text(text::verdict(claim.verdict));
                    });
                    markup.line("p", &[("class", &"says")], &claim.says);
                    markup.element("p", &[("class", &"found")], |markup| {
                        markup.line("span", &[], "Found:");
                        markup.text(&claim.found);
                    });
                });
            }
        });
    });
}

fn charts(markup: &mut Markup, charts: &[Chart]) {
    if charts.is_empty() {
        return;
    }
    let styles = Styles::of(charts);
    section(markup, "Charts", |markup| {
        for (index, chart) in charts.iter().enumerate() {
            chart::figure(markup, chart, &format!("chart-{}", index + 1), &styles);
        }
    });
}

fn cells(markup: &mut Markup, played: &[Played]) {
    if played.is_empty() {
        return;
    }
    section(markup, "Cells", |markup| {
        let all = tables::cells(played);
        let heads = 1 + all
            .columns
            .iter()
            .position(|column| column == "policy")
            .unwrap_or(0);
        table::titled(markup, &all, "cells", heads);
        let several = played.iter().any(|played| played.runs.len() > 1);
        let mut note = "Latencies are as clients see them; a query that ran into its deadline counts with it. RIF is sampled \
                        every 10 ms at each replica. Utilization is a multiple of the allocation."
            .to_owned();
        if several {
            note.push_str(
                " Intervals are Student's, over seeds. The CSV has the quantiles of all seeds taken together, which may differ \
                 from the mean over seeds.",
            );
        }
        markup.line("p", &[("class", &"note")], note);
    });
}

fn section(markup: &mut Markup, title: &str, inside: impl FnOnce(&mut Markup)) {
    markup.element("section", &[], |markup| {
        markup.line("h2", &[], title);
        inside(markup);
    });
}

fn capitalized(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().into_iter().flat_map(char::to_uppercase);
    first.chain(rest.clone()).chain(['.']).collect()
}

/// Returns a chart of the latency quantiles of each policy.
fn latency_chart(played: &[Played]) -> Chart {
    let line = |played: &Played| {
        let estimates: Vec<_> = LATENCIES
            .iter()
            .map(|quantity| quantity.estimate(played))
            .collect();
        Line {
            name: played.cell.policy.name.clone(),
            points: estimates
                .iter()
                .enumerate()
                .map(|(index, estimate)| {
                    (
                        index as f64,
                        estimate.map_or(f64::NAN, |estimate| estimate.value),
                    )
                })
                .collect(),
            interval: estimates
                .iter()
                .filter_map(|estimate| estimate.as_ref()?.interval)
                .collect(),
            reference: false,
        }
    };
    let axis = |label: &str, log| Axis {
        label: label.to_owned(),
        log,
    };
    Chart {
        title: "Latency".to_owned(),
        x: axis("quantile", false),
        y: axis("latency, ms", true),
        plot: Plot::Steps {
            steps: LATENCIES
                .iter()
                .map(|quantity| quantity.name.trim_end_matches(" ms").to_owned())
                .collect(),
            lines: played.iter().map(line).collect(),
        },
    }
}
