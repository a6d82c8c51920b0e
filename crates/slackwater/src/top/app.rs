//! The state of the screen: keys, the mouse and the stream change it. It is pure: requests to the
//! server are returned as [`Ask`].

use super::keys::{Action, Page};
use super::message::{Decision, Decisions, Fleet, History, Tick};
use super::model::{Model, Row};
use super::rows::{Column, Order, is_match};
use core::time::Duration;
use ratatui::layout::{Position, Rect};
use std::time::Instant;

/// Refresh interval of a replica's page.
const DETAILS_EVERY: Duration = Duration::from_secs(2);

/// Figures are stale when they are older than this many intervals, and than a minimum.
const STALE_INTERVALS: u32 = 3;
const STALE_AFTER: Duration = Duration::from_secs(3);

/// Most characters of a filter.
const FILTER_MAX: usize = 64;

/// The state of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Link {
    /// It is open.
    Live,
    /// It broke.
    Lost {
        why: String,
        /// When the next attempt is made.
        retry_at: Instant,
    },
}

/// A request to the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) service: String,
    /// `None` asks about the service itself.
    pub(super) replica: Option<String>,
    pub(super) what: Wanted,
}

/// What is requested.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The last minutes.
    #[default]
    History,
    /// The last requests whose decisions were kept.
    Decisions,
}

/// The answer, or the error.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there are few of them, and none is kept"
)]
pub(super) enum Answer {
    History(Result<History, String>),
    Decisions(Result<Decisions, String>),
}

/// The figures on a replica's page in addition to the last tick.
#[derive(Debug)]
struct Details {
    service: String,
    replica: String,
    asked_at: Instant,
    /// Number of answers that are still missing.
    missing: usize,
    history: Option<Result<History, String>>,
    decisions: Vec<Decision>,
}

/// Positions on the screen, for the mouse.
#[derive(Debug, Default)]
pub(super) struct Hits {
    /// The rows of the list.
    pub(super) list: Rect,
    /// The heads of the list's columns.
    pub(super) heads: Vec<(Rect, Column)>,
    /// The names of services.
    pub(super) services: Vec<(Rect, usize)>,
}

/// The whole state.
#[derive(Debug)]
pub(super) struct App {
    model: Model,
    /// The server's address, for the title.
    pub(super) address: String,
    pub(super) link: Link,
    /// The last figures: their time by the server's clock, and when they arrived.
    received: Option<(u64, Instant)>,
    pub(super) page: Page,
    pub(super) service: usize,
    pub(super) order: Order,
    pub(super) filter: String,
    pub(super) is_filter_written: bool,
    /// Index of the selected replica in the fleet. It stays selected when the order changes.
    pub(super) selected: Option<usize>,
    /// The first row that is visible.
    pub(super) top: usize,
    pub(super) is_helping: bool,
    pub(super) is_over: bool,
    /// While the picture is paused: the latest messages.
    paused: Option<(Option<Fleet>, Option<Tick>)>,
    details: Option<Details>,
    /// Requests to make at the next opportunity.
    wanted: Vec<Ask>,
    pub(super) hits: Hits,
}

impl App {
    /// Returns the state for the server at `address`, with the stream open and nothing received
    /// yet.
    pub(super) fn new(address: String) -> Self {
        Self {
            model: Model::default(),
            address,
            link: Link::Live,
            received: None,
            page: Page::Fleet,
            service: 0,
            order: Order::default(),
            filter: String::new(),
            is_filter_written: false,
            selected: None,
            top: 0,
            is_helping: false,
            is_over: false,
            paused: None,
            details: None,
            wanted: Vec::new(),
            hits: Hits::default(),
        }
    }

