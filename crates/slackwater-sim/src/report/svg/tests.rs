//! Pictures of valid charts and of broken ones.
//!
//! Each picture is checked for what must hold for all: well-formed, the same twice, no value that
//! is not a number.

use super::*;
use crate::figure::Line;
use crate::report::example::{bars, chart, line};

/// Returns the elements that are open at the end, innermost last. Panics if an element is closed
/// that is not open.
fn left_open(markup: &str) -> Vec<&str> {
    let mut open = Vec::new();
    for tag in markup.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("tags end");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.extend(tag.split(' ').next());
        }
    }
    open
}

/// Draws a chart, and checks what must hold for every picture.
fn drawn(chart: &Chart) -> String {
    let picture = svg_document(chart);
    assert_eq!(left_open(&picture), Vec::<&str>::new());
    assert_eq!(
        picture,
        svg_document(chart),
        "the same chart, the same bytes"
    );
    for word in ["NaN", "inf", "var("] {
        assert!(!picture.contains(word), "{word} in {picture}");
    }
    picture
}

fn logarithmic(chart: &Chart) -> Chart {
    let mut chart = chart.clone();
    (chart.x.log, chart.y.log) = (true, true);
    chart
}

#[test]
fn any_chart_can_be_drawn() {
    const ODD: [f64; 8] = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -5.0,
        1e308,
        5e-324,
        3.0,
    ];
    let odd_points: Vec<(f64, f64)> = ODD.iter().flat_map(|&x| ODD.map(|y| (x, y))).collect();
    let mut odd_line = line("odd", &odd_points);
    odd_line.interval = odd_points.clone();
    let heat = |rows: &[f64], cells: &[&[f64]]| Plot::Heat {
        columns: vec!["a".into(), "b".into()],
        rows: rows.to_vec(),
        cells: cells.iter().map(|row| row.to_vec()).collect(),
    };
    let steps = |steps: &[&str], line: Line| Plot::Steps {
        steps: steps.iter().map(|&step| step.to_owned()).collect(),
        lines: vec![line],
    };
    let plots = [
        Plot::Lines(vec![]),
        Plot::Lines(vec![line("empty", &[])]),
        Plot::Lines(vec![line("one point", &[(2.0, 7.0)])]),
        Plot::Lines(vec![line("equal", &[(1.0, 7.0), (2.0, 7.0), (3.0, 7.0)])]),
        Plot::Lines(vec![line("zero", &[(0.0, 0.0)])]),
        Plot::Lines(vec![odd_line.clone()]),
        steps(&[], line("", &[(0.0, 1.0)])),
        steps(&["a", "b"], odd_line),
        bars(&[], &[], None),
        bars(&["a"], &[("none", &[])], Some(f64::NAN)),
        bars(
            &["a", "b", "c"],
            &[("odd", &ODD[..2]), ("more", &ODD)],
            Some(1.0),
        ),
        bars(&["a"], &[("negative", &[-3.0])], Some(-9.0)),
        heat(&[], &[]),
        heat(&[0.0], &[&[0.5]]),
        heat(&[0.0, 1.0, 2.0], &[&ODD, &[], &[0.1, 0.9, 0.3]]),
        heat(&[2.0, 1.0], &[&[0.5, 0.5], &[0.5, 0.5]]),
        heat(&ODD, &[&ODD, &ODD]),
    ];
    for plot in plots {
        let chart = chart("odd", plot);
        drawn(&chart);
        drawn(&logarithmic(&chart));
    }
}

#[test]
fn chart_without_values_states_no_data() {
    let nothing = chart("", Plot::Lines(vec![line("a", &[(1.0, f64::NAN)])]));
    assert!(drawn(&nothing).contains(">no data<"));
    let something = chart("", Plot::Lines(vec![line("a", &[(1.0, 2.0)])]));
    assert!(!drawn(&something).contains(">no data<"));
    let negative = chart("", bars(&["g"], &[("a", &[-1.0])], None));
    assert!(!drawn(&negative).contains(">no data<"));
    assert!(drawn(&logarithmic(&negative)).contains(">no data<"));
}

#[test]
fn texts_are_escaped() {
    let hostile = "</text><script>&\"";
    let picture = drawn(&chart(
        hostile,
        Plot::Lines(vec![line(hostile, &[(1.0, 2.0)])]),
    ));
    assert!(!picture.contains("<script"));
    assert!(picture.contains("&lt;/text&gt;&lt;script&gt;&amp;&quot;"));
}

