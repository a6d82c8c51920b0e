//! The screen: a picture of an [`App`], drawn from the top. It is pure except for the positions
//! that it notes for the mouse.
//!
//! | | |
//! |---|---|
//! | the process, and the condition of the service | `head` |
//! | events: picks, probes, the rest | `events` |
//! | the pages | `fleet`, `sides`, `pool`, `charts`, `replica` |
//! | the keys | `help` |
//! | drawing | `canvas`, `bar` |

mod bar;
mod canvas;
mod charts;
mod events;
mod fleet;
mod head;
mod help;
mod pool;
mod replica;
mod sides;

pub(super) use canvas::Theme;

use super::app::{App, Hits};
use super::keys::Page;
use crate::terminal::line::{Ink, Line};
use canvas::Canvas;
use ratatui::buffer::Buffer;
use std::time::Instant;

/// Width from which events have their own column beside the fleet.
const BESIDE_FROM: usize = 132;
/// The width of that column.
const BESIDE_COLUMNS: usize = 46;

/// Draws everything.
pub(super) fn draw(app: &mut App, buffer: &mut Buffer, theme: Theme, now: Instant) {
    let area = buffer.area;
    app.hits = Hits::default();
    let mut canvas = Canvas::new(buffer, area, theme);
    head::title(app, &mut canvas, now);
    head::problems(app, &mut canvas);
    help::keys(app, &mut canvas.foot(1));
    if app.model().fleet().services.is_empty() {
        let text = if app.model().fleet().role.is_empty() {
            " waiting for the first figures"
        } else {
            " there is no service"
        };
        canvas.line(&Line::default());
        canvas.line(&Line::default().with(Ink::Faint, text));
    } else {
        page(app, &mut canvas);
    }
    if app.is_helping {
        buffer.reset();
        help::window(&mut Canvas::new(buffer, area, theme));
    }
}

fn page(app: &mut App, canvas: &mut Canvas<'_>) {
    if app.page == Page::Sides {
        sides::draw(app, canvas);
        return;
    }
    head::services(app, canvas);
    head::figures(app, canvas);
    match app.page {
        Page::Fleet | Page::Sides => {
            head::trend(app, canvas);
            head::own(app, canvas);
            if canvas.width() >= BESIDE_FROM {
                canvas.line(&events::states(app));
                events::beside(app, &mut canvas.right(BESIDE_COLUMNS));
            } else {
                events::lines(app, canvas);
            }
            fleet::draw(app, canvas);
        }
        Page::Pool => pool::draw(app, canvas),
        Page::Charts => charts::draw(app, canvas),
        Page::Replica => replica::draw(app, canvas),
    }
}

#[cfg(test)]
mod tests;