    pub(super) fn model(&self) -> &Model {
        &self.model
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// For how long no figures have arrived although the stream is open, because the workers or the
    /// whole process hang. `None` while figures arrive, and when the stream is known to be broken.
    pub(super) fn stale_for(&self, now: Instant) -> Option<Duration> {
        let interval = Duration::from_millis(self.model.fleet().interval_ms);
        let usual = interval.saturating_mul(STALE_INTERVALS).max(STALE_AFTER);
        let (_, heard_at) = self.received?;
        let age = now.saturating_duration_since(heard_at);
        (self.link == Link::Live && age > usual).then_some(age)
    }

    /// Takes another fleet, or the first one. The services' last minutes are requested next.
    pub(super) fn take_fleet(&mut self, fleet: Fleet) {
        if let Some((waiting, tick)) = &mut self.paused {
            *waiting = Some(fleet);
            *tick = None;
            return;
        }
        let is_first = self.model.fleet().services.is_empty();
        let chosen = self
            .selected
            .and_then(|index| self.model.row(self.service, index));
        let chosen = chosen.map(|row| row.name.to_owned());
        let shown = self.model.service_name(self.service).to_owned();
        let is_demo = fleet.demo.is_some();
        self.model.take_fleet(fleet);
        if is_first && is_demo {
            self.page = Page::Sides;
        }
        if self.page == Page::Sides && !self.has_sides() {
            self.page = Page::Fleet;
        }
        // The indices of the current service and of the selected replica may have changed.
        let services = &self.model.fleet().services;
        let place = services.iter().position(|service| service.name == shown);
        self.service = place.unwrap_or(0);
        let replicas = services.get(self.service).map(|service| &service.replicas);
        self.selected = chosen.and_then(|name| {
            let mut replicas = replicas?.iter();
            replicas.position(|replica| replica.name == name)
        });
        if self.page == Page::Replica && self.selected.is_none() {
            self.page = self.home();
        }
        self.want_histories();
    }

    /// Requests the last minutes of all services.
    fn want_histories(&mut self) {
        let services = &self.model.fleet().services;
        let asks = services.iter().map(|service| Ask {
            service: service.name.clone(),
            ..Ask::default()
        });
        self.wanted = asks.collect();
    }

    /// Takes the next figures. A server repeats its last ones on each new connection; those are not
    /// new.
    pub(super) fn take_tick(&mut self, tick: Tick, now: Instant) {
        if self.received.is_none_or(|(at_ms, _)| at_ms != tick.at_ms) {
            self.received = Some((tick.at_ms, now));
        }
        self.link = Link::Live;
        match &mut self.paused {
            Some((_, waiting)) => *waiting = Some(tick),
            None => self.model.take_tick(tick),
        }
    }

    /// Takes an answer.
    pub(super) fn take_answer(&mut self, of: &Ask, answer: Answer) {
        let Some(replica) = &of.replica else {
            let mut services = self.model.fleet().services.iter();
            let service = services.position(|service| service.name == of.service);
            if let (Some(service), Answer::History(Ok(history))) = (service, &answer) {
                self.model.take_history(service, history);
            }
            return;
        };
        let details = self.details.as_mut();
        let is_wanted =
            |details: &&mut Details| details.service == of.service && details.replica == *replica;
        let Some(details) = details.filter(is_wanted) else {
            return;
        };
        details.missing = details.missing.saturating_sub(1);
        match answer {
            Answer::History(history) => details.history = Some(history),
            // Not every process keeps decisions.
            Answer::Decisions(decisions) => {
                details.decisions = decisions.unwrap_or_default().decisions;
            }
        }
    }

    /// Returns the requests to make now: histories that are missing, and the content of the
    /// replica's page if it is due.
    pub(super) fn ask(&mut self, now: Instant) -> Vec<Ask> {
        let mut asks = core::mem::take(&mut self.wanted);
        asks.extend(self.ask_details(now));
        asks
    }

    fn ask_details(&mut self, now: Instant) -> Vec<Ask> {
        if self.page != Page::Replica || self.is_paused() || self.link != Link::Live {
            return Vec::new();
        }
        let chosen = self
            .selected
            .and_then(|index| self.model.row(self.service, index));
        let Some(row) = chosen else {
            return Vec::new();
        };
        let replica = row.name.to_owned();
        let service = self.model.service_name(self.service).to_owned();
        let before = self.details.take();
        let is_same = |details: &Details| details.service == service && details.replica == replica;
        let mut details = before.filter(is_same).unwrap_or_else(|| Details {
            service,
            replica,
            // Long enough ago for a request at once.
            asked_at: now.checked_sub(DETAILS_EVERY).unwrap_or(now),
            missing: 0,
            history: None,
            decisions: Vec::new(),
        });
        let is_due = details.missing == 0
            && now.saturating_duration_since(details.asked_at) >= DETAILS_EVERY;
        let asks = [Wanted::History, Wanted::Decisions].map(|what| Ask {
            service: details.service.clone(),
            replica: Some(details.replica.clone()),
            what,
        });
        if is_due {
            details.asked_at = now;
            details.missing = asks.len();
        }
        self.details = Some(details);
        if is_due { asks.into() } else { Vec::new() }
    }

    /// The last minutes of the replica on the page, or the error; `None` until the answer arrives.
    pub(super) fn replica_history(&self) -> Option<&Result<History, String>> {
        self.details.as_ref()?.history.as_ref()
    }

    /// The last requests that were sent to the replica and whose decisions were kept, newest first.
    pub(super) fn replica_decisions(&self) -> &[Decision] {
        let details = self.details.as_ref();
        details.map_or(&[], |details| details.decisions.as_slice())
    }

    /// The replicas of the service, filtered and sorted.
    pub(super) fn rows(&self) -> Vec<Row<'_>> {
        let mut rows = self.model.rows(self.service);
        rows.retain(|row| is_match(row, &self.filter));
        self.order.sort(&mut rows);
        rows
    }

