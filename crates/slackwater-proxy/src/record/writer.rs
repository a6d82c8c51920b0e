//! The thread that writes a recording, and its handles for workers.

use super::requests::Requests;
use crate::seed::draw_seed;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering::Relaxed};
use core::time::Duration;
use http::HeaderName;
use slackwater_config::Fault;
use slackwater_config::ServiceConfig;
use slackwater_core::policy::Policy;
use slackwater_recording::file::{Block, END_BYTES, End, FRAME_BYTES, Head, MAGIC, StreamHead};
use slackwater_recording::{Sink, Stream, record};
use slackwater_telemetry::date::since_epoch_ms;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Instant, SystemTime};

/// Readable by its owner only: the file contains the replicas and their load.
const MODE: u32 = 0o600;
/// Bytes that may wait to be written: 128 full blocks, or tens of thousands of small ones. Hundreds
/// of streams may send theirs at once.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// Every stream's events are written at least this often. This much is lost if the process is
/// killed.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// The recording has not ended.
const RUNNING: u8 = 0;

/// A recording in progress. Dropping it writes the rest and closes the file.
#[derive(Debug)]
pub struct Writing {
    recorder: Recorder,
    thread: Option<JoinHandle<()>>,
}

/// Records policies; all clones write to the same file.
#[derive(Clone, Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
}

/// Messages to the thread. It assembles the blocks, so that workers do not have to.
#[derive(Debug)]
enum Message {
    /// A stream starts.
    Stream(Box<StreamHead>),
    /// A stream continues.
    Events { stream: u32, events: Vec<u8> },
    /// The process ends.
    Over,
}

impl Message {
    /// Returns the memory that it needs while it waits.
    fn bytes(&self) -> usize {
        let content = match self {
            Self::Stream(head) => size_of::<StreamHead>() + head.settings.len(),
            Self::Events { events, .. } => events.len(),
            Self::Over => 0,
        };
        size_of::<Self>() + content
    }
}

#[derive(Debug)]
struct Shared {
    blocks: Sender<Message>,
    /// Bytes of the messages that have been sent and not been written.
    waiting_bytes: AtomicUsize,
    /// [`RUNNING`], or the [`End`].
    end: AtomicU8,
    began: Instant,
    /// Number of the next stream.
    next: AtomicU32,
    streams: Mutex<Vec<Stream>>,
    /// The recorded fields of requests, in addition to their other properties; `None` if requests
    /// are not recorded.
    fields: Option<Arc<[HeaderName]>>,
}

impl Writing {
    /// Opens the file and starts the thread.
    pub fn start(
        path: &Path,
        size_max: u32,
        is_forced: bool,
        fields: Option<Arc<[HeaderName]>>,
    ) -> Result<Self, Fault> {
        let fault = |error: &io::Error| {
            let advice = if error.kind() == io::ErrorKind::AlreadyExists {
                "; name another one, or give --record-force to write over it"
            } else {
                ""
            };
            let path = path.display();
            Fault::runtime(format!(
                "--record {path}: cannot be written: {error}{advice}"
            ))
        };
        let file = open(path, is_forced).map_err(|error| fault(&error))?;
        let (shared, queue) = Shared::new(fields);
        let mut writer = Writer {
            file,
            path: path.to_owned(),
            room: u64::from(size_max),
            is_over: false,
            shared: Arc::clone(&shared),
        };
        writer.begin().map_err(|error| fault(&error))?;
        let work = move || writer.run(&queue);
        let thread = Builder::new().name("recording".to_owned()).spawn(work);
        Ok(Self {
            thread: Some(thread.map_err(|error| fault(&error))?),
            recorder: Recorder { shared },
        })
    }

    /// The recorder for policies.
    pub const fn recorder(&self) -> &Recorder {
        &self.recorder
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let shared = &self.recorder.shared;
        // If the recording has ended, so has the thread.
        let _ = shared.blocks.send(Message::Over);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // They refer to the recorder, and it to them.
        shared.lock().clear();
    }
}

