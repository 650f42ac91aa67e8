//! The `onceward` binary: one file per command, and nothing decided in any of them.

#[macro_use]
mod output;

mod approvals;
mod approve;
mod call;
mod check;
mod client;
mod contracts;
mod decide;
mod demo;
mod exit;
mod explain;
mod init;
mod json_input;
mod lab;
mod limits;
mod log;
mod lookup;
mod operations;
mod purge;
mod report;
mod restore;
mod sandbox;
mod serve;
mod token;
mod tools;
mod withdraw;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::exit::{Exit, Failure};

/// Makes the writes of AI agents safe to repeat.
///
/// An agent asks a tool to write something: a ticket, an order, a payment. The write happens, the reply is lost, and the
/// agent tries again. Onceward stands between the agent and the tools, knows each approved operation by one identity, and
/// gives every repetition the receipt of the first execution, or an honest "unknown" that nobody runs again.
#[derive(Parser, Debug)]
#[command(name = "onceward", version, after_help = START_HERE)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
}

const START_HERE: &str = "\
Start here:
  onceward demo      see the problem and the answer, in under a minute
  onceward init      a first onceward.toml, from a host's MCP configuration, an OpenAPI file or a few questions
  onceward serve     a gateway with tools to try, its tokens, and a first call to copy

Exit codes: 0 done · 1 failed · 2 usage · 3 not settled (it may have happened, runs, or waits for a person)
            4 refused · 5 nothing was sent, the same may be tried again.   docs/cli.md has more.";

#[derive(Subcommand, Debug)]
enum Command {
    Demo(demo::Arguments),
    Init(init::Arguments),
    Serve(serve::Arguments),
    Check(check::Arguments),
    Call(call::Arguments),
    Operations(operations::Arguments),
    Lookup(lookup::Arguments),
    Decide(decide::Arguments),
    Approve(approve::Arguments),
    Approvals(approvals::Arguments),
    Withdraw(withdraw::Arguments),
    Purge(purge::Arguments),
    Report(report::Arguments),
    Restore(restore::Arguments),
    Token(token::Arguments),
    Tools(tools::Arguments),
    Explain(explain::Arguments),
    Contracts(contracts::Arguments),
    Sandbox(sandbox::Arguments),
    Lab(lab::Arguments),
}

fn main() -> ExitCode {
    let Some(command) = CommandLine::parse().command else {
        // A newcomer who types the bare name asks what this is; that is no mistake.
        return match CommandLine::command().print_long_help() {
            Ok(()) => Exit::Done.into(),
            Err(_) => Exit::Failed.into(),
        };
    };
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("onceward: the system gives no threads: {error}");
            return Exit::Failed.into();
        }
    };
    match runtime.block_on(run(command)) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit.into()
        }
    }
}

async fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Demo(arguments) => demo::run(arguments).await,
        Command::Init(arguments) => init::run(arguments).await,
        Command::Serve(arguments) => serve::run(arguments).await,
        Command::Check(arguments) => check::run(&arguments),
        Command::Call(arguments) => call::run(arguments).await,
        Command::Operations(arguments) => operations::run(arguments).await,
        Command::Lookup(arguments) => lookup::run(arguments).await,
        Command::Decide(arguments) => decide::run(arguments).await,
        Command::Approve(arguments) => approve::run(arguments).await,
        Command::Approvals(arguments) => approvals::run(arguments).await,
        Command::Withdraw(arguments) => withdraw::run(arguments).await,
        Command::Purge(arguments) => purge::run(arguments).await,
        Command::Report(arguments) => report::run(arguments).await,
        Command::Restore(arguments) => restore::run(arguments).await,
        Command::Token(arguments) => token::run(arguments).await,
        Command::Tools(arguments) => tools::run(arguments).await,
        Command::Explain(arguments) => explain::run(arguments).await,
        Command::Contracts(arguments) => contracts::run(&arguments),
        Command::Sandbox(arguments) => sandbox::run(arguments).await,
        Command::Lab(arguments) => lab::run(arguments).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn every_command_says_in_one_line_what_it_is_for() {
        for command in CommandLine::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
        }
    }

    #[test]
    fn the_document_has_every_command_and_every_exit_code() {
        let document = include_str!("../../../docs/cli.md");
        for command in CommandLine::command().get_subcommands() {
            let words = match command.get_subcommands().map(clap::Command::get_name).collect::<Vec<_>>().as_slice() {
                [] => vec![command.get_name().to_owned()],
                inner => inner.iter().map(|name| format!("{} {name}", command.get_name())).collect(),
            };
            for words in words {
                assert!(document.contains(&format!("| `{words}")), "`{words}` is not in docs/cli.md");
            }
        }
        for exit in [Exit::Done, Exit::Failed, Exit::Usage, Exit::Unresolved, Exit::Refused, Exit::Unreachable] {
            assert!(document.contains(&format!("| {} |", exit.number())), "{exit:?} is not in docs/cli.md");
        }
    }
}
