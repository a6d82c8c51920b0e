//! The written files as a whole.
//!
//! Each page is checked for what must hold for all: nothing external, unique ids, and a name for
//! each element that needs one.

use super::example::{Example, chart, findings, line, played, run};
use super::*;
use crate::figure::Plot;
use std::env;
use std::process;

fn about() -> RunInfo {
    RunInfo {
        command: "slackwater sim made-up --out 'a & b'".to_owned(),
        version: "slackwater 0.1.0".to_owned(),
        threads: 2,
        wall: Duration::from_secs(90),
    }
}

fn two_cells() -> Vec<Played> {
    let runs = |latency_ms| vec![run(1, latency_ms), run(2, latency_ms + 1)];
    vec![
        played("1.03", 1.03, "prequal", runs(100)),
        played("1.03", 1.03, "<wrr>", runs(200)),
    ]
}

/// A folder for one test, removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        Self(env::temp_dir().join(format!("slackwater-report-{}-{name}", process::id())))
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).expect("it was written")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A leftover folder does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Checks what must hold for every page.
fn check_page(page: &str) {
    assert!(page.starts_with("<!doctype html>\n<html lang=\"en\">"));
    for outside in ["<script", "<img", "<link", "@import", "url(", "src="] {
        assert!(!page.contains(outside), "{outside}");
    }
    for word in ["NaN", "inf "] {
        assert!(!page.contains(word), "{word}");
    }
    let mut ids: Vec<&str> = page
        .split(" id=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    for label in page.split("aria-labelledby=\"").skip(1) {
        for id in label.split('"').next().unwrap().split(' ') {
            assert!(ids.contains(&id), "{id} names nothing");
        }
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "ids are unique");
    assert_eq!(page.matches("<h1>").count(), 1);
    assert_eq!(page.matches("<svg").count(), page.matches("<desc").count());
    assert_eq!(
        page.matches("<svg").count(),
        page.matches("<details>").count(),
        "every chart has its numbers"
    );
    assert_eq!(
        page.matches("<th ").count() + page.matches("<thead>").count(),
        page.matches("<th").count(),
        "every th has a scope"
    );
}

#[test]
fn figure_is_written_as_csv_svg_and_html() {
    let folder = Folder::new("figure");
    let (dir, cells) = (folder.0.join("deeper"), two_cells());
    let written = write(&dir, &Example, &cells, &findings(), &about())
        .expect("a temporary folder can be written");
    let names: Vec<_> = written
        .iter()
        .map(|path| path.strip_prefix(&dir).unwrap().to_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "made-up.csv",
            "made-up-1.svg",
            "made-up-2.svg",
            "made-up.html"
        ]
    );
    assert_eq!(folder.read("deeper/made-up.csv"), csv("made-up", &cells));
    assert_eq!(
        folder.read("deeper/made-up-1.svg"),
        svg_document(&findings().charts[0])
    );
    let page = folder.read("deeper/made-up.html");
    check_page(&page);
    write(&dir, &Example, &cells, &findings(), &about()).expect("files are replaced");
    assert_eq!(
        folder.read("deeper/made-up.html"),
        page,
        "the same runs, the same bytes"
    );
}