impl Recorder {
    /// Whether the recording has not ended.
    pub(crate) fn is_running(&self) -> bool {
        self.shared.is_running()
    }

    /// Makes a consumer that records requests; `None` if they are not recorded.
    pub(crate) fn requests(&self) -> Option<Requests> {
        self.shared.fields.clone().map(Requests::new)
    }

    /// Records a worker's policy of that service from now on.
    pub(crate) fn record(
        &self,
        policy: Box<dyn Policy>,
        service: &ServiceConfig,
        worker: u16,
    ) -> (Box<dyn Policy>, Stream) {
        let shared = &self.shared;
        let number = shared.next.fetch_add(1, Relaxed);
        let seed = draw_seed();
        let since = shared.began.elapsed().as_nanos();
        let head = StreamHead {
            number,
            since_ns: u64::try_from(since).unwrap_or(u64::MAX),
            worker,
            seed,
            service: service.name.clone(),
            policy: policy.name().to_owned(),
            settings: service.policy_toml(),
            fields: (shared.fields.iter().flat_map(|fields| fields.iter()))
                .map(ToString::to_string)
                .collect(),
        };
        shared.send(Message::Stream(Box::new(head)));
        let (policy, stream) = record(policy, seed, number, Arc::clone(shared) as _);
        let mut streams = shared.lock();
        streams.retain(|stream| !stream.is_over());
        streams.push(stream.clone());
        (policy, stream)
    }
}

impl Shared {
    fn new(fields: Option<Arc<[HeaderName]>>) -> (Arc<Self>, Receiver<Message>) {
        let (blocks, queue) = channel();
        let shared = Self {
            blocks,
            waiting_bytes: AtomicUsize::new(0),
            end: AtomicU8::new(RUNNING),
            began: Instant::now(),
            next: AtomicU32::new(0),
            streams: Mutex::default(),
            fields,
        };
        (Arc::new(shared), queue)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Stream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_running(&self) -> bool {
        self.end.load(Relaxed) == RUNNING
    }

    /// Sends a message. Returns whether the recording continues.
    fn send(&self, message: Message) -> bool {
        if !self.is_running() {
            return false;
        }
        let bytes = message.bytes();
        let waiting_bytes = bytes + self.waiting_bytes.fetch_add(bytes, Relaxed);
        let is_sent = waiting_bytes <= WAITING_BYTES_MAX && self.blocks.send(message).is_ok();
        if !is_sent {
            self.end_with(End::Behind);
        }
        is_sent
    }

    /// Ends the recording. The first reason counts.
    fn end_with(&self, end: End) {
        let ended = (self.end).compare_exchange(RUNNING, end as u8, Relaxed, Relaxed);
        if ended.is_ok() && end != End::Complete {
            tracing::warn!(why = end.as_str(), "recording ended");
        }
    }
}

impl Sink for Shared {
    fn take(&self, stream: u32, events: Vec<u8>) -> bool {
        self.send(Message::Events { stream, events })
    }
}

fn open(path: &Path, is_forced: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).mode(MODE);
    if is_forced {
        // Removed first, because an existing file would keep its mode.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => (),
        }
    }
    options.create_new(true).open(path)
}

/// Writes blocks in sequence.
struct Writer {
    file: File,
    path: PathBuf,
    /// Bytes that may still be written.
    room: u64,
    /// Whether the process ends.
    is_over: bool,
    shared: Arc<Shared>,
}

impl Writer {
    fn begin(&mut self) -> io::Result<()> {
        let head = Head {
            started_ms: since_epoch_ms(SystemTime::now()),
            software: concat!("slackwater ", env!("CARGO_PKG_VERSION")).to_owned(),
        };
        self.write(&MAGIC)?;
        self.write(&Block::Head(head).framed())
    }

