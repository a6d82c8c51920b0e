//! Helpers for the arguments of subcommands.

use clap::builder::{PossibleValuesParser, TypedValueParser};

/// Parses the name of one of `all`. Help and errors list the names.
pub(crate) fn one_of<T: Clone + Send + Sync + 'static>(
    all: Vec<T>,
    name: fn(&T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.iter().map(name)).try_map(move |wanted| {
        let mut all = all.iter();
        all.find(|one| name(one) == wanted)
            .cloned()
            .ok_or("not one of these")
    })
}

/// Parses the options of a chore, as the command line does.
#[cfg(test)]
pub(crate) fn parse<T: clap::Args>(arguments: &[&str]) -> Result<T, String> {
    let chore = T::augment_args(clap::Command::new("chore").no_binary_name(true));
    let found = chore.try_get_matches_from(arguments);
    found
        .and_then(|found| T::from_arg_matches(&found))
        .map_err(|error| error.to_string())
}