    /// Returns whether both sides of a demo are there.
    pub(super) fn has_sides(&self) -> bool {
        let fleet = self.model.fleet();
        fleet.demo.is_some() && fleet.services.len() == 2
    }

    /// Scrolls the list so that the selected one of `rows` is within `height` rows, and no space is
    /// left below the last.
    pub(super) fn scroll(&mut self, indices: &[usize], height: usize) {
        self.top = self.top.min(indices.len().saturating_sub(height));
        let chosen = self.selected.and_then(|selected| {
            let mut places = indices.iter();
            places.position(|index| *index == selected)
        });
        if let Some(place) = chosen {
            let highest = (place + 1).saturating_sub(height);
            self.top = self.top.clamp(highest, place.max(highest));
        }
    }

    /// Carries out the action of a key. Stopping the process is left to the caller.
    pub(super) fn act(&mut self, action: Action) {
        if self.is_helping && !matches!(action, Action::Quit) {
            // Any key closes the help.
            self.is_helping = false;
            return;
        }
        let page_rows = isize::try_from(self.hits.list.height).unwrap_or(isize::MAX);
        match action {
            Action::Quit => self.is_over = true,
            Action::Suspend => {}
            Action::Back => self.back(),
            Action::Move(rows) => self.step(rows),
            Action::Page(screens) => self.step(screens * (page_rows - 1).max(1)),
            Action::First => self.step(isize::MIN),
            Action::Last => self.step(isize::MAX),
            Action::Open => self.open(),
            Action::Step(by) => self.step_service(by),
            Action::Service(service) => self.show_service(service),
            Action::Sort(by) => self.sort_beside(by),
            Action::Reverse => self.order.is_reversed ^= true,
            Action::Filter => {
                self.is_filter_written = true;
                if matches!(self.page, Page::Pool | Page::Charts | Page::Replica) {
                    self.page = self.home();
                }
            }
            Action::View(page) => self.show(page),
            Action::Pause => self.pause(),
            Action::Help => self.is_helping = true,
            Action::Write(letter) => {
                if self.filter.chars().count() < FILTER_MAX && !letter.is_control() {
                    self.filter.push(letter);
                }
            }
            Action::Erase => {
                self.filter.pop();
            }
            Action::EraseAll => self.filter.clear(),
            Action::Keep => self.is_filter_written = false,
        }
    }

