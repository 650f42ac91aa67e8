//! `onceward init`: a first configuration, from what a host or an API description already says.
//!
//! Everything becomes a write unless it plainly reads: a read that is taken for a write costs a record, a write that is taken for a
//! read is done twice.

mod host;
mod openapi;
mod plan;
mod questions;
mod reads;
mod schema;
mod secrets;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap::Args;
use onceward_gateway::check::{Report, check};

use self::plan::Plan;
use crate::exit::{Exit, Failure};

/// Write a first onceward.toml from a host's MCP configuration, an OpenAPI file, or a few questions
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// A host's MCP configuration: .mcp.json, claude_desktop_config.json, .cursor/mcp.json, .vscode/mcp.json. Without this and without
    /// --from-openapi one of these is looked for here, and else you are asked
    #[arg(long, value_name = "FILE", conflicts_with = "from_openapi")]
    from_mcp: Option<PathBuf>,
    /// An OpenAPI description (JSON or YAML); its writing operations become tools
    #[arg(long, value_name = "FILE")]
    from_openapi: Option<PathBuf>,
    /// With --from-openapi: where the API is, instead of what the description says
    #[arg(long, value_name = "URL", requires = "from_openapi")]
    url: Option<String>,
    /// Where to write
    #[arg(long, value_name = "PATH", default_value = "onceward.toml")]
    output: PathBuf,
    /// Begin with observe mode: record and forward, block nothing
    #[arg(long)]
    observe: bool,
    /// Do not start or connect to MCP servers to learn which of their tools plainly read; then all of them count as writing
    #[arg(long)]
    offline: bool,
    /// Replace a file that is there; it is kept beside it, as PATH.old
    #[arg(long)]
    force: bool,
}

/// Where hosts keep their MCP configuration, below a project's folder.
const HOST_FILES: [&str; 4] = [".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json", "claude_desktop_config.json"];

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    if arguments.output.exists() && !arguments.force {
        let what = format!("{} is there already", arguments.output.display());
        return Err(Failure::new(Exit::Refused, what)
            .not("Nothing was written.")
            .next("Name another file with --output, or replace it with --force."));
    }
    let folder = folder_of(&arguments.output);
    let mut plan = source(&arguments)?;
    plan.observe |= arguments.observe;
    // Secrets lie in files first, so that the servers can be asked, and the configuration is whole when it is written.
    let kept = secrets::keep(&plan, folder)?;
    let offline = if arguments.offline { reads::Asked::No } else { reads::ask(&mut plan, folder).await };
    let text = plan.to_toml();
    if arguments.output.exists() {
        // What was added to it by hand is not lost.
        let old = old_of(&arguments.output);
        std::fs::rename(&arguments.output, &old).map_err(|error| cannot_write(&old, &error))?;
        say!("Kept the file that was there as {}.", old.display());
    }
    secrets::write(&arguments.output, text.as_bytes()).map_err(|error| cannot_write(&arguments.output, &error))?;
    tell(&arguments, &plan, &kept, &offline)
}

/// From where the configuration is made.
fn source(arguments: &Arguments) -> Result<Plan, Failure> {
    if let Some(file) = &arguments.from_openapi {
        return openapi::plan(&read(file)?, file, arguments.url.as_deref());
    }
    let found = || HOST_FILES.iter().map(PathBuf::from).find(|file| file.is_file());
    match arguments.from_mcp.clone().or_else(found) {
        Some(file) => {
            eprintln!("reading {}", file.display());
            host::plan(&read(&file)?, &file)
        }
        None if std::io::stdin().is_terminal() => questions::ask(&mut std::io::stdin().lock(), &mut std::io::stderr()),
        None => Err(Failure::new(Exit::Usage, "there is no host's MCP configuration here, and nobody can be asked")
            .not("Nothing was written.")
            .next("Name one with --from-mcp FILE, or an API's description with --from-openapi FILE.")),
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| {
        Failure::new(Exit::Failed, format!("{} cannot be read: {error}", file.display())).not("Nothing was written.")
    })
}

fn cannot_write(file: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("{} cannot be written: {error}", file.display()))
}

fn old_of(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".old");
    name.into()
}

fn folder_of(output: &Path) -> &Path {
    output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Says what was written, what it comes to, and what is left to do.
fn tell(arguments: &Arguments, plan: &Plan, kept: &[String], asked: &reads::Asked) -> Result<Exit, Failure> {
    let output = arguments.output.display();
    say!("Wrote {output}.");
    for file in kept {
        let file = folder_of(&arguments.output).join(file);
        say!("Wrote {} (mode 0600): a secret that stood in the host's configuration.", file.display());
    }
    for note in plan.notes.iter().chain(asked.notes()) {
        say!("Note: {note}");
    }
    let report = check(&arguments.output);
    say!("\n{}", report.to_string().trim_end());
    let missing = plan.missing_variables();
    if !missing.is_empty() {
        let then = if plan.servers.is_empty() {
            ""
        } else {
            " Then run init once more with --force: it asks the servers only once they are set."
        };
        say!("\nSet before it starts: {}.{then}", missing.join(", "));
    }
    say!("\n{}", plan.next_steps(&arguments.output));
    // What is only unset is named above; anything else is a mistake, also beside it.
    let only_unset = match &report {
        Report::Whole(_) => true,
        Report::Mistakes(mistakes) => {
            mistakes.iter().all(|mistake| missing.iter().any(|name| mistake.problem.contains(name)))
        }
    };
    match only_unset {
        true => Ok(Exit::Done),
        false => Err(Failure::new(Exit::Failed, format!("{output} has mistakes, which are named above"))
            .next("Correct them and run `onceward check`.")),
    }
}
