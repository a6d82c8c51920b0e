//! The command line in the documentation. `docs/reference/cli.md` is made from it, and each command
//! on a page must be one that this version accepts.

use super::Cli;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Parser};
use core::fmt::Write as _;
use std::fs;
use std::path::Path;

#[path = "../../tests/docs/pages.rs"]
mod pages;

/// The beginning of the page.
const TOP: &str = "\
# Command line

Every command with its `--help`. This page is made from the command itself:
`BLESS=1 cargo test -p slackwater --bin slackwater page_of_commands` updates it.

`slackwater completions bash`, or another shell, prints a completion script.
`slackwater man ~/.local/share/man/man1` writes these texts as manual pages.
";

/// Adds the sub-commands of `command`. Commands that differ only by their name and their
/// description share one entry, that of the first of them; the list of the commands of `command`
/// has the descriptions.
fn describe(command: &Command, depth: usize, page: &mut String) {
    let mut entries: Vec<(String, String, Vec<String>)> = Vec::new();
    for sub in command.get_subcommands() {
        if sub.get_name() == "help" {
            continue;
        }
        let name = sub.get_bin_name().unwrap_or_default().to_owned();
        // Common arguments are described once: `--help`, and the flags of the parent command.
        let own = sub.clone().mut_args(|argument| {
            let is_common = argument.is_global_set() && depth > 2 || argument.get_id() == "help";
            argument.hide(is_common)
        });
        let help = own.term_width(100).render_help().to_string();
        let help: Vec<&str> = help.lines().map(str::trim_end).collect();
        let about = help.first().copied().unwrap_or_default();
        let rest = help[1..].join("\n").trim().to_owned();
        let without_name = rest.replace(&name, "");
        let like = entries.iter_mut().find(|(rest, ..)| *rest == without_name);
        if let Some((_, _, others)) = like {
            others.push(format!("`{name}`"));
            continue;
        }
        entries.push((without_name, name.clone(), Vec::new()));
        let _ = writeln!(page, "\n{} `{name}`\n\n{about}.\n", "#".repeat(depth));
        let _ = writeln!(page, "```text\n{rest}\n```");
        describe(sub, depth + 1, page);
    }
    for (_, name, others) in entries.iter().filter(|(.., others)| !others.is_empty()) {
        let others = others.join(", ");
        let _ = writeln!(
            page,
            "\nThe options of `{name}` are also those of {others}."
        );
    }
}

fn page() -> String {
    let mut command = Cli::command().term_width(100);
    command.build();
    let mut page = TOP.to_owned();
    describe(&command, 2, &mut page);
    page
}

#[test]
fn page_of_commands_is_fresh() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    let page = page();
    if std::env::var_os("BLESS").is_some() {
        fs::write(&file, &page).unwrap();
    }
    assert!(
        fs::read_to_string(&file).is_ok_and(|text| text == page),
        "docs/reference/cli.md is not what the command's help says; \
         BLESS=1 cargo test -p slackwater --bin slackwater page_of_commands"
    );
}

/// Finds the calls of `slackwater` in a shell text; each is returned as its arguments.
fn calls(text: &str) -> Vec<Vec<String>> {
    let joined = text.replace("\\\n", " ");
    let mut calls = Vec::new();
    for line in joined.lines() {
        // These lines are not typed: pictures of a terminal, parts of a unit file, octets of a
        // signature.
        if line.starts_with(' ') || line.contains('⏎') {
            continue;
        }
        for words in commands(line.trim_start_matches("$ ")) {
            let is_name = |word: &String| word == "slackwater" || word.ends_with("/slackwater");
            // Words that may precede a command.
            let before = ["sudo", "exec", "until", "while", "if", "!", "do", "("];
            let at = words.iter().position(|word| {
                !(before.contains(&word.as_str()) || word.contains('=') && !word.starts_with('-'))
            });
            if let Some(at) = at.filter(|&at| is_name(&words[at])) {
                calls.push(words[at..].to_vec());
            }
        }
    }
    calls
}

/// Splits a line into commands, each as its words. It handles less than a shell does, but enough
/// for the pages: quotes, comments, redirections, and separators of commands.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let mut command = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    // In the examples of `--help`, three spaces precede a remark.
    let line = line.split("   ").next().unwrap_or_default();
    for character in line.chars().chain([' ']) {
        if let Some(open) = quote {
            if open == character {
                quote = None;
            } else {
                word.get_or_insert_default().push(character);
            }
            continue;
        }
        match character {
            '"' | '\'' => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            '#' if word.is_none() => break,
            ' ' | '&' | '|' | ';' | '(' | ')' | '>' | '<' => {
                command.extend(word.take());
                if character != ' ' {
                    commands.push(core::mem::take(&mut command));
                }
            }
            _ => word.get_or_insert_default().push(character),
        }
    }
    commands.push(command);
    commands.retain(|words| !words.is_empty());
    commands
}

/// Returns the mistake in a call, if there is one. A call within a sentence may be incomplete.
fn mistake(call: &[String], is_inline: bool) -> Option<String> {
    let error = Cli::try_parse_from(call).err()?;
    let is_part = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => return None,
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => true,
        // A flag without its value.
        ErrorKind::InvalidValue => error
            .get(ContextKind::InvalidValue)
            .is_some_and(|value| matches!(value, ContextValue::String(text) if text.is_empty())),
        _ => false,
    };
    (!(is_inline && is_part)).then(|| error.to_string())
}

#[test]
fn commands_in_the_docs_are_accepted() {
    let mut count = 0;
    let mut mistakes = String::new();
    for code in pages::code() {
        let is_shell = code.is_inline || matches!(code.info.as_str(), "" | "sh" | "console");
        if !is_shell {
            continue;
        }
        for call in calls(&code.text) {
            count += 1;
            if let Some(mistake) = mistake(&call, code.is_inline) {
                let _ = writeln!(mistakes, "{}: {}\n{mistake}", code.place, call.join(" "));
            }
        }
    }
    assert!(mistakes.is_empty(), "{mistakes}");
    assert!(count > 100, "{count} commands were found");
}

#[test]
fn examples_in_help_are_accepted() {
    let mut commands = vec![Cli::command()];
    let mut count = 0;
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands().cloned());
        let Some(after) = command.get_after_help() else {
            continue;
        };
        for line in after.to_string().lines() {
            // A longer line would be broken in the middle, unless it is a list of names.
            let is_list = line.starts_with("Policies: ");
            assert!(is_list || line.chars().count() <= 100, "{line}");
            let Some(example) = line.strip_prefix("  slackwater ") else {
                continue;
            };
            for call in calls(&format!("slackwater {example}")) {
                count += 1;
                assert_eq!(mistake(&call, false), None, "{line}");
            }
        }
    }
    assert!(count > 30, "{count} examples were found");
}

#[test]
fn unknown_commands_and_flags_in_the_docs_are_reported() {
    let find = mistake;
    let mistake = |text: &str, is_inline| {
        let calls = calls(text);
        assert_eq!(calls.len(), 1, "{text}");
        find(&calls[0], is_inline)
    };
    assert!(mistake("slackwater serf --listen 127.0.0.1:80", false).is_some());
    assert!(mistake("slackwater serve --polcy random", true).is_some());
    assert!(mistake("slackwater load http://a/ --rate", false).is_some());
    assert_eq!(mistake("slackwater load --json", true), None);
    assert_eq!(
        mistake("A=b slackwater check 'a b.toml' >/dev/null # x", false),
        None
    );
    assert!(calls("tar xf slackwater; echo slackwater").is_empty());
}
