//! Takes over the terminal and restores it: raw mode, an alternate screen, and the mouse if it is
//! wanted. The terminal is restored however the command ends: normally, by a signal, by a panic.

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, DisableMouseCapture, EnableMouseCapture, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use slackwater_config::Fault;
use std::io::{self, Stdout};
use tokio::sync::mpsc;

/// The terminal in raw mode. Dropping this restores it.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) terminal: Terminal<CrosstermBackend<Stdout>>,
    has_mouse: bool,
}

impl Taken {
    /// Takes over the terminal.
    pub(super) fn new(has_mouse: bool) -> Result<Self, Fault> {
        let taken = take(has_mouse).and_then(|()| {
            let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
            Ok(Self {
                terminal,
                has_mouse,
            })
        });
        taken.map_err(|error| {
            give_back();
            fault(&error)
        })
    }

    /// Restores the terminal, stops this process as Ctrl-Z does, and takes it over again when the
    /// process continues.
    pub(super) fn suspend(&mut self) -> Result<(), Fault> {
        give_back();
        let own = rustix::process::getpid();
        rustix::process::kill_process(own, rustix::process::Signal::TSTP)
            .map_err(|error| Fault::runtime(format!("this process cannot be stopped: {error}")))?;
        let taken = take(self.has_mouse).and_then(|()| self.terminal.clear());
        taken.map_err(|error| fault(&error))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        give_back();
    }
}

/// Makes a panic restore the terminal before its message is printed, which would otherwise be lost.
pub(super) fn give_back_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        give_back();
        before(info);
    }));
}

/// Reads keys, mouse and size on a separate thread, because reading blocks. The thread ends with
/// the process.
pub(super) fn read_events() -> Result<mpsc::Receiver<io::Result<Event>>, Fault> {
    let (sender, receiver) = mpsc::channel(64);
    let thread = std::thread::Builder::new().name("keys".to_owned());
    let reading = thread.spawn(move || {
        loop {
            let event = event::read();
            let is_end = event.is_err();
            if sender.blocking_send(event).is_err() || is_end {
                return;
            }
        }
    });
    reading.map_err(|error| Fault::runtime(format!("no thread for the keyboard: {error}")))?;
    Ok(receiver)
}

fn take(has_mouse: bool) -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen)?;
    if has_mouse {
        execute!(io::stdout(), EnableMouseCapture)?;
    }
    Ok(())
}

/// Restores the terminal as far as it was changed. Errors are ignored: the terminal may be gone.
fn give_back() {
    let _ = execute!(
        io::stdout(),
        DisableMouseCapture,
        LeaveAlternateScreen,
        Show
    );
    let _ = disable_raw_mode();
}

pub(super) fn fault(error: &io::Error) -> Fault {
    Fault::runtime(format!(
        "the terminal cannot be used: {error}; --once writes a plain table"
    ))
}
