//! The decisions of a process: one ring for each worker.

use super::decision::Decision;
use super::keeper::Keeper;
use super::ring::Ring;
use slackwater_config::DecisionSettings;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that a record may take on average. Some take more, most take far less.
const BYTES_EACH: usize = 4 << 10;

/// The decisions of one `serve`.
#[derive(Debug)]
pub struct Archive {
    settings: DecisionSettings,
    /// Number of records that one worker keeps.
    share: usize,
    rings: Mutex<Vec<Arc<Ring>>>,
}

impl Archive {
    /// Makes an archive for this many workers. Returns `None` if no decisions are kept.
    pub(crate) fn new(settings: &DecisionSettings, workers: usize) -> Option<Arc<Self>> {
        let capacity = settings.capacity as usize;
        settings.keeps_any().then(|| {
            Arc::new(Self {
                settings: settings.clone(),
                share: capacity.div_ceil(workers.max(1)),
                rings: Mutex::default(),
            })
        })
    }

    /// Makes the keeper of one worker.
    pub(crate) fn keeper(&self) -> Keeper {
        let ring = Arc::new(Ring::new(self.share, self.share * BYTES_EACH));
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        rings.push(Arc::clone(&ring));
        drop(rings);
        Keeper::new(&self.settings, ring)
    }

    /// Returns all decisions, in no particular order.
    pub(super) fn decisions(&self) -> Vec<Arc<Decision>> {
        let rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let rings = rings.clone();
        rings.iter().flat_map(|ring| ring.decisions()).collect()
    }
}