    /// Handles a click at this position.
    pub(super) fn click(&mut self, at: Position) {
        if self.is_helping {
            self.is_helping = false;
            return;
        }
        let under = |(area, what): &(Rect, usize)| area.contains(at).then_some(*what);
        let service = self.hits.services.iter().find_map(under);
        let mut heads = self.hits.heads.iter();
        if let Some(service) = service {
            self.show_service(service);
        } else if let Some((_, column)) = heads.find(|(area, _)| area.contains(at)) {
            self.sort_by(*column);
        } else if self.hits.list.contains(at) {
            let row = usize::from(at.y - self.hits.list.y) + self.top;
            let clicked = self.rows().get(row).map(|row| row.index);
            if clicked.is_some() && clicked == self.selected {
                self.open();
            }
            self.selected = clicked.or(self.selected);
        }
    }

    /// Sorts by a column; reverses the order if it is that column already.
    fn sort_by(&mut self, column: Column) {
        let is_reversed = self.order.by == column && !self.order.is_reversed;
        self.order = Order {
            by: column,
            is_reversed,
        };
    }

    /// The page to which `back` leads.
    fn home(&self) -> Page {
        if self.has_sides() {
            Page::Sides
        } else {
            Page::Fleet
        }
    }

    /// Goes one step back: out of editing the filter, out of a page, then removes the filter, then
    /// the selection.
    fn back(&mut self) {
        if self.is_filter_written {
            self.is_filter_written = false;
            self.filter.clear();
        } else if self.page != self.home() {
            self.page = self.home();
        } else if self.filter.is_empty() {
            self.selected = None;
        } else {
            self.filter.clear();
        }
    }

    /// Shows a page, or goes back from it if it is shown already.
    fn show(&mut self, page: Page) {
        if page == Page::Sides && !self.has_sides() {
            return;
        }
        self.page = if self.page == page { self.home() } else { page };
    }

    fn open(&mut self) {
        if self.page == Page::Replica {
            return;
        }
        if self.selected.is_none() {
            self.step(1);
        }
        if self.selected.is_some() {
            self.page = Page::Replica;
        }
    }

    /// Selects the row this many places further; the first or the last one if none is selected.
    fn step(&mut self, by: isize) {
        let indices: Vec<usize> = self.rows().iter().map(|row| row.index).collect();
        let Some(last) = indices.len().checked_sub(1) else {
            return;
        };
        let place = self.selected.and_then(|selected| {
            let mut places = indices.iter();
            places.position(|index| *index == selected)
        });
        let next = match place {
            Some(place) => place.saturating_add_signed(by).min(last),
            None if by == isize::MAX => last,
            None => 0,
        };
        self.selected = indices.get(next).copied();
    }

    fn step_service(&mut self, by: isize) {
        let count = self.model.fleet().services.len();
        if count > 0 {
            let on = by.rem_euclid(isize::try_from(count).unwrap_or(1));
            self.show_service(self.service.saturating_add_signed(on) % count);
        }
    }

    /// Shows another service. In a demo the same replica of the other side is selected.
    fn show_service(&mut self, service: usize) {
        if service >= self.model.fleet().services.len() || service == self.service {
            return;
        }
        self.service = service;
        if !self.has_sides() {
            self.selected = None;
            self.top = 0;
            if self.page == Page::Replica {
                self.page = self.home();
            }
        }
    }

    fn sort_beside(&mut self, by: isize) {
        let columns = Column::of(&self.model, self.service);
        let place = columns.iter().position(|column| *column == self.order.by);
        let count = isize::try_from(columns.len()).unwrap_or(1);
        let next = place
            .unwrap_or(0)
            .saturating_add_signed(by.rem_euclid(count))
            % columns.len();
        self.order = Order {
            by: columns[next],
            is_reversed: false,
        };
    }

    /// Pauses the picture, or brings it up to date.
    fn pause(&mut self) {
        match self.paused.take() {
            None => self.paused = Some((None, None)),
            Some((fleet, tick)) => {
                // The history that the server has kept meanwhile is requested.
                match fleet {
                    Some(fleet) => self.take_fleet(fleet),
                    None => self.want_histories(),
                }
                self.model.forget_rates();
                if let Some(tick) = tick {
                    self.model.take_tick(tick);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
