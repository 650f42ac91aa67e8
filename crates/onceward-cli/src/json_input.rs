//! Arguments on the command line: JSON itself, `@file`, or `-` for standard input.

use std::io::Read as _;

use onceward_core::canonical::{self, Canonical};
use onceward_core::limits::ARGUMENTS_BYTES_MAX;

use crate::exit::{Exit, Failure};

/// Reads strict JSON, as a gateway reads it.
pub(crate) fn read(text: &str) -> Result<Canonical, Failure> {
    let bytes = match (text, text.strip_prefix('@')) {
        ("-", _) => {
            let mut bytes = Vec::new();
            // One byte past the limit tells an input that is too large from one that just fits.
            let most = ARGUMENTS_BYTES_MAX as u64 + 1;
            std::io::stdin()
                .take(most)
                .read_to_end(&mut bytes)
                .map_err(|error| unreadable("standard input", &error))?;
            bytes
        }
        (_, Some(path)) => std::fs::read(path).map_err(|error| unreadable(path, &error))?,
        (text, None) => text.as_bytes().to_vec(),
    };
    canonical::parse(&bytes).map_err(|error| {
        Failure::new(Exit::Usage, format!("the arguments are not strict JSON: {error}")).not("Nothing was sent.")
    })
}

fn unreadable(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Usage, format!("{what} cannot be read: {error}")).not("Nothing was sent.")
}
