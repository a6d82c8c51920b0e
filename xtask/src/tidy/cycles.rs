//! Import cycles between the modules of a crate: in its root, and in each folder.
//!
//! Two modules that import each other are one module in two files: neither can be read, tested or
//! moved alone. Existing cycles are in a list that may only become shorter. A name counts for the
//! module that declares it, through all re-exports. A folder's own `mod.rs` and the modules in it
//! may import each other, because it contains what they have in common.

use crate::tidy::imports::{Import, imports};
use crate::tidy::ratchet::Use;
use crate::tidy::tree::Source;
use std::collections::{BTreeMap, BTreeSet};

/// The file with the arrows that are still allowed; the next constant: its header.
pub(super) const LIST: &str = "xtask/ratchets/cycles.txt";
pub(super) const ABOUT: &str =
    "Imports between modules of a crate that lie in a cycle: package, from -> to.";

/// Arrows between modules, each with its first place.
type Arrows = BTreeMap<(String, String), String>;

/// Finds each arrow that is part of a cycle.
pub(super) fn find(sources: &[Source]) -> Vec<Use> {
    let packages: BTreeSet<&str> = sources.iter().filter_map(Source::package).collect();
    let mut found = Vec::new();
    for package in packages {
        for arrows in graphs(package, sources) {
            found.extend(in_cycles(package, &arrows));
        }
    }
    found
}

/// The graph of the root's modules, and one for the modules in each folder.
fn graphs(package: &str, sources: &[Source]) -> Vec<Arrows> {
    let files: Vec<(Vec<String>, Vec<Import>, &str)> = sources
        .iter()
        .filter(|source| source.package() == Some(package) && !source.is_test)
        .map(|source| {
            let module = source.module();
            let found = imports(&source.tokens, &module);
            (module, found, source.path.as_str())
        })
        .collect();
    // Modules that are files, and their folders.
    let modules: BTreeSet<&[String]> = files
        .iter()
        .flat_map(|(module, ..)| (1..=module.len()).map(|depth| &module[..depth]))
        .collect();
    let counts = |path: &[String]| modules.contains(path);
    // A re-exported name counts for its original module.
    let mut passed_on: BTreeMap<Vec<String>, &[String]> = BTreeMap::new();
    for (module, found, _) in &files {
        for import in found {
            if let Some(name) = &import.name {
                passed_on.insert(
                    [&module[..], core::slice::from_ref(name)].concat(),
                    &import.path,
                );
            }
        }
    }

    let mut graphs: BTreeMap<&[String], Arrows> = BTreeMap::new();
    for (module, found, path) in &files {
        for import in found {
            for depth in 0..module.len() {
                let (around, own) = (&module[..depth], &module[depth]);
                let Some(other) = child(&import.path, around, &counts, &passed_on) else {
                    continue;
                };
                if other != *own {
                    let (from, to) = (name(around, own), name(around, &other));
                    let at = format!("{path}:{}", import.line);
                    let arrows = graphs.entry(around).or_default();
                    arrows.entry((from, to)).or_insert(at);
                }
            }
        }
    }
    graphs.into_values().collect()
}

/// The child of the module `around` that a path leads to, if it leads to a module there.
fn child(
    path: &[String],
    around: &[String],
    counts: &impl Fn(&[String]) -> bool,
    passed_on: &BTreeMap<Vec<String>, &[String]>,
) -> Option<String> {
    let depth = around.len();
    // A longer chain of re-exports is a circle.
    let mut path = path;
    for _ in 0..8 {
        if !path.starts_with(around) || path.len() <= depth {
            return None;
        }
        if counts(&path[..=depth]) {
            return Some(path[depth].clone());
        }
        path = passed_on.get(&path[..=depth]).copied()?;
    }
    None
}

fn name(around: &[String], own: &str) -> String {
    [around, &[own.to_owned()]].concat().join("/")
}

/// An arrow is part of a cycle if there is a way back.
fn in_cycles(package: &str, arrows: &Arrows) -> Vec<Use> {
    let leads = |from: &str, to: &str| {
        let (mut seen, mut open) = (BTreeSet::from([from]), vec![from]);
        while let Some(at) = open.pop() {
            let next = arrows.keys().filter(|(from, _)| from == at);
            open.extend(next.map(|(_, to)| to.as_str()).filter(|to| seen.insert(to)));
        }
        seen.contains(to)
    };
    arrows
        .iter()
        .filter(|((from, to), _)| leads(to, from))
        .map(|((from, to), at)| Use {
            key: format!("{package}: {from} -> {to}"),
            finding: format!(
                "{at}: `{from}` imports `{to}`, which imports `{from}`, directly or through others"
            ),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = files
            .iter()
            .map(|(path, text)| Source::test(&format!("crates/x/src/{path}"), text))
            .collect();
        find(&sources).into_iter().map(|one| one.key).collect()
    }

    #[test]
    fn modules_that_import_each_other_are_found() {
        let found = keys(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a/mod.rs", "use crate::b::B;"),
            ("b.rs", "fn b() -> crate::c::C {}"),
            ("c.rs", "use super::a::A;"),
        ]);
        assert_eq!(
            found,
            ["crates/x: a -> b", "crates/x: b -> c", "crates/x: c -> a"]
        );
    }

    #[test]
    fn cycles_in_a_folder_are_found_also_through_re_exports() {
        let found = keys(&[
            ("a/mod.rs", "mod b; mod c; pub(crate) use c::C;"),
            ("a/b/deep.rs", "use crate::a::C; use super::super::f::F;"),
            ("a/c/mod.rs", "use super::b::B;"),
            ("a/c/deep.rs", ""),
            ("a/f.rs", "use super::b::B;"),
        ]);
        assert_eq!(
            found,
            [
                "crates/x: a/b -> a/c",
                "crates/x: a/b -> a/f",
                "crates/x: a/c -> a/b",
                "crates/x: a/f -> a/b"
            ]
        );
    }

    #[test]
    fn cycles_at_any_depth_are_found_except_folder_and_its_modules() {
        let found = keys(&[
            ("a/mod.rs", "mod b; use b::c::C; struct A;"),
            ("a/b/mod.rs", "mod c; mod d; struct B;"),
            ("a/b/c.rs", "use super::d::D; use super::super::A;"),
            ("a/b/d.rs", "use super::c::C; use super::B;"),
        ]);
        assert_eq!(
            found,
            ["crates/x: a/b/c -> a/b/d", "crates/x: a/b/d -> a/b/c"]
        );
    }

    #[test]
    fn one_way_imports_and_test_imports_are_accepted() {
        let found = keys(&[
            ("lib.rs", "mod a; mod b; pub use a::A; pub use b::B;"),
            ("a/mod.rs", "use crate::b::B; struct A;"),
            ("a/tests.rs", "use crate::b::B;"),
            (
                "b.rs",
                "struct B; #[cfg(test)] mod tests { use crate::a::A; }",
            ),
            ("b/tests.rs", "use crate::a::A;"),
        ]);
        assert_eq!(found, [""; 0]);
    }
}
