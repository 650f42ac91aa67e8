//! `onceward restore`: what a ledger that was put back has forgotten is not sent again.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use onceward_core::time::Timestamp;
use onceward_gateway::config::Config;
use onceward_gateway::home::Home;
use onceward_gateway::restoring::RestoreFailure;
use onceward_gateway::serve::StartError;
use onceward_ledger::restore::RestoreError;
use onceward_sqlite::Locked;
use serde_json::json;

use crate::exit::{Exit, Failure};

/// Say that the ledger was restored from a backup, before a gateway starts on it; later, that the doubt is over
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("what").required(true).args(["as_of", "close"]))]
pub(crate) struct Arguments {
    /// Of which time the restored ledger is (RFC 3339): the time of the backup. Everything unsettled becomes unknown
    #[arg(long, value_name = "TIME")]
    as_of: Option<String>,
    /// End the restore that is open: from now on an identity that the ledger does not know is new, however old it is
    #[arg(long, requires = "reason")]
    close: bool,
    /// With --close: why nothing of what was lost can come back any more
    #[arg(long, value_name = "TEXT", requires = "close")]
    reason: Option<String>,
    /// The configuration that names the ledger
    #[arg(long, value_name = "PATH", default_value = "onceward.toml")]
    config: PathBuf,
    /// The ledger's file, instead of a configuration
    #[arg(long, value_name = "PATH", conflicts_with = "config")]
    ledger: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let home = match &arguments.ledger {
        Some(path) => Home::File(path.clone()),
        None => configured(&arguments.config)?,
    };
    match &home {
        // A misspelt path would make a new ledger, and say that it was restored.
        Home::File(path) if !path.exists() => {
            return Err(Failure::new(Exit::Usage, format!("there is no ledger {}", path.display()))
                .not("Nothing was changed.")
                .next("Put the backup there first."));
        }
        Home::File(_) | Home::Database(_) => {}
    }
    match (&arguments.as_of, &arguments.reason) {
        (Some(text), _) => as_of(&home, text, arguments.json).await,
        (None, Some(reason)) => close(&home, reason, arguments.json).await,
        (None, None) => Err(Failure::new(Exit::Usage, "--close needs a --reason")),
    }
}

async fn as_of(home: &Home, text: &str, json: bool) -> Result<Exit, Failure> {
    let Some(time) = Timestamp::parse(text) else {
        return Err(Failure::new(Exit::Usage, format!("--as-of {text:?} is no time"))
            .not("Nothing was changed.")
            .next("Write it with its zone, like 2026-03-01T04:00:00Z."));
    };
    let restored = home.restore(time).await.map_err(refused)?;
    if json {
        say!(
            "{}",
            json!({ "as_of": time.to_string(), "unknown": restored.unknown, "restores": restored.position.restores })
        );
        return Ok(Exit::Done);
    }
    say!(
        "The ledger is restored as of {time}. {} operations that were not settled are unknown now.\n\
         Until `onceward restore --close`, an identity that may be older than this restore opens as unknown, and is not sent: all but \
         UUIDs of version 7 that were minted more than five minutes after it.\n\
         Tokens that were revoked since the backup are good again: `onceward token list` shows them.\n\
         Gateways may start.",
        restored.unknown
    );
    Ok(Exit::Done)
}

async fn close(home: &Home, reason: &str, json: bool) -> Result<Exit, Failure> {
    if reason.trim().is_empty() {
        return Err(Failure::new(Exit::Usage, "--reason is empty").not("Nothing was changed."));
    }
    home.close_restore(reason).await.map_err(refused)?;
    if json {
        say!("{}", json!({ "closed": true }));
    } else {
        say!("The restore is closed. What is unknown stays unknown until evidence or a person settles it.");
    }
    Ok(Exit::Done)
}

fn configured(path: &Path) -> Result<Home, Failure> {
    Config::read(path).map(|config| config.ledger).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Failure::new(Exit::Failed, format!("the configuration has mistakes\n{}", lines.join("\n")))
            .not("Nothing was changed.")
            .next("Name the configuration with --config, or the ledger's file with --ledger.")
    })
}

fn refused(failure: RestoreFailure) -> Failure {
    let words = failure.to_string();
    match failure {
        RestoreFailure::Open(StartError::Locked(Locked::Held { .. }))
        | RestoreFailure::Restore(RestoreError::InUse) => Failure::new(Exit::Refused, words)
            .not("Nothing was changed.")
            .next("Stop every gateway of this ledger, and do it again."),
        RestoreFailure::Restore(RestoreError::Future(_)) => {
            Failure::new(Exit::Usage, words).not("Nothing was changed.").next("It is the time of the backup.")
        }
        RestoreFailure::Restore(RestoreError::NoneOpen) => {
            Failure::new(Exit::Refused, words).not("Nothing was changed.")
        }
        RestoreFailure::Open(_) | RestoreFailure::Mark(_) => Failure::new(Exit::Failed, words),
        RestoreFailure::Restore(RestoreError::Store(_) | RestoreError::Ledger(_)) => {
            Failure::new(Exit::Failed, words).next("Do it again: until it is done, gateways refuse to start.")
        }
    }
}
