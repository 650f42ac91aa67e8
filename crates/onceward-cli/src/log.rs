//! The log, on standard error: standard output belongs to results, and to the protocol under `--stdio`.

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// How the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogForm {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts the log. `ONCEWARD_LOG` says what is logged (`info`, `warn`, `onceward_gateway=debug` …).
pub(crate) fn start(form: LogForm) {
    let filter = EnvFilter::try_from_env("ONCEWARD_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // An error means that a log is running already, which stands.
    let _ = match form {
        LogForm::Text => builder.with_ansi(false).try_init(),
        LogForm::Json => builder.json().try_init(),
    };
}
