//! Rules of this repository that no other tool checks. Each finding says what and where;
//! `cargo xtask tidy` lists them all.

mod code_map;
mod core;
mod cycles;
mod files;
mod glossary;
mod imports;
mod layers;
mod lines;
mod packages;
mod policy_names;
mod prose;
mod ratchet;
mod references;
mod rules;
mod rust;
mod tree;

use crate::command::root;
use crate::output::say;
use ratchet::Use;
use std::fs;
use tree::{Source, read};

/// The options. Without one, everything is checked.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct Options {
    /// Writes the code map of ARCHITECTURE.md again
    #[arg(long)]
    map: bool,
    /// Counts production lines of each package
    #[arg(long, conflicts_with = "map")]
    lines: bool,
    /// Updates the lists in xtask/ratchets/ of existing violations that are still allowed
    #[arg(long, conflicts_with_all = ["map", "lines"])]
    ratchet: bool,
    /// Accepts that a list allows more than before
    #[arg(long, requires = "ratchet")]
    may_grow: bool,
}

/// A list of what is still allowed, with its header and the current uses.
struct Held {
    list: &'static str,
    about: &'static str,
    uses: Vec<Use>,
}

/// Checks everything, or writes the lists of what is still allowed again.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    if options.map {
        code_map::write(&root())
    } else if options.lines {
        say(&lines::table(&tree::sources(&root())?));
        Ok(())
    } else if options.ratchet {
        write_lists(options.may_grow)
    } else {
        check()
    }
}

/// Checks everything; the error has each finding on its own line.
pub(crate) fn check() -> Result<(), String> {
    let root = root();
    let sources = tree::sources(&root)?;
    let mut findings = Vec::new();
    for source in &sources {
        findings.extend(files::check(source));
        if source.path.starts_with(core::SOURCES) {
            findings.extend(core::purity(source));
        }
    }
    findings.extend(rules::check(&sources));
    findings.extend(lines::check(&sources));
    let contributing = read(&root.join("CONTRIBUTING.md"))?;
    let prose = prose::parse(&contributing)?;
    findings.extend(sources.iter().flat_map(|source| prose.check_code(source)));
    let pages = tree::pages(&root)?;
    findings.extend(
        pages
            .iter()
            .flat_map(|(path, text)| prose.check_page(path, text)),
    );
    findings.extend(prose::length(&pages));
    let architecture = read(&root.join("ARCHITECTURE.md"))?;
    findings.extend(code_map::check(&root, &architecture)?);
    findings.extend(references::check(
        "ARCHITECTURE.md",
        &architecture,
        |path| read(&root.join(path)).map_err(|_| format!("`{path}` is not there")),
    ));
    for package in tree::names(&root, "crates")? {
        let folder = format!("crates/{package}");
        let manifest = read(&root.join(&folder).join("Cargo.toml"))?;
        findings.extend(packages::check(&folder, &manifest, |file| {
            root.join(file).exists()
        }));
    }
    findings.extend(layers::check(&architecture, &layers::packages()?));
    for held in held(&contributing, &sources)? {
        // A missing list allows nothing.
        let allowed = ratchet::parse(&fs::read_to_string(root.join(held.list)).unwrap_or_default());
        findings.extend(ratchet::hold(held.list, &allowed, &held.uses));
    }
    core::lint_settings(&root, &mut findings)?;
    core::dependencies(&mut findings)?;
    if findings.is_empty() {
        Ok(())
    } else {
        Err(findings.join("\n"))
    }
}

/// The checks that allow existing uses.
fn held(contributing: &str, sources: &[Source]) -> Result<[Held; 3], String> {
    let names = policy_names::names();
    let glossary = glossary::parse(contributing)?;
    Ok([
        Held {
            list: cycles::LIST,
            about: cycles::ABOUT,
            uses: cycles::find(sources),
        },
        Held {
            list: policy_names::LIST,
            about: policy_names::ABOUT,
            uses: policy_names::find(sources, &names),
        },
        Held {
            list: glossary::LIST,
            about: glossary::ABOUT,
            uses: glossary::find(sources, &glossary),
        },
    ])
}

/// Writes the lists from the current uses. Files may have moved; in total a list allows no more
/// than before, unless it may grow.
fn write_lists(may_grow: bool) -> Result<(), String> {
    let root = root();
    let sources = tree::sources(&root)?;
    let mut refused = Vec::new();
    for held in held(&read(&root.join("CONTRIBUTING.md"))?, &sources)? {
        let path = root.join(held.list);
        let before = fs::read_to_string(&path).ok();
        let allowed: usize = before
            .as_deref()
            .map_or(0, |text| ratchet::parse(text).values().sum());
        let today = held.uses.len();
        if before.is_some() && today > allowed && !may_grow {
            refused.push(format!(
                "{}: allows {allowed}, and there are {today}: mend what is new (`cargo xtask tidy` names it), or say --may-grow",
                held.list
            ));
            continue;
        }
        let text = ratchet::list(held.about, &ratchet::count(&held.uses));
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        say(&format!("{}: {allowed} -> {today}", held.list));
    }
    if refused.is_empty() {
        Ok(())
    } else {
        Err(refused.join("\n"))
    }
}
