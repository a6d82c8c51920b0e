//! Effects of keys, ticks and answers on the state of the screen.

use super::super::message::Fleet;
use super::super::samples;
use super::*;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

fn serve() -> App {
    let mut app = App::new("127.0.0.1:9900".to_owned());
    app.take_fleet(samples::serve_fleet());
    app.take_tick(samples::serve_tick(), Instant::now());
    app.hits.list.height = 10;
    app
}

fn demo() -> App {
    let mut app = App::new("127.0.0.1:9900".to_owned());
    app.take_fleet(samples::demo_fleet());
    app.take_tick(samples::demo_tick(), Instant::now());
    app
}

/// Presses these keys.
fn press(app: &mut App, keys: &str) {
    for key in keys.chars() {
        let code = match key {
            '⏎' => KeyCode::Enter,
            '⎋' => KeyCode::Esc,
            '⌫' => KeyCode::Backspace,
            '↓' => KeyCode::Down,
            '⇥' => KeyCode::Tab,
            other => KeyCode::Char(other),
        };
        let key = KeyEvent::new(code, KeyModifiers::NONE);
        let action = super::super::keys::action(key, app.is_filter_written);
        if let Some(action) = action {
            app.act(action);
        }
    }
}

fn shown(app: &App) -> Vec<usize> {
    app.rows().iter().map(|row| row.index).collect()
}

fn two_services() -> Fleet {
    let mut fleet = samples::serve_fleet();
    let mut other = fleet.services[0].clone();
    other.name = "api".to_owned();
    fleet.services.push(other);
    fleet
}

#[test]
fn rows_are_selected_by_step_by_page_and_at_the_ends() {
    let mut app = serve();
    press(&mut app, "k");
    assert_eq!(app.selected, Some(0));
    press(&mut app, "jj");
    assert_eq!(app.selected, Some(2));
    app.act(Action::Page(1));
    assert_eq!(app.selected, Some(11));
    press(&mut app, "G");
    assert_eq!(app.selected, Some(19));
    press(&mut app, "j");
    assert_eq!(app.selected, Some(19));
    press(&mut app, "g⎋");
    assert_eq!(app.selected, None);
    press(&mut app, "G");
    assert_eq!(app.selected, Some(19));
}

#[test]
fn selection_stays_with_its_replica_when_the_order_changes() {
    let mut app = serve();
    press(&mut app, "jjj");
    // Three steps: by name, by state, by RIF.
    press(&mut app, "sss");
    assert_eq!(app.order.by, Column::Rif);
    assert_eq!(app.selected, Some(2));
    assert_eq!(shown(&app)[0], 4);
    press(&mut app, "r");
    assert_eq!(shown(&app)[0], 3);
    press(&mut app, "SSSS");
    assert_eq!(app.order.by, Column::P99);
    assert!(!app.order.is_reversed);
}

#[test]
fn filter_is_typed_kept_and_cleared_step_by_step() {
    let mut app = serve();
    press(&mut app, "/ejq⌫e");
    assert_eq!((app.filter.as_str(), app.is_filter_written), ("eje", true));
    assert_eq!(shown(&app), [5]);
    // The arrow moves through the matches, Enter keeps the filter.
    press(&mut app, "↓⏎");
    assert_eq!((app.selected, app.is_filter_written), (Some(5), false));
    press(&mut app, "⏎");
    assert_eq!(app.page, Page::Replica);
    press(&mut app, "⎋");
    assert_eq!((app.page, app.filter.as_str()), (Page::Fleet, "eje"));
    press(&mut app, "⎋");
    assert_eq!((app.filter.as_str(), app.selected), ("", Some(5)));
    press(&mut app, "/x⎋");
    assert_eq!((app.filter.as_str(), app.is_filter_written), ("", false));
    press(&mut app, "/");
    press(&mut app, &"x".repeat(2 * FILTER_MAX));
    assert_eq!(app.filter.len(), FILTER_MAX);
    // No replica matches the filter, so none can be selected.
    press(&mut app, "⏎⎋");
    app.filter = "nobody".to_owned();
    app.selected = None;
    press(&mut app, "j⏎");
    assert_eq!((app.selected, app.page), (None, Page::Fleet));
}

#[test]
fn selected_replica_is_found_by_name_in_a_new_fleet() {
    let mut app = serve();
    press(&mut app, "jjj⏎");
    let mut fleet = samples::serve_fleet();
    fleet.revision = 2;
    fleet.services[0].replicas.remove(0);
    app.take_fleet(fleet.clone());
    assert_eq!((app.selected, app.page), (Some(1), Page::Replica));
    fleet.services[0].replicas.remove(1);
    app.take_fleet(fleet);
    assert_eq!((app.selected, app.page), (None, Page::Fleet));
}

#[test]
fn services_are_cycled_and_their_histories_requested() {
    let mut app = App::new(String::new());
    app.take_fleet(two_services());
    let asks = app.ask(Instant::now());
    let names: Vec<&str> = asks.iter().map(|ask| ask.service.as_str()).collect();
    assert_eq!(names, ["web", "api"]);
    app.take_answer(&asks[1], Answer::History(Ok(samples::service_history())));
    let points = |service: usize| app.model().trend(service).unwrap().points().len();
    assert_eq!((points(0), points(1)), (0, 12));
    press(&mut app, "j⇥");
    assert_eq!((app.service, app.selected), (1, None));
    press(&mut app, "⇥");
    assert_eq!(app.service, 0);
    app.act(Action::Step(-1));
    assert_eq!(app.service, 1);
    press(&mut app, "1");
    assert_eq!(app.service, 0);
    press(&mut app, "3");
    assert_eq!(app.service, 0);
    // The service that is shown may be removed.
    press(&mut app, "2");
    app.take_fleet(samples::serve_fleet());
    assert_eq!(app.service, 0);
}

