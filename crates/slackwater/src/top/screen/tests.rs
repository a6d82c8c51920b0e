//! The screen as text, compared with files in `snapshots/`; colours are tested separately. After an
//! intended change, `WRITE_SNAPSHOTS=1 cargo test -p slackwater top::screen` writes the files
//! again: check the difference.

use super::super::app::{Answer, App, Link};
use super::super::keys::{Action, Page};
use super::super::message::{Fleet, History, Tick};
use super::super::rows::{Column, Order};
use super::super::samples;
use super::{Theme, draw};
use core::time::Duration;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Position;
use ratatui::style::{Color, Modifier};
use std::path::PathBuf;
use std::time::Instant;

const SMALL: (u16, u16) = (80, 24);
const LARGE: (u16, u16) = (200, 60);

fn app_of(fleet: Fleet, tick: Tick) -> App {
    let mut app = App::new("127.0.0.1:9900".to_owned());
    app.take_fleet(fleet);
    app.take_tick(tick, Instant::now());
    app
}

fn serve() -> App {
    let mut app = app_of(samples::serve_fleet(), samples::serve_tick());
    app.take_fleet(samples::serve_fleet());
    for ask in app.ask(Instant::now()) {
        app.take_answer(&ask, Answer::History(Ok(samples::service_history())));
    }
    app.take_tick(samples::serve_tick(), Instant::now());
    app
}

fn demo() -> App {
    app_of(samples::demo_fleet(), samples::demo_tick())
}

fn drawn_in(app: &mut App, (width, height): (u16, u16), theme: Theme, now: Instant) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let draw = |frame: &mut ratatui::Frame<'_>| draw(app, frame.buffer_mut(), theme, now);
    terminal.draw(draw).unwrap();
    terminal.backend().buffer().clone()
}

fn drawn(app: &mut App, size: (u16, u16)) -> Buffer {
    drawn_in(app, size, Theme { is_coloured: true }, Instant::now())
}

fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width);
    let mut text = String::new();
    for row in buffer.content().chunks(width) {
        let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Checks that the screen equals the file.
fn assert_is(name: &str, app: &mut App, size: (u16, u16)) {
    let text = text(&drawn(app, size));
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/top/screen/snapshots");
    let path = PathBuf::from(folder).join(format!("{name}.txt"));
    if std::env::var_os("WRITE_SNAPSHOTS").is_some() {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, expected, "{name} is another one:\n{text}");
}

#[test]
fn fleet_screen_of_serve_matches_its_snapshot() {
    assert_is("fleet_80x24", &mut serve(), SMALL);
    assert_is("fleet_200x60", &mut serve(), LARGE);
}

#[test]
fn problems_are_listed_first_by_severity_up_to_a_limit() {
    let mut tick = samples::serve_tick();
    let mut severe = tick.problems[0].clone();
    severe.severe = true;
    severe.what = "all 20 replicas fail".to_owned();
    severe.remedy = "start the server\u{1b}[2J".to_owned();
    tick.problems.insert(0, severe);
    let head = |tick: &Tick| {
        let mut app = app_of(samples::serve_fleet(), tick.clone());
        let text = text(&drawn(&mut app, LARGE));
        let lines = text.lines().skip(1).take(5).map(str::to_owned);
        lines.collect::<Vec<_>>()
    };
    let lines = head(&tick);
    assert!(
        lines[0].starts_with(" PROBLEM: web: all 20 replicas fail, for 0:12; start the server"),
        "{lines:?}"
    );
    assert!(lines[1].starts_with(" problem: web: 1 of 20 "), "{lines:?}");
    assert!(lines[2].starts_with(" web, prequal"), "{lines:?}");
    tick.problems = vec![tick.problems[0].clone(); 5];
    let lines = head(&tick);
    assert_eq!(lines[3], " and 2 more: slackwater admin status lists them");
    let mut demo_tick = samples::demo_tick();
    demo_tick.problems = tick.problems;
    let text = text(&drawn(&mut app_of(samples::demo_fleet(), demo_tick), LARGE));
    assert!(!text.contains("PROBLEM"), "a demo's are made on purpose");
}

#[test]
fn without_reports_local_figures_are_shown() {
    let model = samples::serve_without_reports();
    let fleet = model.fleet().clone();
    let mut app = app_of(fleet, model.tick().cloned().unwrap());
    let screen = text(&drawn(&mut app, LARGE));
    let heads = screen.lines().find(|line| line.contains(" REPLICA "));
    let heads: Vec<_> = heads.unwrap().split_whitespace().collect();
    let expected = [
        "#▼", "REPLICA", "STATE", "HERE", "LOAD", "REQ/S", "FAIL/S", "≈P99",
    ];
    assert_eq!(heads[..8], expected);
    // Nine requests are in flight at the fifth.
    let fifth = screen.lines().find(|line| line.contains("10.0.0.5:8080"));
    let cells: Vec<_> = fifth.unwrap().split_whitespace().collect();
    assert_eq!(cells[..4], ["4", "10.0.0.5:8080", "available", "9"]);
    app.order.by = Column::Rif;
    assert_eq!(app.rows()[0].index, 4);
    app.act(Action::View(Page::Pool));
    let screen = text(&drawn(&mut app, SMALL));
    assert!(screen.contains("no measurement is fresh"), "{screen}");
    app.act(Action::View(Page::Fleet));
    app.selected = Some(4);
    app.act(Action::Open);
    let screen = text(&drawn(&mut app, LARGE));
    assert!(screen.contains("its policy goes by what is seen from here"));
    assert!(!screen.contains("report"), "{screen}");
}

#[test]
fn screen_of_both_demo_sides_matches_its_snapshot() {
    assert_is("sides_80x24", &mut demo(), SMALL);
    assert_is("sides_200x60", &mut demo(), LARGE);
}

#[test]
fn screen_in_the_documentation_matches_the_program() {
    let page = include_str!("../../../../../docs/reference/top.md");
    let picture = text(&drawn(&mut serve(), SMALL));
    assert!(
        page.contains(&picture),
        "docs/reference/top.md lacks:\n{picture}"
    );
}

#[test]
fn screen_of_one_demo_side_matches_its_snapshot() {
    let mut app = demo();
    app.act(Action::View(Page::Fleet));
    app.act(Action::Service(1));
    assert_is("side_120x40", &mut app, (120, 40));
}

#[test]
fn pool_and_chart_screens_match_their_snapshots() {
    let mut app = serve();
    app.act(Action::View(Page::Pool));
    assert_is("pool_80x24", &mut app, SMALL);
    let (fleet, tick) = samples::serve_by_delay();
    let mut by_delay = app_of(fleet, tick);
    by_delay.act(Action::View(Page::Pool));
    assert_is("pool_by_delay_80x24", &mut by_delay, SMALL);
    by_delay.act(Action::View(Page::Fleet));
    assert_is("fleet_by_delay_200x60", &mut by_delay, LARGE);
    app.act(Action::View(Page::Charts));
    assert_is("charts_80x24", &mut app, SMALL);
    let mut demo = demo();
    demo.act(Action::View(Page::Charts));
    assert_is("charts_of_both_sides_120x40", &mut demo, (120, 40));
}

#[test]
fn replica_screen_matches_its_snapshot() {
    let mut app = serve();
    app.act(Action::Move(1));
    app.act(Action::Open);
    let waiting = text(&drawn(&mut app, SMALL));
    assert!(waiting.contains("asking for its last minutes"), "{waiting}");
    let asks = app.ask(Instant::now());
    let [history, decisions] = asks.as_slice() else {
        unreachable!("{asks:?}");
    };
    app.take_answer(history, Answer::History(Ok(samples::replica_history())));
    app.take_answer(decisions, Answer::Decisions(Ok(samples::decisions())));
    assert_is("replica_80x24", &mut app, SMALL);
    assert_is("replica_200x60", &mut app, LARGE);
    app.take_answer(
        history,
        Answer::History(Err("no answer in time".to_owned())),
    );
    let failed = text(&drawn(&mut app, SMALL));
    let why = "its last minutes could not be had: no answer in time";
    assert!(failed.contains(why), "{failed}");
}

#[test]
fn help_screen_matches_its_snapshot() {
    let mut app = serve();
    app.act(Action::Help);
    assert_is("help_80x24", &mut app, SMALL);
}

#[test]
fn an_agent_shows_its_own_load_and_queue() {
    let mut fleet = samples::serve_fleet();
    fleet.role = "agent".to_owned();
    fleet.services[0].policy = "none".to_owned();
    fleet.services[0].replicas.truncate(1);
    let mut tick = samples::serve_tick();
    let own = serde_json::json!({
        "own_load": {"rif": 3, "latency_us": 12_000, "draining": true, "capacity_millirif": 4_500,
            "capacity_source": "waits", "cost_us": 700, "cpu_millionths": 380_000},
        "own_queue": {"limit": 8, "rif": 8, "waiting": {"interactive": 2, "batch": 3},
            "age_us": 40_000, "standing": true, "queued": 77, "shed": {"full": 4, "deadline": 1}},
    });
    let own: Tick = serde_json::from_value(own).unwrap();
    (tick.own_load, tick.own_queue) = (own.own_load, own.own_queue);
    let text = text(&drawn(&mut app_of(fleet, tick), (120, 24)));
    assert!(
        text.contains("answers probes: RIF 3, latency 12 ms, draining"),
        "{text}"
    );
    let learned = "its server can carry 4.5 by how long threads wait for a CPU, spends 700 µs on a request, uses 38.0 % of its CPU";
    assert!(text.contains(learned), "{text}");
    let queue = "queue: 8 of 8 at the server, 5 waiting, the oldest for 40 ms; since the start 77 queued, 5 turned away";
    assert!(text.contains(queue), "{text}");
}

#[test]
fn utilization_has_a_column_if_any_replica_reports_its_capacity() {
    let (fleet, mut tick) = (samples::serve_fleet(), samples::serve_tick());
    let plain = text(&drawn(&mut app_of(fleet.clone(), tick.clone()), LARGE));
    assert!(!plain.contains("FULL"), "{plain}");
    let columns = &mut tick.services[0].replicas;
    columns.capacity_millirif = vec![Some(18_000); 20];
    columns.capacity_millirif[8] = None;
    columns.cost_us = vec![Some(2_100); 20];
    let mut app = app_of(fleet, tick);
    app.order.by = Column::Full;
    let told = text(&drawn(&mut app, LARGE));
    // Only rows of the fleet, not those of the pool beside it.
    let is_of_fleet = |line: &&str| line.find("10.0.").is_some_and(|at| at < 10);
    let rows: Vec<&str> = told.lines().filter(is_of_fleet).collect();
    assert!(told.contains("FULL▼"), "{told}");
    // The replicas with 9, 4 and 3 in flight, and last the one that does not report.
    assert!(
        rows[0].contains("10.0.0.5:8080") && rows[0].contains(" 50 % "),
        "{told}"
    );
    assert!(
        rows[1].contains("10.0.0.6:8080") && rows[1].contains(" 22 % "),
        "{told}"
    );
    assert!(
        rows.last().is_some_and(|row| row.contains("10.0.0.9:8080")),
        "{told}"
    );
    app.selected = Some(4);
    app.act(Action::Open);
    let page = text(&drawn(&mut app, LARGE));
    let room = "says that it can carry 18.0: 50 % full, spends 2.1 ms on a request";
    assert!(page.contains(room), "{page}");
}

#[test]
fn missing_figures_and_services_are_shown() {
    let mut app = App::new("x:1".to_owned());
    assert!(text(&drawn(&mut app, SMALL)).contains("waiting for the first figures"));
    app.take_fleet(samples::serve_fleet());
    let early = text(&drawn(&mut app, SMALL));
    assert!(early.contains("waiting for the first figures"), "{early}");
    assert!(early.contains("10.0.0.1:8080"), "{early}");
    let mut fleet = samples::serve_fleet();
    fleet.services.clear();
    app.take_fleet(fleet);
    assert!(text(&drawn(&mut app, SMALL)).contains("there is no service"));
}

#[test]
fn a_lost_connection_and_a_pause_are_shown_until_they_end() {
    let mut app = serve();
    let now = Instant::now();
    app.link = Link::Lost {
        why: "it ended the stream".to_owned(),
        retry_at: now + Duration::from_millis(1_200),
    };
    let theme = Theme { is_coloured: true };
    let lost = text(&drawn_in(&mut app, SMALL, theme, now));
    let banner = "connection lost: it ended the stream; next try in 2 s";
    assert!(lost.contains(banner), "{lost}");
    // The last known state stays visible.
    assert!(lost.contains("10.0.0.1:8080"), "{lost}");
    app.take_tick(samples::serve_tick(), Instant::now());
    assert!(!text(&drawn(&mut app, SMALL)).contains("connection lost"));
    let late = now + Duration::from_secs(75);
    let silent = text(&drawn_in(&mut app, SMALL, theme, late));
    assert!(silent.contains("no figures for 1:1"), "{silent}");
    app.act(Action::Pause);
    assert!(text(&drawn(&mut app, SMALL)).contains("paused\n"));
    app.act(Action::Pause);
    assert!(!text(&drawn(&mut app, SMALL)).contains("paused\n"));
}

#[test]
fn screen_without_colours_has_the_same_text() {
    let mut app = serve();
    app.act(Action::Move(1));
    let now = Instant::now();
    let coloured = drawn_in(&mut app, SMALL, Theme { is_coloured: true }, now);
    let plain = drawn_in(&mut app, SMALL, Theme { is_coloured: false }, now);
    assert_eq!(text(&coloured), text(&plain));
    let colours = |buffer: &Buffer| {
        let cells = buffer.content().iter();
        cells
            .filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
            .count()
    };
    assert!(colours(&coloured) > 0);
    assert_eq!(colours(&plain), 0);
    let chosen = plain.content().iter();
    let chosen = chosen.filter(|cell| cell.modifier.contains(Modifier::REVERSED));
    assert_eq!(chosen.count(), 80);
}

#[test]
fn only_basic_terminal_colours_are_used() {
    for mut app in [serve(), demo()] {
        let buffer = drawn(&mut app, LARGE);
        for cell in buffer.content() {
            let known = [Color::Reset, Color::Cyan, Color::Magenta, Color::Red];
            assert!(known.contains(&cell.fg), "{cell:?}");
            assert_eq!(cell.bg, Color::Reset);
        }
    }
}

#[test]
fn long_fleet_scrolls_and_the_selected_replica_stays_visible() {
    let mut fleet = samples::serve_fleet();
    let replica = fleet.services[0].replicas[0].clone();
    fleet.services[0].replicas = (0..1_000)
        .map(|index| {
            let mut replica = replica.clone();
            replica.name = format!("replica {index}");
            replica
        })
        .collect();
    let mut app = app_of(fleet, samples::serve_tick());
    let seen = |app: &mut App, name: &str| {
        let text = text(&drawn(app, SMALL));
        text.lines()
            .any(|line| line.trim_start().starts_with(&format!("{name} ")))
    };
    assert!(seen(&mut app, "replica 0"));
    app.act(Action::Last);
    assert!(seen(&mut app, "replica 999"));
    app.act(Action::Page(-1));
    app.act(Action::Page(-1));
    assert!(!seen(&mut app, "replica 999"));
    let chosen = format!("replica {}", app.selected.unwrap());
    assert!(seen(&mut app, &chosen));
    // It stays visible when the order changes.
    app.order = Order {
        by: Column::Rif,
        is_reversed: false,
    };
    assert!(seen(&mut app, &chosen));
    app.act(Action::First);
    assert!(
        seen(&mut app, "replica 4"),
        "{}",
        text(&drawn(&mut app, SMALL))
    );
    for letter in "replica 77".chars() {
        app.act(Action::Write(letter));
    }
    let filtered = text(&drawn(&mut app, SMALL));
    assert!(
        filtered.contains("filter: replica 77  19 of 1,000"),
        "{filtered}"
    );
    assert!(seen(&mut app, "replica 770"));
}

#[test]
fn clicks_choose_open_sort_and_change_the_service() {
    let mut app = serve();
    drawn(&mut app, SMALL);
    let list = app.hits.list;
    let third = Position::new(5, list.y + 2);
    app.click(third);
    assert_eq!((app.selected, app.page), (Some(2), Page::Fleet));
    app.click(third);
    assert_eq!(app.page, Page::Replica);
    app.act(Action::Back);
    drawn(&mut app, SMALL);
    let head = |app: &App, column: Column| {
        let heads = app.hits.heads.iter();
        let (area, _) = heads.into_iter().find(|(_, head)| *head == column).unwrap();
        area.as_position()
    };
    let rif = head(&app, Column::Rif);
    app.click(rif);
    let order = |is_reversed| Order {
        by: Column::Rif,
        is_reversed,
    };
    assert_eq!(app.order, order(false));
    app.click(rif);
    assert_eq!(app.order, order(true));
    // There is nothing below the last row.
    let mut demo = demo();
    demo.act(Action::View(Page::Fleet));
    drawn(&mut demo, LARGE);
    demo.click(Position::new(5, demo.hits.list.bottom() - 1));
    assert_eq!(demo.selected, None);
    let (second, _) = demo.hits.services[1];
    demo.click(second.as_position());
    assert_eq!(demo.service, 1);
}

#[test]
fn sparkline_is_labelled_with_its_own_highest_value() {
    let mut app = app_of(samples::serve_fleet(), samples::serve_tick());
    let asks = app.ask(Instant::now());
    // The highest rate was in the first second, for which only the large screen has room.
    let history = History {
        at_ms: (1..=30).collect(),
        rate: (1..=30)
            .map(|at| if at == 1 { 9_000.0 } else { 7.0 })
            .collect(),
        ..History::default()
    };
    for ask in asks {
        app.take_answer(&ask, Answer::History(Ok(history.clone())));
    }
    let label = |app: &mut App, size| {
        let screen = text(&drawn(app, size));
        let line = screen.lines().find(|line| line.starts_with(" requests/s "));
        let (_, label) = line.unwrap().split_once("≤ ").unwrap();
        label.split(' ').next().unwrap().to_owned()
    };
    assert_eq!(label(&mut app, SMALL), "692", "that of the tick");
    assert_eq!(label(&mut app, LARGE), "9,000");
}

#[test]
fn any_size_and_any_message_can_be_drawn() {
    let strange = r#"{"revision":1,"services":[{"rate":1e300,"rif_limit":{"min":4294967295,
        "median":4294967295,"max":1},"pool":[{"replica":999999,"rif":4294967295,
        "latency_us":18446744073709551615,"age_ms":18446744073709551615},{"replica":0}],
        "picks":{"":0,"x":18446744073709551615},"replicas":{"in_flight":[18446744073709551615],
        "state":[77],"sent":[18446744073709551615],"p99_us":[18446744073709551615]}}],
        "demo":{"slowed":99,"sides":[]}}"#;
    let strange: Tick = serde_json::from_str(strange).unwrap();
    for size in [(1, 1), (3, 2), (20, 5), (40, 12), (79, 24), (132, 30)] {
        for mut app in [serve(), demo(), App::new(String::new())] {
            for page in [
                Page::Fleet,
                Page::Sides,
                Page::Pool,
                Page::Charts,
                Page::Replica,
            ] {
                app.page = page;
                app.selected = Some(0);
                for ask in app.ask(Instant::now()) {
                    app.take_answer(&ask, Answer::History(Ok(History::default())));
                }
                drawn(&mut app, size);
                app.take_tick(strange.clone(), Instant::now());
                drawn(&mut app, size);
                app.is_helping = true;
                drawn(&mut app, size);
                app.is_helping = false;
            }
        }
    }
}
