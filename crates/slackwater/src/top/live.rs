//! The running screen: the stream, keys, signals and the clock in one loop, with a new picture
//! after each.

use super::app::{Answer, App, Ask, Link, Wanted};
use super::keys::{self, Action};
use super::listen::{Received, listen};
use super::screen::{self, Theme};
use super::terminal::{Taken, fault, give_back_on_panic, read_events};
use crate::admin_client::{Address, Failure, Stream, encode, json};
use crate::output::clean;
use crate::process::Signals;
use core::time::Duration;
use ratatui::crossterm::event::{Event, KeyEventKind, MouseButton, MouseEventKind};
use ratatui::layout::Position;
use serde::de::DeserializeOwned;
use slackwater_config::Fault;
use std::io;
use std::time::Instant;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

/// Redraw interval of a picture in which only the clock changes.
const CLOCK: Duration = Duration::from_secs(1);

/// Most decisions of a replica that are requested.
const DECISIONS: usize = 50;

/// Rows that one step of the mouse wheel scrolls.
const WHEEL_ROWS: isize = 3;

/// Shows the server's messages until the user quits.
pub(super) async fn run(
    address: Address,
    stream: Stream,
    theme: Theme,
    has_mouse: bool,
) -> Result<(), Fault> {
    let mut signals = Signals::new()?;
    let mut hang_up = signal(SignalKind::hangup())
        .map_err(|error| Fault::runtime(format!("cannot catch signals: {error}")))?;
    give_back_on_panic();
    let mut taken = Taken::new(has_mouse)?;
    let mut keys = read_events()?;
    let (heard_out, mut heard) = mpsc::channel(16);
    let (answers_out, mut answers) = mpsc::channel::<(Ask, Answer)>(16);
    let mut app = App::new(address.authority());
    let listening = tokio::spawn(listen(address.clone(), stream, heard_out));
    let mut clock = tokio::time::interval(CLOCK);
    clock.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while !app.is_over {
        tokio::select! {
            event = keys.recv() => match event {
                Some(Ok(event)) => {
                    if take_event(&mut app, &event) == Some(Action::Suspend) {
                        taken.suspend()?;
                    }
                }
                Some(Err(error)) => return Err(fault(&error)),
                None => return Err(fault(&io::Error::from(io::ErrorKind::UnexpectedEof))),
            },
            Some(heard) = heard.recv() => take_received(&mut app, heard, Instant::now()),
            Some((ask, answer)) = answers.recv() => app.take_answer(&ask, answer),
            _ = clock.tick() => {}
            () = signals.next() => break,
            _ = hang_up.recv() => break,
        }
        // Requests run in their own tasks, so that a slow answer does not block the screen.
        for ask in app.ask(Instant::now()) {
            tokio::spawn(answer(address.clone(), ask, answers_out.clone()));
        }
        let drawn = taken.terminal.draw(|frame| {
            screen::draw(&mut app, frame.buffer_mut(), theme, Instant::now());
        });
        drawn.map_err(|error| fault(&error))?;
    }
    listening.abort();
    Ok(())
}

/// Handles an event of the terminal.
fn take_event(app: &mut App, event: &Event) -> Option<Action> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => {
            let action = keys::action(*key, app.is_filter_written)?;
            app.act(action);
            Some(action)
        }
        Event::Mouse(mouse) => {
            match mouse.kind {
                MouseEventKind::ScrollDown => app.act(Action::Move(WHEEL_ROWS)),
                MouseEventKind::ScrollUp => app.act(Action::Move(-WHEEL_ROWS)),
                MouseEventKind::Down(MouseButton::Left) => {
                    app.click(Position::new(mouse.column, mouse.row));
                }
                _ => {}
            }
            None
        }
        _ => None,
    }
}

/// Handles a message of the server.
fn take_received(app: &mut App, heard: Received, now: Instant) {
    match heard {
        Received::Fleet(fleet) => app.take_fleet(*fleet),
        Received::Tick(tick) => app.take_tick(*tick, now),
        Received::Lost { why, wait } => {
            app.link = Link::Lost {
                why: clean(&why),
                retry_at: now + wait,
            };
        }
    }
}

/// Sends a request, and passes on its answer.
async fn answer(address: Address, ask: Ask, out: mpsc::Sender<(Ask, Answer)>) {
    let answer = match ask.what {
        Wanted::History => Answer::History(get(&address, "/history", &ask, "").await),
        Wanted::Decisions => {
            let few = format!("&limit={DECISIONS}");
            Answer::Decisions(get(&address, "/decisions", &ask, &few).await)
        }
    };
    // At the end the receiver is gone.
    let _ = out.send((ask, answer)).await;
}

/// Reads a path with the service and replica of the request.
async fn get<T: DeserializeOwned>(
    address: &Address,
    path: &str,
    ask: &Ask,
    rest: &str,
) -> Result<T, String> {
    let mut path = format!("{path}?service={}", encode(&ask.service));
    if let Some(replica) = &ask.replica {
        path.push_str("&replica=");
        path.extend(encode(replica));
    }
    path.push_str(rest);
    let answer = json(address, &path).await;
    let read = answer.and_then(|bytes| {
        let read = serde_json::from_slice(&bytes);
        read.map_err(|error| Failure::Strange(format!("its answer cannot be read: {error}")))
    });
    read.map_err(|failure| clean(&failure.to_string()))
}
