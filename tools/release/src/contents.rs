//! What the archive and the Debian package have in common: texts of a build, and units of systemd.

use crate::command::read_text;
use crate::pages::Pages;
use crate::source::Source;

/// The unit of an agent.
pub(crate) const AGENT_UNIT: &str = "slackwater-agent.service";
/// Units of systemd; they start /usr/local/bin/slackwater.
pub(crate) const UNITS: [&str; 3] = ["slackwater.service", AGENT_UNIT, "slackwater.socket"];

/// What is known of a binary.
#[derive(Debug)]
pub(crate) struct Contents<'a> {
    pub(crate) binary: &'a [u8],
    pub(crate) pages: &'a Pages,
    pub(crate) licences: &'a str,
    pub(crate) sbom: &'a str,
}

/// A unit of systemd with the program at another path.
///
/// # Errors
///
/// The unit cannot be read.
pub(crate) fn unit(source: &Source, name: &str, program: &str) -> Result<String, String> {
    let text = read_text(&source.root.join("deploy/systemd").join(name))?;
    Ok(text.replace("/usr/local/bin/slackwater", program))
}
