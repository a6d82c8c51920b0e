//! The dashboard: a page of hand-written files that are part of the binary and load nothing from
//! elsewhere.
//!
//! It displays `/events`, `/history` and `/decisions`, and in `demo` sends changes. Each module has
//! one subject; `main.js` connects them, and only `model.js` depends on the format of messages.
//! `cargo xtask dashboard` tests its behaviour in a browser.

use super::asset::Asset;

/// All of its files.
pub(super) const ASSETS: &[Asset] = &[
    Asset {
        path: "/",
        content_type: "text/html; charset=utf-8",
        body: include_str!("index.html"),
    },
    Asset {
        path: "/dashboard/style.css",
        content_type: "text/css; charset=utf-8",
        body: include_str!("style.css"),
    },
    Asset {
        path: "/dashboard/icon.svg",
        content_type: "image/svg+xml",
        body: include_str!("icon.svg"),
    },
    module("/dashboard/arrange.js", include_str!("arrange.js")),
    module("/dashboard/canvas.js", include_str!("canvas.js")),
    module("/dashboard/cells.js", include_str!("cells.js")),
    module("/dashboard/chart.js", include_str!("chart.js")),
    module("/dashboard/columns.js", include_str!("columns.js")),
    module(
        "/dashboard/configuration_view.js",
        include_str!("configuration_view.js"),
    ),
    module(
        "/dashboard/decisions_view.js",
        include_str!("decisions_view.js"),
    ),
    module("/dashboard/demo_view.js", include_str!("demo_view.js")),
    module("/dashboard/dom.js", include_str!("dom.js")),
    module("/dashboard/fleet_view.js", include_str!("fleet_view.js")),
    module("/dashboard/frame.js", include_str!("frame.js")),
    module("/dashboard/main.js", include_str!("main.js")),
    module("/dashboard/model.js", include_str!("model.js")),
    module("/dashboard/own_view.js", include_str!("own_view.js")),
    module("/dashboard/plane.js", include_str!("plane.js")),
    module("/dashboard/recent.js", include_str!("recent.js")),
    module("/dashboard/problems.js", include_str!("problems.js")),
    module(
        "/dashboard/replica_view.js",
        include_str!("replica_view.js"),
    ),
    module("/dashboard/rule.js", include_str!("rule.js")),
    module("/dashboard/scales.js", include_str!("scales.js")),
    module("/dashboard/series.js", include_str!("series.js")),
    module(
        "/dashboard/services_view.js",
        include_str!("services_view.js"),
    ),
    module("/dashboard/shared.js", include_str!("shared.js")),
    module("/dashboard/side.js", include_str!("side.js")),
    module("/dashboard/story.js", include_str!("story.js")),
    module("/dashboard/stream.js", include_str!("stream.js")),
    module("/dashboard/tip.js", include_str!("tip.js")),
    module("/dashboard/trend.js", include_str!("trend.js")),
    module("/dashboard/trends_view.js", include_str!("trends_view.js")),
    module("/dashboard/trouble.js", include_str!("trouble.js")),
    module("/dashboard/why_view.js", include_str!("why_view.js")),
    module("/dashboard/words.js", include_str!("words.js")),
];

const fn module(path: &'static str, body: &'static str) -> Asset {
    Asset {
        path,
        content_type: "text/javascript; charset=utf-8",
        body,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_core::policy::PickReason;
    use std::path::Path;

    /// The texts between quotation marks after `before`.
    fn named<'t>(text: &'t str, before: &'t str) -> impl Iterator<Item = &'t str> {
        text.split(before)
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
    }

    #[test]
    fn all_dashboard_files_are_embedded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/dashboard");
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let path = match name.as_str() {
                "mod.rs" => continue,
                "index.html" => "/".to_owned(),
                _ => format!("/dashboard/{name}"),
            };
            assert!(ASSETS.iter().any(|asset| asset.path == path), "{name}");
        }
    }

    #[test]
    fn files_reference_only_existing_files_of_the_dashboard() {
        let is_there = |path: &str| ASSETS.iter().any(|asset| asset.path == path);
        for Asset { path, body, .. } in ASSETS {
            for file in named(body, " from \"./") {
                assert!(is_there(&format!("/dashboard/{file}")), "{path}: {file}");
            }
            for file in named(body, "=\"/dashboard/") {
                assert!(is_there(&format!("/dashboard/{file}")), "{path}: {file}");
            }
            let elsewhere = body.replace("http://www.w3.org/2000/svg", "");
            assert!(!elsewhere.contains("://"), "{path} names another place");
        }
    }

    #[test]
    fn every_pick_reason_has_a_label() {
        let words = include_str!("words.js");
        for name in PickReason::ALL.into_iter().map(PickReason::as_str) {
            assert!(words.contains(&format!("\n  {name}: [")), "{name}");
        }
    }

    #[test]
    fn the_page_has_no_inline_code_that_its_policy_forbids() {
        let page = ASSETS[0].body;
        assert!(!page.contains(" style=") && !page.contains("<style"));
        assert!(!page.contains(" onclick=") && !page.contains("javascript:"));
        for Asset { path, body, .. } in ASSETS {
            for way in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
            ] {
                assert!(!body.contains(way), "{path}: {way}");
            }
        }
    }

    /// Relative luminance of `#rrggbb`, as WCAG 2 defines it.
    fn luminance(colour: &str) -> f64 {
        let channel = |at: usize| {
            let byte = u8::from_str_radix(&colour[at..at + 2], 16).expect("two digits");
            let value = f64::from(byte) / 255.0;
            if value <= 0.040_45 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    /// The backgrounds of rows change on hover and alternate, so a browser test sees some of the
    /// pairs only sometimes.
    #[test]
    fn text_has_enough_contrast_on_every_background() {
        let blocks: Vec<_> = include_str!("style.css")
            .split("  color-scheme: ")
            .skip(1)
            .filter_map(|rest| rest.split('}').next())
            .collect();
        assert_eq!(
            blocks.len(),
            3,
            "light, dark, and dark by the system's wish"
        );
        for block in blocks {
            let of = |name: &str| {
                let mark = format!("--{name}: ");
                let start = block.find(&mark).expect(name) + mark.len();
                block.get(start..start + 7).expect(name)
            };
            for ink in ["ink", "soft", "cold", "hot", "alarm", "first", "second"] {
                for ground in [
                    "ground",
                    "card",
                    "well",
                    "room",
                    "hot-ground",
                    "alarm-ground",
                ] {
                    let pair = [luminance(of(ink)), luminance(of(ground))];
                    let contrast = (pair[0].max(pair[1]) + 0.05) / (pair[0].min(pair[1]) + 0.05);
                    assert!(contrast >= 4.5, "{ink} on {ground}: {contrast:.2}");
                }
            }
        }
    }
}
