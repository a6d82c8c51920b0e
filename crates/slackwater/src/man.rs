//! The sub-command `slackwater man`: the manual pages of all sub-commands, as files for `man`.
//!
//! They have the text of `--help`, so that a page is never older than its command.

use clap::{Command, ValueHint};
use slackwater_config::Fault;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Arguments of `slackwater man`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder for the pages, created if missing; `man` finds them in a folder man1 of its path
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    folder: PathBuf,
}

/// Runs `slackwater man`.
pub(crate) fn run(args: &Args, command: Command) -> Result<(), Fault> {
    write(command, &args.folder).map_err(|error| {
        let folder = args.folder.display();
        Fault::runtime(format!(
            "manual pages cannot be written into {folder}: {error}"
        ))
    })
}

/// Writes a page for the command and for each of its sub-commands.
fn write(command: Command, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    // The list of other commands is a page of its own, `slackwater.1`.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write_pages(&command, folder)
}

fn write_pages(command: &Command, folder: &Path) -> io::Result<()> {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write_pages(sub, folder)?;
    }
    clap_mangen::Man::new(command.clone())
        .source(concat!("slackwater ", env!("CARGO_PKG_VERSION")))
        .manual("Slackwater")
        .generate_to(folder)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    /// Names of all commands, joined by hyphens.
    fn names(command: &Command, parents: &str, found: &mut BTreeSet<String>) {
        let name = format!("{parents}{}", command.get_name());
        for sub in command.get_subcommands() {
            names(sub, &format!("{name}-"), found);
        }
        found.insert(format!("{name}.1"));
    }

    #[test]
    fn each_command_has_a_page_that_names_its_flags() {
        let folder = std::env::temp_dir().join(format!("slackwater-man-{}", std::process::id()));
        write(Cli::command(), &folder.join("man1")).expect("pages");
        let mut expected = BTreeSet::new();
        names(&Cli::command(), "", &mut expected);
        let files = fs::read_dir(folder.join("man1")).expect("a folder");
        let found: BTreeSet<_> = files
            .map(|file| {
                file.expect("a file")
                    .file_name()
                    .into_string()
                    .expect("a name")
            })
            .collect();
        let page = |name: &str| fs::read_to_string(folder.join("man1").join(name)).expect("a page");
        let version = concat!("\"slackwater ", env!("CARGO_PKG_VERSION"), "\"");
        for (name, flag) in [
            ("slackwater-agent", "listen"),
            #[cfg(feature = "serve")]
            ("slackwater-serve", "listen"),
            #[cfg(feature = "serve")]
            ("slackwater-admin-drain", "wait"),
        ] {
            let page = page(&format!("{name}.1"));
            assert!(page.starts_with(".ie"), "{page}");
            assert!(page.contains(&format!(".TH {name} 1")), "{page}");
            assert!(page.contains(version), "{page}");
            assert!(page.contains(&format!("\\fB\\-\\-{flag}\\fR")), "{page}");
        }
        fs::remove_dir_all(&folder).expect("its own folder");
        assert_eq!(found, expected);
    }
}
