//! `onceward token`: credentials, at a running gateway, or on the ledger's file while none runs.

mod on_file;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use onceward_gateway::auth::Role;
use onceward_lab::table::Table;
use serde_json::{Value, json};

use self::on_file::Where;
use crate::client::{Connection, segment};
use crate::exit::{Exit, Failure};

/// Make, list and revoke tokens: agents call tools, operators look, decide and approve; no token does both
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Make a token. It is shown this once
    Create(Create),
    /// Every credential of the tenant, without its token
    List(Place),
    /// Revoke a credential: from now on it gets nothing, also no replay
    Revoke {
        /// Its id, as `list` shows it
        id: String,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Args, Debug)]
struct Create {
    /// Who will use it
    #[arg(long, value_name = "NAME")]
    principal: String,
    /// What it is for
    #[arg(long, value_enum)]
    role: RoleName,
    /// For which tools: a name, or a beginning with * ; may be given more than once
    #[arg(long, default_value = "*", value_name = "PATTERN")]
    tools: Vec<String>,
    #[command(flatten)]
    place: Place,
}

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RoleName {
    /// Calls tools
    Agent,
    /// Runs its own functions under claims, and looks for the effect of one whose settlement was lost
    Application,
    /// Looks, decides, approves, purges and makes tokens
    Operator,
}

impl RoleName {
    const fn role(self) -> Role {
        match self {
            Self::Agent => Role::Agent,
            Self::Application => Role::Application,
            Self::Operator => Role::Operator,
        }
    }
}

/// Where the credentials are.
#[derive(Args, Debug)]
struct Place {
    /// The ledger's file, while no gateway runs on it; otherwise the gateway at --url is asked, with an operator's token
    #[arg(long, value_name = "PATH")]
    ledger: Option<PathBuf>,
    /// The ledger that this configuration names: a database also while gateways run on it, a file only while none does
    #[arg(long, value_name = "PATH", conflicts_with = "ledger")]
    config: Option<PathBuf>,
    /// Whose credentials, with --ledger or --config [default: the tenant that the ledger knows]. A gateway knows it from the token
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

impl Place {
    /// Where the ledger itself is, if it was named; else a gateway is asked.
    fn in_hand(&self) -> Result<Option<Where<'_>>, Failure> {
        match (&self.ledger, &self.config) {
            (Some(path), _) => Ok(Some(Where::File(path))),
            (None, Some(path)) => Ok(Some(Where::Configured(path))),
            (None, None) if self.tenant.is_some() => {
                Err(Failure::new(Exit::Usage, "--tenant belongs to --ledger or --config")
                    .next("Leave it out: a gateway knows the tenant from the token."))
            }
            (None, None) => Ok(None),
        }
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    match arguments.command {
        Command::Create(arguments) => create(arguments).await,
        Command::List(place) => list(place).await,
        Command::Revoke { id, place } => revoke(id, place).await,
    }
}

async fn create(arguments: Create) -> Result<Exit, Failure> {
    let Create { principal, role, tools, place } = arguments;
    let made = match place.in_hand()? {
        Some(ledger) => on_file::create(&ledger, place.tenant.as_deref(), &principal, role.role(), &tools).await?,
        None => {
            let body = json!({ "principal": principal, "role": role.role(), "tools": tools });
            place.connection.open()?.post("/v1/credentials", &body).await?.succeeded()?
        }
    };
    if place.json {
        say!("{made:#}");
        return Ok(Exit::Done);
    }
    let text = |field: &str| made[field].as_str().unwrap_or_default();
    say!("token  {}\nid     {}\n\nIt is shown this once; the ledger keeps its hash only.", text("token"), text("id"));
    Ok(Exit::Done)
}

async fn list(place: Place) -> Result<Exit, Failure> {
    let list = match place.in_hand()? {
        Some(ledger) => on_file::list(&ledger, place.tenant.as_deref()).await?,
        None => place.connection.open()?.get("/v1/credentials").await?.succeeded()?,
    };
    if place.json {
        say!("{list:#}");
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["id", "principal", "scopes", "tools", "made", "revoked"]);
    for row in list["credentials"].as_array().into_iter().flatten() {
        let text = |field: &str| row[field].as_str().unwrap_or("–");
        table.row(&[
            text("id"),
            text("principal"),
            &words(&row["scopes"]),
            &words(&row["tools"]),
            text("created_at"),
            text("revoked_at"),
        ]);
    }
    match table.is_empty() {
        true => say!("There are none."),
        false => say!("{table}"),
    }
    Ok(Exit::Done)
}

fn words(list: &Value) -> String {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
}

async fn revoke(id: String, place: Place) -> Result<Exit, Failure> {
    match place.in_hand()? {
        Some(ledger) => on_file::revoke(&ledger, place.tenant.as_deref(), &id).await?,
        None => {
            let path = format!("/v1/credentials/{}", segment(&id));
            place.connection.open()?.delete(&path).await?.succeeded()?;
        }
    }
    match place.json {
        true => say!("{:#}", json!({ "id": id, "revoked": true })),
        false => say!("{id} is revoked: from now on it gets nothing, also no replay."),
    }
    Ok(Exit::Done)
}