    /// Writes until the recording ends. Returning closes the file and the queue.
    fn run(mut self, queue: &Receiver<Message>) {
        if let Err(error) = self.write_all(queue) {
            self.shared.end_with(End::Unwritable);
            let path = self.path.display();
            tracing::error!(%path, "recording ended: cannot write: {error}");
        }
    }

    fn write_all(&mut self, queue: &Receiver<Message>) -> io::Result<()> {
        let mut flush_at = Instant::now() + FLUSH_INTERVAL;
        while self.shared.is_running() && !self.is_over {
            // Though the queue may never be empty.
            let wait = flush_at.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                self.flush_streams(queue)?;
                flush_at = Instant::now() + FLUSH_INTERVAL;
            } else if let Ok(message) = queue.recv_timeout(wait) {
                self.write_message(message)?;
            }
        }
        self.flush_streams(queue)?;
        self.shared.end_with(End::Complete);
        // From here on no message is accepted. Those that were are written.
        self.write_waiting(queue)?;
        let number = self.shared.end.load(Relaxed);
        let end = End::ALL.into_iter().find(|end| *end as u8 == number);
        let end = Block::End(end.unwrap_or(End::Complete)).framed();
        debug_assert!(end.len() == END_BYTES && END_BYTES > FRAME_BYTES);
        self.write(&end)
    }

    /// Writes the events that wait in the streams for a block to become full.
    fn flush_streams(&mut self, queue: &Receiver<Message>) -> io::Result<()> {
        let streams = self.shared.lock().clone();
        for stream in streams {
            stream.flush();
            // After each one, so that the blocks of hundreds of streams do not wait together.
            self.write_waiting(queue)?;
        }
        Ok(())
    }

    fn write_waiting(&mut self, queue: &Receiver<Message>) -> io::Result<()> {
        queue
            .try_iter()
            .try_for_each(|message| self.write_message(message))
    }

    fn write_message(&mut self, message: Message) -> io::Result<()> {
        let bytes = message.bytes();
        let block = match message {
            Message::Stream(head) => Block::Stream(*head).framed(),
            Message::Events { stream, events } => {
                let events = &events;
                Block::Events { stream, events }.framed()
            }
            Message::Over => {
                self.is_over = true;
                return Ok(());
            }
        };
        self.shared.waiting_bytes.fetch_sub(bytes, Relaxed);
        // After the first block that does not fit nothing more is written, so that no stream has a
        // gap.
        if self.room < (block.len() + END_BYTES) as u64 {
            self.shared.end_with(End::Full);
            self.room = END_BYTES as u64;
            return Ok(());
        }
        self.write(&block)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.room = self.room.saturating_sub(bytes.len() as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::iter::repeat_with;

    const FULL: usize = 32 << 10;

    #[test]
    fn many_small_blocks_may_wait_and_many_bytes_end_the_recording() {
        let (shared, queue) = Shared::new(None);
        assert!((0..10_000).all(|stream| shared.take(stream, vec![0; 100])));
        let full = repeat_with(|| shared.take(0, vec![0; FULL]));
        let full = full.take_while(|is_taken| *is_taken).count();
        assert!((64..128).contains(&full), "beside the small ones: {full}");
        assert_eq!(shared.end.load(Relaxed), End::Behind as u8);
        assert_eq!(queue.try_iter().count(), 10_000 + full);
        assert!(!shared.take(0, Vec::new()), "there is no gap");
    }

    #[test]
    fn written_blocks_do_not_count_as_waiting() {
        let (shared, queue) = Shared::new(None);
        let mut writer = Writer {
            file: File::options()
                .write(true)
                .open("/dev/null")
                .expect("it is there"),
            path: PathBuf::new(),
            room: u64::MAX,
            is_over: false,
            shared: Arc::clone(&shared),
        };
        for _ in 0..3 * WAITING_BYTES_MAX / FULL {
            assert!(shared.take(0, vec![0; FULL]));
            writer.write_waiting(&queue).expect("it can be written");
        }
        assert_eq!(shared.waiting_bytes.load(Relaxed), 0);
    }
}
