//! `onceward serve`: the gateway, from a configuration, or a quickstart without one.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use onceward_destinations::error::ConfigError;
use onceward_gateway::config::{Config, LISTEN};
use onceward_gateway::mark::WentBack;
use onceward_gateway::serve::{FirstTokens, Gateway, Running, StartError};
use onceward_gateway::{mcp, quickstart};
use onceward_lab::sandbox::{self, Faults, Sandbox, SandboxConfig, SandboxContract};
use onceward_ledger::authorize::Grant;
use onceward_sqlite::Locked;

use crate::exit::{Exit, Failure};
use crate::log::{self, LogForm};

/// Run the gateway. Without a configuration: tools of a sandbox to try, a ledger in this folder, and two tokens
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The configuration [default: onceward.toml, where there is one]
    #[arg(long, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Where it listens, instead of what the configuration says; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Speak MCP on standard input and output as well, for the one host that started this process
    #[arg(long)]
    stdio: bool,
    /// With --stdio, as whom the host calls: an agent's token
    #[arg(long, env = "ONCEWARD_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// How the log on standard error is written; ONCEWARD_LOG says how much
    #[arg(long, value_enum, default_value_t)]
    log: LogForm,
}

/// The configuration that is used when none is named.
const USUAL: &str = "onceward.toml";

/// Where the quickstart's sandbox listens, if nobody else does.
const SANDBOX: u16 = 7080;

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    log::start(arguments.log);
    let listen = arguments.listen.map(on_this_machine).transpose()?;
    let usual = Path::new(USUAL);
    let config = arguments.config.as_deref().or_else(|| usual.exists().then_some(usual));
    match config {
        Some(path) => {
            let config = Config::read(path).map_err(|errors| mistakes(&errors))?;
            let mut gateway = Gateway::from(config);
            gateway.listen = listen.unwrap_or(gateway.listen);
            let running = gateway.start().await.map_err(refused)?;
            let text = format!("{}{}", first_line(&running), tokens(&running));
            serve(running, &text, &arguments).await
        }
        None => {
            let sandbox = start_sandbox().await.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
            let address = sandbox.base_url();
            let usual = || LISTEN.parse().map_err(|_| Failure::new(Exit::Failed, "the usual address is none"));
            let gateway = quickstart::gateway(Path::new("."), listen.map_or_else(usual, Ok)?, &address)
                .map_err(|errors| mistakes(&errors))?;
            let running = gateway.start().await.map_err(refused)?;
            let text = format!("{}{}", first_line(&running), quickstart::welcome(&running, &address));
            let exit = serve(running, &text, &arguments).await;
            sandbox.stop().await;
            exit
        }
    }
}

/// Serves until it is told to stop, or, on a pipe, until the host is gone.
async fn serve(running: Running, text: &str, arguments: &Arguments) -> Result<Exit, Failure> {
    if !arguments.stdio {
        say!("{}", text.trim_end());
        running.until_signal().await.map_err(ended)?;
        return Ok(Exit::Done);
    }
    // Standard output belongs to the protocol from here on.
    eprintln!("{}", text.trim_end());
    let grant = grant(&running, arguments.token.as_deref()).await?;
    let spoken = mcp::stdio(running.app().clone(), grant).await;
    running.stop().await;
    spoken?;
    Ok(Exit::Done)
}

/// As whom the host at the other end of the pipe calls.
async fn grant(running: &Running, token: Option<&str>) -> Result<Grant, Failure> {
    let first = running.first_tokens.as_ref().map(|tokens| tokens.agent.reveal());
    let Some(token) = token.or(first) else {
        return Err(Failure::new(Exit::Usage, "--stdio needs to know as whom the host calls")
            .next("Set ONCEWARD_TOKEN to an agent's token; `onceward token create --role agent` makes one."));
    };
    running
        .app()
        .authenticate(Some(&format!("Bearer {token}")))
        .await
        .map_err(|problem| Failure::new(Exit::Refused, format!("the token is not good: {}", problem.detail)))
}