#[test]
fn svg_has_a_title_and_description() {
    let picture = drawn(&chart(
        "Latency",
        Plot::Lines(vec![line("prequal", &[(0.75, 266.0), (1.74, 345.0)])]),
    ));
    assert!(picture.contains("<title>Latency</title>"));
    assert!(
        picture.contains(
            "<desc>Vertical: p99, ms. Horizontal: load. Lines of prequal: from 266 at 0.75 to 345 at 1.74.</desc>"
        ),
        "{picture}"
    );
    assert!(picture.contains("<title>prequal at 0.75: 266</title>"));
}

#[test]
fn legend_distinguishes_thirteen_policies() {
    let names: Vec<String> = (1..=13).map(|number| format!("policy {number}")).collect();
    let lines = names
        .iter()
        .map(|name| line(name, &[(1.0, 1.0), (2.0, 2.0)]));
    let picture = drawn(&chart("", Plot::Lines(lines.collect())));
    for name in &names {
        assert!(picture.contains(&format!(">{name}</text>")), "{name}");
    }
    assert_eq!(picture.matches("class=\"track again\"").count(), 2 * 5);
}

/// Returns a numeric attribute of an element.
fn attribute(element: &str, name: &str) -> f64 {
    let (_, value) = element
        .split_once(&format!(" {name}=\""))
        .expect("it has one");
    let value = value.split('"').next().expect("values end");
    value.parse().expect("it is a number")
}

/// Returns the left ends of all legend entries' texts, row by row.
fn legend_places(picture: &str) -> Vec<(f64, f64)> {
    let texts = picture.split("<text class=\"name\"").skip(1);
    texts
        .map(|text| (attribute(text, "x"), attribute(text, "y")))
        .collect()
}

#[test]
fn wide_legend_wraps_to_another_row() {
    let names: Vec<String> = (0..13)
        .map(|number| format!("a policy's name {number}"))
        .collect();
    let lines = names.iter().map(|name| line(name, &[(1.0, 1.0)]));
    let places = legend_places(&drawn(&chart("", Plot::Lines(lines.collect()))));
    assert_eq!(places.len(), 13);
    let width = frame::text_width("a policy's name 10", frame::SIZE);
    for pair in places.windows(2) {
        let ((x, y), (next_x, next_y)) = (pair[0], pair[1]);
        assert!(x + width <= WIDTH, "{x}");
        assert!(if next_y > y {
            next_x < x
        } else {
            next_x > x + width * 0.9
        });
    }
}

#[test]
fn paper_line_is_dashed_and_beneath_ours() {
    let mut paper = line("prequal (paper)", &[(1.0, 3.0), (2.0, 3.0)]);
    paper.reference = true;
    let picture = drawn(&chart(
        "",
        Plot::Lines(vec![line("prequal", &[(1.0, 2.0), (2.0, 2.0)]), paper]),
    ));
    // Each occurs twice: in the legend, where ours comes first, and in the plot, where the paper's
    // does.
    let tracks: Vec<&str> = picture
        .split("class=\"track")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert_eq!(tracks, ["", " paper", " paper", ""]);
    assert_eq!(
        picture.matches("<g class=\"c0\">").count(),
        4,
        "one colour for both"
    );
}

#[test]
fn line_is_interrupted_at_missing_values() {
    let points = [
        (1.0, 1.0),
        (2.0, 2.0),
        (3.0, f64::NAN),
        (4.0, 2.0),
        (5.0, 1.0),
    ];
    let picture = drawn(&chart("", Plot::Lines(vec![line("a", &points)])));
    let (_, plot) = picture.rsplit_once("class=\"track\" d=\"").unwrap();
    let path = plot.split('"').next().unwrap();
    assert_eq!(path.matches('M').count(), 2, "{path}");
    assert_eq!(path.matches('L').count(), 2, "{path}");
}

#[test]
fn interval_alone_does_not_extend_the_axis_below_zero() {
    let errors = |first: f64| {
        let mut errors = line("errors", &[(1.0, first), (2.0, 3.0)]);
        errors.interval = vec![(-4.0, 4.0), (-2.0, 8.0)];
        drawn(&chart("Errors", Plot::Lines(vec![errors])))
    };
    let labels = |picture: &str| picture.contains(">−");
    assert!(!labels(&errors(0.0)));
    assert!(labels(&errors(-0.5)), "a value is");
}