#[test]
fn shown_service_stays_shown_after_a_reload() {
    let mut app = App::new(String::new());
    app.take_fleet(two_services());
    press(&mut app, "2");
    let mut fleet = two_services();
    fleet.revision = 2;
    fleet.services.swap(0, 1);
    app.take_fleet(fleet);
    assert_eq!(app.service, 0);
    assert_eq!(app.model().service_name(app.service), "api");
}

#[test]
fn missing_ticks_are_noticed() {
    let start = Instant::now();
    let mut app = App::new(String::new());
    assert_eq!(app.stale_for(start), None);
    app.take_fleet(samples::serve_fleet());
    let mut tick = samples::serve_tick();
    app.take_tick(tick.clone(), start);
    let later = |seconds: u64| start + Duration::from_secs(seconds);
    assert_eq!(app.stale_for(later(3)), None);
    assert_eq!(app.stale_for(later(4)), Some(Duration::from_secs(4)));
    // A new connection repeats the last figures: they are as old as before.
    app.take_fleet(samples::serve_fleet());
    app.take_tick(tick.clone(), later(60));
    assert_eq!(app.stale_for(later(61)), Some(Duration::from_secs(61)));
    tick.at_ms += 1_000;
    app.take_tick(tick, later(62));
    assert_eq!(app.stale_for(later(63)), None);
    // For a broken stream there is another message.
    app.link = Link::Lost {
        why: String::new(),
        retry_at: later(99),
    };
    assert_eq!(app.stale_for(later(99)), None);
}

#[test]
fn demo_starts_with_both_sides_and_keeps_the_selection() {
    let mut app = demo();
    assert_eq!(app.page, Page::Sides);
    press(&mut app, "jj⇥⏎");
    assert_eq!(
        (app.page, app.service, app.selected),
        (Page::Replica, 1, Some(1))
    );
    press(&mut app, "⎋f");
    assert_eq!(app.page, Page::Fleet);
    press(&mut app, "v");
    assert_eq!(app.page, Page::Sides);
    press(&mut app, "p");
    assert_eq!(app.page, Page::Pool);
    press(&mut app, "p");
    assert_eq!(app.page, Page::Sides);
    // A `serve` has no sides.
    let mut serve = serve();
    press(&mut serve, "v");
    assert_eq!(serve.page, Page::Fleet);
}

#[test]
fn replica_page_requests_its_history_at_intervals() {
    let mut app = serve();
    let start = Instant::now();
    // The service's last minutes are requested once.
    assert_eq!(app.ask(start).len(), 1);
    assert_eq!(app.ask(start), []);
    press(&mut app, "j⏎");
    let asks = app.ask(start);
    let wanted: Vec<Wanted> = asks.iter().map(|ask| ask.what).collect();
    assert_eq!(wanted, [Wanted::History, Wanted::Decisions]);
    assert_eq!(asks[0].replica.as_deref(), Some("10.0.0.1:8080"));
    // There is only one request at a time, however late the answers are.
    assert_eq!(app.ask(start + Duration::from_mins(1)), []);
    let history = || Answer::History(Ok(samples::replica_history()));
    app.take_answer(&asks[0], history());
    assert_eq!(app.ask(start + Duration::from_mins(1)), []);
    app.take_answer(&asks[1], Answer::Decisions(Ok(samples::decisions())));
    assert_eq!(app.ask(start + Duration::from_millis(1_999)), []);
    assert_eq!(app.ask(start + DETAILS_EVERY).len(), 2);
    // The old answer stays until the next one.
    assert!(app.replica_history().is_some());
    assert_eq!(app.replica_decisions().len(), 3);
    // A process that keeps no decisions is not an error.
    let none = Err("there is no such path".to_owned());
    app.take_answer(&asks[1], Answer::Decisions(none));
    assert_eq!(app.replica_decisions().len(), 0);
    // An answer about another replica is ignored.
    press(&mut app, "⎋j⏎");
    assert_eq!(app.ask(start).len(), 2);
    assert!(app.replica_history().is_none());
    app.take_answer(&asks[0], history());
    assert!(app.replica_history().is_none());
    // While the connection is lost, nothing is requested.
    press(&mut app, "⎋j⏎");
    app.link = Link::Lost {
        why: String::new(),
        retry_at: start,
    };
    assert_eq!(app.ask(start + Duration::from_mins(2)), []);
}

#[test]
fn paused_screen_stands_still_and_then_shows_the_latest() {
    let mut app = serve();
    press(&mut app, " ");
    let mut tick = samples::serve_tick();
    tick.uptime_ms = 1;
    app.take_tick(tick.clone(), Instant::now());
    assert_ne!(app.model().tick().unwrap().uptime_ms, 1);
    let mut fleet = samples::serve_fleet();
    fleet.revision = 2;
    fleet.services[0].replicas.truncate(1);
    app.take_fleet(fleet);
    tick.revision = 2;
    tick.uptime_ms = 2;
    app.take_tick(tick, Instant::now());
    assert_eq!(app.rows().len(), 20);
    app.wanted.clear();
    press(&mut app, " ");
    assert_eq!(app.rows().len(), 1);
    assert_eq!(app.model().tick().unwrap().uptime_ms, 2);
    // The history of the pause is requested, also for the same fleet.
    assert_eq!(app.ask(Instant::now()).len(), 1);
    press(&mut app, "  ");
    assert_eq!(app.ask(Instant::now()).len(), 1);
}

#[test]
fn help_closes_with_any_key_and_q_quits() {
    let mut app = serve();
    press(&mut app, "?j");
    assert!(!app.is_helping);
    assert_eq!(app.selected, None);
    press(&mut app, "q");
    assert!(app.is_over);
}
