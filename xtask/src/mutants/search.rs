//! Scenarios that break missed mutants, among many: the candidates for more vectors.

use crate::mutants::judge::on_all_cores;
use crate::output::progress;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

/// Scenarios that are enough for a mutant.
const ENOUGH: usize = 4;

/// Plays many scenarios, and prints as few as break each mutant that any of them breaks.
pub(super) fn search(program: &Path, mutants: &[usize], scenarios: u64) -> Result<(), String> {
    let began = Instant::now();
    let expected = play(program, scenarios, None, &|_, _| true, 3_600)?;
    let seconds_max = began.elapsed().as_secs() * 10 + 3;
    let rest = Mutex::new(mutants.iter());
    let broken = Mutex::new(BTreeMap::new());
    let work = || -> Result<(), String> {
        loop {
            let next = rest.lock().ok().and_then(|mut it| it.next().copied());
            let Some(mutant) = next else {
                return Ok(());
            };
            let differs = |at: usize, line: &str| expected.get(at).is_none_or(|it| it != line);
            let mut found = play(program, scenarios, Some(mutant), &differs, seconds_max)?;
            for line in &mut found {
                // Without the hash.
                line.truncate(line.rfind(' ').unwrap_or_default());
            }
            if let Ok(mut broken) = broken.lock() {
                broken.insert(mutant, found);
                progress(&format!("{} of {}", broken.len(), mutants.len()));
            }
        }
    };
    on_all_cores(work)?;
    let broken = broken.into_inner().map_err(|error| error.to_string())?;
    let (few, covered) = cover(broken.into_values().collect());
    for scenario in few {
        progress(&scenario);
    }
    progress(&format!("they break {covered} of {}", mutants.len()));
    Ok(())
}

/// The wanted ones of the program's lines; with a mutant, only the first of them.
fn play(
    program: &Path,
    scenarios: u64,
    mutant: Option<usize>,
    is_wanted: &dyn Fn(usize, &str) -> bool,
    seconds_max: u64,
) -> Result<Vec<String>, String> {
    let name = program.display();
    // With a mutant, a scenario may not end.
    let mut command = Command::new("timeout");
    command
        .arg(seconds_max.to_string())
        .arg(program)
        .arg(scenarios.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if let Some(mutant) = mutant {
        command.env("MUTANT", mutant.to_string());
    }
    let mut child = command
        .spawn()
        .map_err(|error| format!("{name}: {error}"))?;
    let output = child.stdout.take().into_iter();
    let lines = output.flat_map(|it| BufReader::new(it).lines());
    let mut lines = lines.map_while(Result::ok).enumerate();
    let mut found = Vec::new();
    while let Some((at, line)) = lines.next()
        && (mutant.is_none() || found.len() < ENOUGH)
    {
        if is_wanted(at, &line) {
            found.push(line);
        }
    }
    // Errors do not matter: it has ended by itself.
    let _ = child.kill();
    let _ = child.wait();
    Ok(found)
}

/// As few as possible of the scenarios, so that one of each mutant's is among them, if it has any;
/// and the number of mutants that have one.
fn cover(mut sets: Vec<Vec<String>>) -> (BTreeSet<String>, usize) {
    sets.retain(|it| !it.is_empty());
    let covered = sets.len();
    let mut few = BTreeSet::new();
    while !sets.is_empty() {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for scenario in sets.iter().flatten() {
            *counts.entry(scenario).or_default() += 1;
        }
        let best = counts.into_iter().max_by_key(|it| it.1);
        let best = best.map(|it| it.0.to_owned()).unwrap_or_default();
        sets.retain(|it| !it.contains(&best));
        few.insert(best);
    }
    (few, covered)
}

#[cfg(test)]
mod tests {
    use super::cover;

    #[test]
    fn few_scenarios_cover_all_mutants_that_any_breaks() {
        let sets = [vec!["a", "b"], vec![], vec!["b"], vec!["b", "c"], vec!["d"]];
        let sets = sets.map(|set| set.into_iter().map(str::to_owned).collect());
        let (few, covered) = cover(sets.into());
        assert_eq!(few.into_iter().collect::<Vec<_>>(), ["b", "d"]);
        assert_eq!(covered, 4);
    }
}
