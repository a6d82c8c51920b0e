//! The old process's part: starts the new one, passes its sockets, and waits for the report that
//! the new one serves.

use super::channel::{Channel, Hold, Purpose};
use super::successor::MARK;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::env;
use std::ffi::OsString;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Instant;

/// The program as it was started, so that it can be started again.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
}

impl Program {
    /// Returns the program of this process. Call it at the start: later, the working directory may
    /// have changed, and the file of this name may be another one, which is the purpose of an
    /// upgrade.
    ///
    /// # Errors
    ///
    /// It cannot be determined.
    pub(crate) fn of_this_process() -> io::Result<Self> {
        let mut arguments = env::args_os();
        let path = match arguments.next() {
            Some(name) => locate(Path::new(&name))?,
            None => env::current_exe()?,
        };
        Ok(Self {
            path,
            arguments: arguments.collect(),
        })
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

/// Locates the program by the name with which it was called, and not by the file behind that name:
/// a link that now leads to a new version must be followed again.
fn locate(name: &Path) -> io::Result<PathBuf> {
    if name.components().count() > 1 || name.is_absolute() {
        return std::path::absolute(name);
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let mut files = env::split_paths(&path).map(|folder| folder.join(name));
    match files.find(|file| file.is_file()) {
        Some(file) => std::path::absolute(file),
        None => env::current_exe(),
    }
}

/// Sockets to pass on, as clones, because this process continues with its own; and the data that
/// goes with them.
#[derive(Debug, Default)]
pub(crate) struct Passed(Vec<(Purpose, OwnedFd)>);

impl Passed {
    /// Adds a socket for requests; `configured` is its address in the configuration.
    pub(crate) fn add_requests(
        &mut self,
        configured: SocketAddr,
        socket: &TcpListener,
    ) -> io::Result<()> {
        self.add(Purpose::Requests(configured), socket)
    }

    /// Adds the socket for status and metrics; `configured` is its address in the configuration.
    pub(crate) fn add_admin(
        &mut self,
        configured: SocketAddr,
        socket: &TcpListener,
    ) -> io::Result<()> {
        self.add(Purpose::Admin(configured), socket)
    }

    /// Adds a socket for probes; `configured` is its address in the configuration.
    pub(crate) fn add_probes(
        &mut self,
        configured: SocketAddr,
        socket: &impl AsFd,
    ) -> io::Result<()> {
        self.add(Purpose::Probes(configured), socket)
    }

    /// Adds the overrides, in the form in which a successor reads them.
    ///
    /// # Errors
    ///
    /// The system has no descriptor or no memory left.
    #[cfg(feature = "serve")]
    pub(crate) fn add_overrides(&mut self, text: &str) -> io::Result<()> {
        use rustix::fs::{MemfdFlags, memfd_create};
        use std::io::Write as _;

        // A file can have any length, unlike a message, and no other process can read it.
        let file = memfd_create("slackwater-overrides", MemfdFlags::CLOEXEC)?;
        let mut file = std::fs::File::from(file);
        file.write_all(text.as_bytes())?;
        self.0.push((Purpose::Overrides, file.into()));
        Ok(())
    }

    fn add(&mut self, purpose: Purpose, socket: &impl AsFd) -> io::Result<()> {
        self.0.push((purpose, socket.as_fd().try_clone_to_owned()?));
        Ok(())
    }
}

/// One attempt at a hand-over.
#[derive(Debug)]
pub(super) struct HandOver {
    patience: Duration,
    ours: Channel,
    theirs: OwnedFd,
}

impl HandOver {
    /// Returns an attempt that takes little more than `patience` at most, and a handle that cancels
    /// it earlier.
    ///
    /// # Errors
    ///
    /// The system has no sockets left.
    pub(super) fn new(patience: Duration) -> io::Result<(Self, Hold)> {
        let (ours, theirs) = Channel::pair(patience)?;
        let hold = ours.hold()?;
        let hand_over = Self {
            patience,
            ours,
            theirs,
        };
        Ok((hand_over, hold))
    }

    /// Starts the program again with these sockets, and waits until it serves. This blocks.
    ///
    /// # Errors
    ///
    /// Why it does not serve. The new process has been ended then.
    pub(super) fn carry_out(self, program: &Program, sockets: &Passed) -> Result<Child, String> {
        hand_over(program, sockets, self)
    }
}

fn hand_over(program: &Program, sockets: &Passed, attempt: HandOver) -> Result<Child, String> {
    let HandOver {
        patience,
        ours,
        theirs,
    } = attempt;
    let begun = Instant::now();
    if std::process::id() == 1 {
        return Err(
            "this is process 1 of its container, which ends when it does; replace the container instead".to_owned(),
        );
    }
    let mut command = Command::new(&program.path);
    command
        .args(&program.arguments)
        .env(MARK, "stdin")
        .stdin(theirs);
    // These variables concern this process alone.
    for name in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"] {
        command.env_remove(name);
    }
    let child = command.spawn();
    let mut child =
        child.map_err(|error| format!("{} does not start: {error}", program.path.display()))?;
    // The command still holds the other end. Only the child may hold it, so that its end is
    // noticed.
    drop(command);
    let said = ours
        .send_sockets(
            sockets
                .0
                .iter()
                .map(|(purpose, socket)| (purpose, socket.as_fd())),
        )
        .and_then(|()| ours.receive_serving());
    match said {
        Ok(()) => Ok(child),
        Err(error) => {
            let left = patience.saturating_sub(begun.elapsed());
            Err(why_not(&mut child, &error, left))
        }
    }
}

/// Returns why a process does not serve. The process has ended afterwards.
fn why_not(child: &mut Child, error: &io::Error, left: Duration) -> String {
    let is_gone = matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    );
    // The process has closed its end, so it is exiting. Give it time to do so, for its exit code.
    if is_gone && let Some(status) = wait(child, left.min(Duration::from_secs(1))) {
        return format!("it ended before it served, {status}; its output is above");
    }
    let _ = child.kill();
    let _ = child.wait();
    match error.kind() {
        io::ErrorKind::TimedOut => "it did not serve in time, and was ended".to_owned(),
        _ => format!("it cannot be talked to, and was ended: {error}"),
    }
}

fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    const LOOK: Duration = Duration::from_millis(5);
    let begun = Instant::now();
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if begun.elapsed() >= limit {
            return None;
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(path: &str, arguments: &[&str]) -> Program {
        Program {
            path: path.into(),
            arguments: arguments.iter().map(OsString::from).collect(),
        }
    }

    const PATIENCE: Duration = Duration::from_mins(1);

    fn hand_over(program: &Program, patience: Duration) -> Result<Child, String> {
        let (attempt, _hold) = HandOver::new(patience).expect("sockets");
        attempt.carry_out(program, &Passed::default())
    }

    #[test]
    fn a_cancelled_attempt_ends_the_new_process() {
        let (attempt, hold) = HandOver::new(Duration::from_hours(1)).expect("sockets");
        let program = program("/bin/sh", &["-c", "exec sleep 1000"]);
        let waiting =
            std::thread::spawn(move || attempt.carry_out(&program, &Passed::default()).map(drop));
        drop(hold);
        // `join` returns only after the process has ended.
        let why = waiting.join().expect("no panic").expect_err("cancelled");
        assert!(why.contains("ended"), "{why}");
    }

    #[test]
    fn the_reason_why_the_new_process_does_not_serve_is_reported() {
        let why = hand_over(&program("/nowhere/slackwater", &[]), PATIENCE);
        let why = why.expect_err("no such file");
        assert!(
            why.starts_with("/nowhere/slackwater does not start"),
            "{why}"
        );
        let why = hand_over(&program("/bin/sh", &["-c", "exit 3"]), PATIENCE);
        let why = why.expect_err("it ends");
        assert!(why.contains("exit status: 3"), "{why}");
        let short = Duration::from_millis(50);
        let why = hand_over(&program("/bin/sh", &["-c", "exec sleep 1000"]), short);
        let why = why.expect_err("it says nothing");
        assert!(why.contains("in time"), "{why}");
    }

    #[test]
    fn program_is_found_by_its_command_name() {
        assert_eq!(
            locate(Path::new("/a/b")).expect("absolute"),
            Path::new("/a/b")
        );
        let here = env::current_dir().expect("a directory");
        assert_eq!(locate(Path::new("./b")).expect("relative"), here.join("b"));
        let found = locate(Path::new("sh")).expect("on every PATH");
        assert!(found.is_absolute() && found.ends_with("sh"), "{found:?}");
    }
}
