//! The sub-command `slackwater top`: the fleet in a terminal, as reported by the admin server of a
//! running `serve`, `agent` or `demo`.
//!
//! | | |
//! |---|---|
//! | arguments | this file |
//! | messages of the server | [`admin_client`](crate::admin_client), `message`, `listen` |
//! | the model | `model`, with the last minutes in `trend`; `rows` filters and sorts |
//! | the screen | `app` and `keys`; `screen` draws it; `live` runs it on a `terminal` |
//! | one picture as text | `plain` |
//! | figures as text | `words` |

mod app;
mod keys;
mod listen;
mod live;
mod message;
mod model;
mod plain;
mod rows;
#[cfg(test)]
mod samples;
mod screen;
mod terminal;
mod trend;
mod words;

use crate::admin_client::{Address, Event, Failure, Stream, address, block_on};
use crate::output::print;
use model::Model;
use screen::Theme;
use slackwater_config::Fault;
use std::io::{self, IsTerminal};

const EXAMPLES: &str = "\
Examples:
  slackwater top                       the serve or demo on this machine, at 127.0.0.1:9900
  slackwater top --admin :9901         another port of this machine
  slackwater top --admin lb-3.example.com
                                       another machine, port 9900
  slackwater top --once                one plain table, as when standard output is no terminal
  slackwater top --json | jq '.tick.services[0].latency_10s.p99_us'

Press ? for help, q to quit. NO_COLOR is honoured.
Exit codes: 0 you quit, or the table is written; 1 cannot connect; 2 bad arguments.";

/// Arguments of `slackwater top`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where the status is served: admin.listen of a serve or agent, the page of a demo
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9900", value_parser = address::parse)]
    admin: Address,
    /// Short for --admin ADDRESS
    #[arg(value_name = "ADDRESS", value_parser = address::parse, conflicts_with = "admin")]
    address: Option<Address>,
    /// Write one plain table and end
    #[arg(long)]
    once: bool,
    /// Write one fleet and tick as a line of JSON, as the server sends them, and end
    #[arg(long, conflicts_with = "once")]
    json: bool,
    /// Take the mouse: wheel, click on replicas, heads of columns and services
    #[arg(long)]
    mouse: bool,
}

/// Runs `slackwater top`.
pub(crate) fn run(args: Args) -> Result<(), Fault> {
    block_on(top(args))
}

async fn top(args: Args) -> Result<(), Fault> {
    let Args {
        admin,
        address,
        once,
        json,
        mouse,
    } = args;
    let address = address.unwrap_or(admin);
    let authority = address.authority();
    let told = |failure: Failure| failure.at(&address);
    let mut stream = Stream::open(&address).await.map_err(told)?;
    if json {
        let (fleet, tick) = first(&mut stream).await.map_err(told)?;
        return print(&json_line(&fleet, &tick).map_err(told)?);
    }
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    if once || is_dumb || !io::stdout().is_terminal() {
        let (fleet, tick) = first(&mut stream).await.map_err(told)?;
        let mut model = Model::default();
        model.take_fleet(listen::read(&fleet).map_err(told)?);
        model.take_tick(listen::read(&tick).map_err(told)?);
        return print(&plain::table(&model, &authority));
    }
    let is_coloured = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    live::run(address, stream, Theme { is_coloured }, mouse).await
}

/// Receives the first tick, and the fleet that it belongs to.
async fn first(stream: &mut Stream) -> Result<(Event, Event), Failure> {
    let mut fleet = None;
    loop {
        let event = stream.next().await?;
        match (event.name.as_str(), fleet.take()) {
            ("fleet", _) => fleet = Some(event),
            ("tick", Some(fleet)) => return Ok((fleet, event)),
            (_, before) => fleet = before,
        }
    }
}

/// Both events as received, on one line.
fn json_line(fleet: &Event, tick: &Event) -> Result<String, Failure> {
    let line = serde_json::json!({
        "fleet": listen::read::<serde_json::Value>(fleet)?,
        "tick": listen::read::<serde_json::Value>(tick)?,
    });
    Ok(format!("{line}\n"))
}