#[test]
fn interval_beyond_the_scale_has_no_cap() {
    let caps = |interval: (f64, f64)| {
        let mut line = line("a", &[(1.0, 100.0), (2.0, 110.0)]);
        line.interval = vec![(f64::NAN, f64::NAN), interval];
        let picture = drawn(&chart("", Plot::Lines(vec![line])));
        let (_, span) = picture.split_once("class=\"span\" d=\"").unwrap();
        // One stroke is the interval itself.
        span.split('"').next().unwrap().matches('M').count() - 1
    };
    assert_eq!(caps((109.0, 111.0)), 2);
    assert_eq!(caps((109.0, 1_000.0)), 1);
    assert_eq!(caps((-1_000.0, 1_000.0)), 0);
}

/// Returns top and height of each bar, without the legend's.
fn bar_places(picture: &str) -> Vec<(f64, f64)> {
    let bars = picture.split("<rect class=\"bar\"").skip(2);
    bars.map(|bar| (attribute(bar, "y"), attribute(bar, "height")))
        .collect()
}

#[test]
fn bars_end_at_the_limit_and_are_marked() {
    let mut limited = chart(
        "",
        bars(
            &["a", "b", "c"],
            &[("random", &[2.5, 5.0, 9_000.0])],
            Some(5.0),
        ),
    );
    let picture = drawn(&limited);
    let places = bar_places(&picture);
    assert_eq!(places[1], places[2], "the limit and what is above it");
    assert!(
        (places[0].1 * 2.0 - places[1].1).abs() <= 0.2,
        "half of it: {places:?}"
    );
    assert!(places[1].1 > 200.0, "the limit is near the top: {places:?}");
    assert!(picture.contains("class=\"limit\""));
    assert!(
        picture.contains(">9,000</text>"),
        "no mark, so the value itself"
    );
    if let Plot::Bars { series, .. } = &mut limited.plot {
        series[0].marks[2] = Some("TO".to_owned());
    }
    let picture = drawn(&limited);
    assert!(picture.contains(">TO</text>") && !picture.contains(">9,000</text>"));
    assert!(picture.contains("<title>random, c: 9,000 (TO)</title>"));
}

#[test]
fn long_names_are_slanted_within_the_picture() {
    let names = ["a rather long step's name"; 8];
    let picture = drawn(&chart("", bars(&names, &[("a", &[1.0; 8])], None)));
    assert_eq!(picture.matches("rotate(-35 ").count(), 8);
    let first = picture
        .split("<text text-anchor=\"end\"")
        .find(|text| text.contains("rotate(-35"))
        .unwrap();
    let x = attribute(first, "x");
    let overhang = frame::text_width(names[0], frame::SIZE) * 35f64.to_radians().cos();
    assert!(x - overhang >= -0.1, "{x} {overhang}");
    let short = drawn(&chart("", bars(&["a", "b"], &[("a", &[1.0, 1.0])], None)));
    assert!(!short.contains("rotate(-35"));
}

#[test]
fn shades_follow_the_shares() {
    let heat = Plot::Heat {
        columns: vec!["a".into(), "b".into()],
        rows: vec![0.0, 0.5],
        cells: vec![vec![1.0, 0.0], vec![0.25, f64::NAN]],
    };
    let picture = drawn(&chart("", heat));
    let (_, plot) = picture
        .split_once("<title>a, from 0: 100 %</title>")
        .unwrap();
    assert!(
        plot.contains("<g fill-opacity=\"0.5\">"),
        "the root of a quarter"
    );
    assert!(plot.contains("<title>a, from 0.5: 25 %</title>"));
    assert!(
        !picture.contains("<title>b, from"),
        "nothing is drawn for nothing"
    );
}

#[test]
fn axis_labels_do_not_overlap() {
    let mut wide = chart(
        "",
        Plot::Lines(vec![line("a", &[(150_000.0, 1.0), (90_000_000.0, 2.0)])]),
    );
    wide.x.log = true;
    let picture = drawn(&wide);
    let numbers = picture.split("<text text-anchor=\"middle\"").skip(1);
    let numbers = numbers.map(|text| {
        let (number, _) = text.split_once("</text>").unwrap();
        let (_, number) = number.split_once('>').unwrap();
        (attribute(text, "x"), frame::text_width(number, frame::SIZE))
    });
    // The last one is the axis's name.
    let numbers: Vec<(f64, f64)> = numbers.collect();
    let (_, numbers) = numbers.split_last().unwrap();
    assert!(numbers.len() >= 5, "{numbers:?}");
    assert!(
        numbers
            .iter()
            .all(|(x, width)| x + width / 2.0 <= WIDTH + 0.1),
        "{numbers:?}"
    );
    for pair in numbers.windows(2) {
        let ((x, width), (next_x, next_width)) = (pair[0], pair[1]);
        assert!(x + width / 2.0 < next_x - next_width / 2.0, "{numbers:?}");
    }
}
