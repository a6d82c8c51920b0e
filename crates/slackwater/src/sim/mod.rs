//! The sub-command `slackwater sim`: the testbed in virtual time, from the command line.
//!
//! | | |
//! |---|---|
//! | a user's scenario file | `file` |
//! | `sim run`: a scenario under several policies | `play` |
//! | `sim size`: how many replicas they need | `size` |
//! | `sim replay`: a recording played again | `replay` |
//! | `sim fig6` and the other figures, `sim all`, `sim list` | `figures` |
//! | a scenario in a line | `summary` |
//! | seeds, seconds, threads | `effort` |
//! | checks before anything is played | `out`, `memory` |
//! | policies by name | `policies` |
//! | progress, and stopping | `progress`, `stop` |
//! | the provenance of a page, and the list of files | `written` |

mod effort;
mod figures;
mod file;
mod memory;
mod out;
mod play;
mod policies;
mod progress;
mod replay;
mod size;
mod stop;
mod summary;
mod written;

use clap::{ArgMatches, Command as Parser, FromArgMatches, Subcommand};
use slackwater_config::Fault;
use slackwater_config::toml_reader::{Mistakes, Source};
use slackwater_sim::figure::{FIGURES, Figure, named};
use slackwater_sim::report::with_thousands;

/// Arguments of `slackwater sim`.
#[derive(Debug, clap::Args)]
#[command(after_help = figures::OVERVIEW)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

/// The fixed sub-commands.
#[derive(Debug, Subcommand)]
enum Fixed {
    /// Play your own fleet, a scenario file, under several policies
    Run(play::Args),
    /// Find how many replicas each policy needs to keep a service level
    Size(size::Args),
    /// Play a recording of serve or demo again
    Replay(replay::Args),
    /// List the figures
    List,
    /// Play all figures
    All(figures::Args),
}

/// The command to run: a fixed sub-command, or a figure by its name.
#[derive(Debug)]
enum Command {
    Fixed(Fixed),
    Figure(String, figures::Args),
}

/// The sub-commands of figures come from the list of figures, so a new figure has a sub-command at
/// once, with its help.
impl Subcommand for Command {
    fn augment_subcommands(parser: Parser) -> Parser {
        let figure = |figure: &&dyn Figure| {
            // The description of the arguments is not that of a figure, so the figure's title
            // replaces it.
            <figures::Args as clap::Args>::augment_args(Parser::new(figure.name()))
                .about(figure.title())
                .after_help(figures::examples(figure.name()))
        };
        Fixed::augment_subcommands(parser).subcommands(FIGURES.iter().map(figure))
    }

    fn augment_subcommands_for_update(parser: Parser) -> Parser {
        Self::augment_subcommands(parser)
    }

    fn has_subcommand(name: &str) -> bool {
        Fixed::has_subcommand(name) || named(name).is_some()
    }
}

impl FromArgMatches for Command {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        match matches.subcommand() {
            Some((name, arguments)) if named(name).is_some() => {
                let arguments = figures::Args::from_arg_matches(arguments)?;
                Ok(Self::Figure(name.to_owned(), arguments))
            }
            _ => Fixed::from_arg_matches(matches).map(Self::Fixed),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns the output of `slackwater check` for a scenario: a few lines, or the mistakes; `None` if
/// the file is not a scenario.
pub(crate) fn check(source: &Source) -> Option<Result<String, Mistakes>> {
    file::is_one(source).then(|| {
        let file::ScenarioFile { scenario, .. } = file::ScenarioFile::of(source)?;
        let queries = with_thousands(&format!("{:.0}", summary::queries(&scenario)));
        Ok(format!(
            "  {}\n  {}: some {queries} queries with each seed\n",
            summary::fleet_and_load(&scenario),
            summary::times(&scenario),
        ))
    })
}

/// Runs `slackwater sim`.
pub(crate) fn run(args: Args) -> Result<(), Fault> {
    match args.command {
        Command::Fixed(Fixed::Run(args)) => play::run(&args),
        Command::Fixed(Fixed::Size(args)) => size::run(&args),
        Command::Fixed(Fixed::Replay(args)) => replay::run(&args),
        Command::Fixed(Fixed::List) => figures::list(),
        Command::Fixed(Fixed::All(args)) => figures::run(FIGURES, &args),
        Command::Figure(name, args) => {
            let figure: Vec<_> = named(&name).into_iter().collect();
            figures::run(&figure, &args)
        }
    }
}