fn first_line(running: &Running) -> String {
    let recovered = match running.recovered {
        0 => String::new(),
        1 => "1 operation of an earlier run had no answer yet; `onceward operations list --state unknown` shows it.\n"
            .to_owned(),
        many => format!(
            "{many} operations of an earlier run had no answer yet; `onceward operations list --state unknown` shows them.\n"
        ),
    };
    let proxies: String = running
        .proxies
        .iter()
        .map(|(name, address)| format!("The proxy for {name} is at http://{address}\n"))
        .collect();
    format!("The gateway listens on http://{}\n{recovered}{proxies}", running.address)
}

/// The tokens that this start made, with a configuration that asks for them.
fn tokens(running: &Running) -> String {
    let Some(FirstTokens { agent, operator }) = &running.first_tokens else { return String::new() };
    format!(
        "Two tokens were made. They are shown this once; the ledger keeps their hashes only.\n  agent     {}\n  operator  {}\n",
        agent.reveal(),
        operator.reveal()
    )
}

/// Beyond this machine the configuration has to say that there is one gateway only, and a flag cannot say it.
fn on_this_machine(address: SocketAddr) -> Result<SocketAddr, Failure> {
    if address.ip().is_loopback() {
        return Ok(address);
    }
    Err(Failure::new(Exit::Usage, format!("--listen {address} can be reached from other machines"))
        .not("The gateway was not started.")
        .next("Write it into the configuration, with single_instance = true."))
}

async fn start_sandbox() -> Result<sandbox::Running, sandbox::StartError> {
    let config = |port| SandboxConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], port)),
        database: PathBuf::from("sandbox.db"),
        contract: SandboxContract::default(),
        faults: Faults::none(),
    };
    match Sandbox::start(config(SANDBOX)).await {
        Err(sandbox::StartError::Listen { .. }) => Sandbox::start(config(0)).await,
        started => started,
    }
}

/// Why a gateway that served has ended by itself.
fn ended(error: StartError) -> Failure {
    match &error {
        StartError::WentBack(why) => Failure::new(Exit::Refused, error.to_string())
            .not("The gateway has ended. What it sent in the last seconds may be in neither ledger.")
            .next(after_going_back(why)),
        _ => refused(error),
    }
}

/// The way out for each reason why a ledger is not the one that it was.
const fn after_going_back(why: &WentBack) -> &'static str {
    match why {
        WentBack::Behind { .. } | WentBack::OtherLedger { .. } => {
            "Put the right ledger back. If this one is a backup that was restored, say of which time: `onceward restore --as-of TIME`; \
             then nothing that may have been sent since is sent again."
        }
        WentBack::LossyFailover { .. } => {
            "If it lost something, `onceward restore --as-of TIME`, TIME being of the last record that it surely has. If you have \
             made sure that it lost nothing, or take what it lost, write accept_lossy_failover = true."
        }
        WentBack::Unreadable { .. } => {
            "Put the mark back. Without it, `onceward restore --as-of TIME` says of which time the ledger is, and writes a new one."
        }
        WentBack::Unwritable { .. } => "Let this user write there, or name another place with ledger_mark.",
    }
}

fn mistakes(errors: &[ConfigError]) -> Failure {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    Failure::new(Exit::Failed, format!("the configuration has mistakes\n{}", lines.join("\n")))
        .not("The gateway was not started.")
}

fn refused(error: StartError) -> Failure {
    let (exit, next) = match &error {
        StartError::Locked(Locked::File { .. }) => {
            (Exit::Failed, "Make the ledger's folder, or name another one; the lock lies beside the ledger.")
        }
        StartError::Locked(Locked::Held { .. }) => (
            Exit::Refused,
            "Use the one that runs, or stop it first. Two gateways on two ledgers would not know of each other's calls.",
        ),
        StartError::Listen { .. } => (Exit::Failed, "Choose another address with --listen, or end what listens there."),
        StartError::WentBack(why) => (Exit::Refused, after_going_back(why)),
        StartError::NameClash(_) => {
            (Exit::Failed, "A call of that name could mean either tool, so give one of them another name.")
        }
        StartError::Open(_)
        | StartError::Database(_)
        | StartError::Ledger(_)
        | StartError::SelfTest
        | StartError::Issue(_)
        | StartError::Grant(_)
        | StartError::Name(_)
        | StartError::Pattern(_)
        | StartError::Signal(_) => (Exit::Failed, "Without a ledger that can be written nothing is dispatched."),
    };
    Failure::new(exit, error.to_string()).not("The gateway was not started, and nothing was sent.").next(next)
}
