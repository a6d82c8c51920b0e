//! The help: some keys in a line at the bottom, and all keys in a window.

use super::super::app::App;
use super::super::keys::Page;
use super::canvas::Canvas;
use crate::terminal::line::{Ink, Line};

const KEYS: [(&str, &str); 16] = [
    ("↑ ↓ j k", "choose a replica"),
    ("PgUp PgDn g G", "a screen up or down, the first, the last"),
    ("Enter", "the replica's own page"),
    ("Esc", "back; then: no filter, nothing chosen"),
    ("/", "filter by name, address, state, hot, cold"),
    ("← → s S", "sort by another column"),
    ("r", "the other way round"),
    ("Tab 1 to 9", "another service, in a demo the other side"),
    ("p", "the pool: what the next pick chooses from"),
    ("c", "charts of the last five minutes"),
    ("f", "the fleet, of one side of a demo"),
    ("v", "both sides of a demo"),
    ("Space", "let the picture stand still, or go on"),
    ("? h", "this help"),
    ("q Ctrl-C", "quit"),
    ("Ctrl-Z", "stop; fg goes on"),
];

/// The width of the widest line.
const COLUMNS: usize = 76;

/// The meanings of figures that are not explained next to them.
const FIGURES: [&str; 5] = [
    "RIF: requests in flight, as the replica said last; its bar's mark is the",
    "limit from which on it is hot. AGE: of that report. HERE: in flight there",
    "from this process. LOAD: its part of what that sends; the mark is an equal",
    "part. REQ/S, FAIL/S: over 5 s. P99: as seen from here, over 10 s, as in the",
    "head. Picks, probes and the rest: in the last interval.",
];

/// Draws the line at the bottom.
pub(super) fn keys(app: &App, canvas: &mut Canvas<'_>) {
    let mut keys: Vec<(&str, &str)> = Vec::new();
    if app.is_filter_written {
        keys.extend([("Enter", "keep"), ("Esc", "no filter"), ("↑↓", "choose")]);
    } else {
        keys.extend([("?", "help"), ("q", "quit")]);
        match app.page {
            Page::Fleet | Page::Sides => {
                keys.extend([("Enter", "replica"), ("/", "filter"), ("←→", "sort")]);
                keys.extend([("p", "pool"), ("c", "charts")]);
            }
            Page::Pool | Page::Charts | Page::Replica => keys.push(("Esc", "back")),
        }
        if app.has_sides() {
            keys.push(match app.page {
                Page::Sides => ("f", "one side"),
                _ => ("v", "both sides"),
            });
        }
        if app.model().fleet().services.len() > 1 {
            keys.push(("Tab", "service"));
        }
        keys.push(("Space", "pause"));
    }
    let mut line = Line::default();
    for (key, what) in keys {
        line = line
            .with(Ink::Plain, " ")
            .with(Ink::Strong, key)
            .with(Ink::Faint, format!(" {what} "));
    }
    canvas.line(&line);
}

/// Draws the window with all keys.
pub(super) fn window(canvas: &mut Canvas<'_>) {
    let mut window = canvas.window(COLUMNS, KEYS.len() + FIGURES.len() + 1);
    for (key, what) in KEYS {
        let line = Line::default()
            .with(Ink::Strong, key)
            .padded_to(16)
            .with(Ink::Plain, what);
        window.line(&line);
    }
    window.line(&Line::default());
    for text in FIGURES {
        window.line(&Line::default().with(Ink::Faint, text));
    }
}
