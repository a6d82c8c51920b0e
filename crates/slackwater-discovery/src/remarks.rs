//! What a source says of its own lists in the log, once for as long as it stays the same.

/// The remarks that were logged last.
#[derive(Debug, Default)]
pub(super) struct Remarks(Vec<String>);

impl Remarks {
    /// Logs the remarks about a list that those about the one before did not have.
    pub(super) fn log(&mut self, source: &str, remarks: Vec<String>) {
        for remark in remarks.iter().filter(|it| !self.0.contains(it)) {
            tracing::warn!(source, "{remark}");
        }
        self.0 = remarks;
    }

    /// The remarks about the last list.
    #[cfg(test)]
    pub(super) fn last(&self) -> &[String] {
        &self.0
    }
}