#[test]
fn html_page_contains_all_findings() {
    let page = html::figure_page(&Example, &two_cells(), &findings(), &about());
    check_page(&page);
    for part in [
        "<h1>A &lt;made-up&gt; figure</h1>",
        "<p>Nothing &amp; more.</p>",
        "<code>slackwater sim made-up --out &#39;a &amp; b&#39;</code>",
        "<dt>Seeds</dt>\n<dd>2</dd>",
        "<dd>10 s after 5 s of warm-up, for each cell and seed</dd>",
        "1 of 2 claims are reproduced, 1 not.",
        "&lt;b&gt;p50&lt;/b&gt; is 80",
        "<li class=\"bad\"><p class=\"verdict\"><span aria-hidden=\"true\">✗</span>\nnot reproduced</p>",
        "<li class=\"good\"><p class=\"verdict\"><span aria-hidden=\"true\">✓</span>\nreproduced</p>",
        "<th scope=\"row\" class=\"word\">&lt;wrr&gt;</th>",
        "<a href=\"made-up.csv\">",
        "<summary>Numbers</summary>",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert_eq!(
        page.matches("<tr class=\"begins\">").count(),
        1,
        "two cells, one step"
    );
    assert!(page.contains("prefers-color-scheme: dark"));
}

#[test]
fn table_below_a_chart_matches_the_chart() {
    let mut ours = line("prequal", &[(1.0, 2.0), (2.0, 4.0), (3.0, f64::NAN)]);
    ours.interval = vec![(1.5, 2.5), (4.0, 4.0)];
    let mut findings = findings();
    findings.charts = vec![chart(
        "Lines",
        Plot::Lines(vec![ours, line("wrr", &[(2.0, 1_234.5)])]),
    )];
    let page = html::figure_page(&Example, &two_cells(), &findings, &about());
    let (_, numbers) = page.split_once("<summary>").unwrap();
    let (numbers, _) = numbers.split_once("</details>").unwrap();
    let cells: Vec<&str> = numbers
        .split("<t")
        .filter_map(|tag| {
            tag.strip_prefix("h scope")
                .or_else(|| tag.strip_prefix("d class"))
        })
        .map(|tag| tag.split_once('>').unwrap().1.split('<').next().unwrap())
        .collect();
    let expected = [
        ["load", "prequal", "wrr"],
        ["1", "2 [1.5, 2.5]", "–"],
        ["2", "4", "1,234"],
        ["3", "–", "–"],
    ];
    assert_eq!(cells, expected.concat());
}

#[test]
fn index_links_figures_with_their_verdicts() {
    let folder = Folder::new("index");
    let (with, without) = (findings(), Findings::default());
    let figures: [(&dyn Figure, &Findings); 2] = [(&Example, &with), (&Example, &without)];
    let path =
        write_index(&folder.0, &figures, &about()).expect("a temporary folder can be written");
    assert_eq!(path, folder.0.join("index.html"));
    let page = folder.read("index.html");
    check_page(&page);
    assert!(page.contains("<a href=\"made-up.html\">made-up</a>"));
    assert!(page.contains("<td class=\"bad\">1 of 2</td>"));
    assert!(page.contains("<td>none stated</td>"));
}

#[test]
fn comparison_is_written_as_csv_and_html() {
    let folder = Folder::new("comparison");
    let cells = two_cells();
    let written = write_comparison(&folder.0, "my-fleet", "My fleet", &cells, &about());
    let written = written.expect("a temporary folder can be written");
    assert_eq!(
        written,
        [
            folder.0.join("my-fleet.csv"),
            folder.0.join("my-fleet.html")
        ]
    );
    assert!(
        folder
            .read("my-fleet.csv")
            .contains("\nmy-fleet,1.03,1.03,prequal,")
    );
    let page = folder.read("my-fleet.html");
    check_page(&page);
    assert!(page.contains("Against prequal, seed by seed"));
    check_page(&html::comparison_page("empty", "Empty", &[], &about()));
}

#[test]
fn write_error_names_the_path() {
    let folder = Folder::new("error");
    fs::create_dir_all(&folder.0).expect("a temporary folder can be written");
    let file = folder.0.join("file");
    fs::write(&file, "").expect("a temporary folder can be written");
    let error = write(&file, &Example, &[], &Findings::default(), &about()).unwrap_err();
    assert_eq!(error.path, file);
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("{}: cannot be written: ", file.display())),
        "{text}"
    );
    fs::create_dir(folder.0.join("made-up.csv")).expect("a temporary folder can be written");
    let error = write(&folder.0, &Example, &[], &Findings::default(), &about()).unwrap_err();
    assert_eq!(error.path, folder.0.join("made-up.csv"));
}
