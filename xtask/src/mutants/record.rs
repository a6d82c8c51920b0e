//! What earlier runs found, for one that goes on after an interruption or with more vectors.

use crate::command::root;
use crate::mutants::outcomes::Outcome;
use core::hash::{Hash, Hasher};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::DefaultHasher;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The outcomes of mutants by their names. Each is kept in a file as soon as it is added.
#[derive(Debug)]
pub(super) struct Record {
    known: BTreeMap<String, Outcome>,
    file: Mutex<File>,
    /// Fingerprints of the code, and of the code and its vectors.
    code: u64,
    all: u64,
}

impl Record {
    /// Opens the record in a file. With `goes_on` it has what was found about the same code. A
    /// mutant that the vectors missed is played again if there are others since then; one that they
    /// caught is not, as vectors are usually added.
    pub(super) fn open(
        path: &Path,
        goes_on: bool,
        code: &[&str],
        vectors: &[&str],
    ) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let at = |paths: &[&str]| -> Vec<_> { paths.iter().map(|it| root().join(it)).collect() };
        let (code, vectors) = (at(code), at(vectors));
        let mut hasher = DefaultHasher::new();
        fingerprint(&code, &vectors, &mut hasher)?;
        let code = hasher.finish();
        fingerprint(&vectors, &[], &mut hasher)?;
        let all = hasher.finish();
        let text = match fs::read_to_string(path) {
            Ok(text) if goes_on => text,
            _ => String::new(),
        };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut record = Self {
            known: BTreeMap::new(),
            file: Mutex::new(File::create(path).map_err(failed)?),
            code,
            all,
        };
        let known = text.lines().filter_map(|line| record.read(line));
        let known: BTreeMap<_, _> = known.map(|(name, it)| (name.to_owned(), it)).collect();
        for (name, outcome) in &known {
            record.add(name, *outcome)?;
        }
        record.known = known;
        Ok(record)
    }

    /// What was found about a mutant before this run.
    pub(super) fn known(&self, name: &str) -> Option<Outcome> {
        self.known.get(name).copied()
    }

    /// Keeps an outcome.
    pub(super) fn add(&self, name: &str, outcome: Outcome) -> Result<(), String> {
        let fingerprint = self.fingerprint(outcome);
        let line = format!("{fingerprint:016x} {outcome:?} {name}\n");
        let mut file = self.file.lock().map_err(|error| error.to_string())?;
        let written = file.write_all(line.as_bytes());
        written.map_err(|error| format!("the record of mutants: {error}"))
    }

    /// The name and the outcome in a line, if it is about the same.
    fn read<'l>(&self, line: &'l str) -> Option<(&'l str, Outcome)> {
        let mut parts = line.splitn(3, ' ');
        let fingerprint = u64::from_str_radix(parts.next()?, 16).ok()?;
        let found = parts.next()?;
        let mut outcomes = Outcome::ALL.into_iter();
        let outcome = outcomes.find(|it| format!("{it:?}") == found)?;
        (self.fingerprint(outcome) == fingerprint).then_some((parts.next()?, outcome))
    }

    /// More vectors only change what was missed.
    const fn fingerprint(&self, outcome: Outcome) -> u64 {
        match outcome {
            Outcome::Missed => self.all,
            Outcome::Caught | Outcome::TimedOut | Outcome::Unviable => self.code,
        }
    }
}

/// Hashes files, and the files in folders, without these.
fn fingerprint(
    paths: &[PathBuf],
    without: &[PathBuf],
    hasher: &mut DefaultHasher,
) -> Result<(), String> {
    for path in paths.iter().filter(|path| !without.contains(path)) {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        if path.is_dir() {
            let entries = fs::read_dir(path).map_err(failed)?;
            let mut inside: Vec<_> = entries.flatten().map(|it| it.path()).collect();
            inside.sort();
            fingerprint(&inside, without, hasher)?;
        } else {
            path.strip_prefix(root()).ok().hash(hasher);
            fs::read(path).map_err(failed)?.hash(hasher);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    #[test]
    fn a_run_goes_on_where_code_and_vectors_are_the_same() {
        let folder = Folder::new("mutants-record", false).expect("a folder");
        let at = |name: &str| folder.path.join(name);
        let write = |name: &str, text: &str| fs::write(at(name), text).expect("written");
        fs::create_dir(at("core")).expect("a folder");
        write("core/a.rs", "a");
        write("core/numbers.rs", "1");
        let open = |goes_on| {
            let paths = ["core", "core/numbers.rs"].map(at);
            let [core, numbers] = paths.each_ref().map(|it| it.to_str().expect("UTF-8"));
            Record::open(&at("record"), goes_on, &[core], &[numbers]).expect("opened")
        };
        let known = |record: &Record| ["b", "c"].map(|name| record.known(name));
        let both = [Some(Outcome::Caught), Some(Outcome::Missed)];
        let fill = |record: &Record| {
            record.add("b", Outcome::Caught).expect("kept");
            record.add("c", Outcome::Missed).expect("kept");
        };
        fill(&open(true));
        assert_eq!(known(&open(true)), both);
        // What was known is still there after a run that added nothing.
        assert_eq!(known(&open(true)), both);
        write("core/numbers.rs", "1, 2");
        assert_eq!(known(&open(true)), [Some(Outcome::Caught), None]);
        write("core/a.rs", "b");
        assert_eq!(known(&open(true)), [None, None]);
        fill(&open(true));
        assert_eq!(known(&open(false)), [None, None]);
    }
}
