//! Records the events of a watch on slices, as JSON lines: what a client of the API server reads,
//! for tests that have no cluster.

use super::api::Api;
use super::site::SHOP;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Pause after a watch that ended or could not begin.
const PAUSE: Duration = Duration::from_millis(200);

/// A running recording. Dropping it completes the file.
#[derive(Debug)]
pub(super) struct Recording {
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Recording {
    /// Records the slices of the example's namespace, from the beginning on.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be created.
    pub(super) fn start(api: &Api, file: &Path) -> Result<Self, String> {
        let wrong = |error| format!("{}: {error}", file.display());
        let mut to = BufWriter::new(File::create(file).map_err(wrong)?);
        let stops = Arc::new(AtomicBool::new(false));
        let (stop, api) = (Arc::clone(&stops), api.clone());
        // Eight seconds at most, so that it ends soon, and begins again with all slices.
        let path = format!(
            "/apis/discovery.k8s.io/v1/namespaces/{SHOP}/endpointslices?watch=1&timeoutSeconds=8&allowWatchBookmarks=true\
             &sendInitialEvents=true&resourceVersionMatch=NotOlderThan&labelSelector=kubernetes.io%2Fservice-name%3Dweb"
        );
        let thread = std::thread::spawn(move || {
            while !stop.load(Relaxed) {
                // The API server is down in some cases.
                let _ = api.watch(&path, |line| {
                    let _ = writeln!(to, "{line}");
                    !stop.load(Relaxed)
                });
                std::thread::sleep(PAUSE);
            }
        });
        Ok(Self {
            stops,
            thread: Some(thread),
        })
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.stops.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
