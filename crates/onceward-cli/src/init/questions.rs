//! A few questions, for whoever has no configuration to begin from.

use std::io::{BufRead, Write};

use toml::Table;

use super::openapi::{bearer, request};
use super::plan::{Api, Host, Plan, Reach, Server, Setting, name_of};
use crate::exit::{Exit, Failure};

/// Asks what is to be protected.
pub(super) fn ask(input: &mut impl BufRead, output: &mut impl Write) -> Result<Plan, Failure> {
    let mut ask = Asking { input, output };
    let kind = ask.choice(
        "What shall be safe to repeat?\n  1  tools of an MCP server that is a command\n  2  tools of an MCP server at an address\n  \
         3  an HTTP API\n  4  my own functions only",
        &["1", "2", "3", "4"],
    )?;
    let mut plan = Plan::default();
    let mcp = || Host::Mcp { member: "mcpServers", file: "your host's MCP configuration".to_owned() };
    match kind.as_str() {
        "1" => {
            let name = name_of(&ask.line("A short name for it", "tools")?);
            let words = ask.line("Its command, as you would type it", "")?;
            let words = shlex::split(&words).ok_or_else(|| {
                Failure::new(Exit::Usage, "the quotation marks of the command do not match").not("Nothing was written.")
            })?;
            plan.servers.push(server(name, Reach::Command { words, env: Default::default(), cwd: None }));
            plan.host = mcp();
        }
        "2" => {
            let name = name_of(&ask.line("A short name for it", "tools")?);
            let url = ask.line("Its address (Streamable HTTP)", "")?;
            let variable = ask.line("The variable that holds its bearer token; empty for none", "")?;
            let bearer = (!variable.is_empty()).then_some(Setting::Variable(variable));
            plan.servers.push(server(name, Reach::Url { url, bearer, headers: Default::default() }));
            plan.host = mcp();
        }
        "3" => plan.apis.push(api(&mut ask)?),
        _ => {}
    }
    let observe =
        ask.choice("Begin by only observing: record and forward, block nothing? (yes or no)", &["yes", "no"])?;
    plan.observe = observe == "yes";
    Ok(plan)
}

fn server(name: String, reach: Reach) -> Server {
    Server { name, reach, reads: Vec::new(), maybe_reads: Vec::new(), prefix: String::new(), refusals: None }
}

fn api<R: BufRead, W: Write>(ask: &mut Asking<'_, R, W>) -> Result<Api, Failure> {
    let name = name_of(&ask.line("A short name for it", "api")?);
    let url = ask.line("Its address, such as https://api.example.com/v1", "")?;
    let variable = ask.line("The variable that holds its bearer token; empty for none", "")?;
    let tool = name_of(&ask.line("The name of a tool that writes there", "create_thing")?);
    let path = ask.line("The path that it posts its arguments to", "/things")?;
    let mut table = Table::new();
    table.insert("request".to_owned(), request("POST", &path, [], "arguments".into()));
    let (auth, variable) = match variable.as_str() {
        "" => (None, None),
        name => (Some(bearer(name)), Some(name.to_owned())),
    };
    Ok(Api { name, url, contract: "none", auth, variable, tools: vec![(tool, table)] })
}

struct Asking<'a, R, W> {
    input: &'a mut R,
    output: &'a mut W,
}

impl<R: BufRead, W: Write> Asking<'_, R, W> {
    fn line(&mut self, question: &str, usual: &str) -> Result<String, Failure> {
        let shown = if usual.is_empty() { String::new() } else { format!(" [{usual}]") };
        let _ = write!(self.output, "{question}{shown}: ");
        let _ = self.output.flush();
        let mut answer = String::new();
        match self.input.read_line(&mut answer) {
            Ok(read) if read > 0 => {
                let answer = answer.trim();
                Ok(if answer.is_empty() { usual.to_owned() } else { answer.to_owned() })
            }
            Ok(_) | Err(_) => {
                Err(Failure::new(Exit::Usage, "there was no answer to the question").not("Nothing was written."))
            }
        }
    }

    fn choice(&mut self, question: &str, answers: &[&str]) -> Result<String, Failure> {
        loop {
            let answer = self.line(question, answers[0])?;
            if answers.contains(&answer.as_str()) {
                return Ok(answer);
            }
            let _ = writeln!(self.output, "Please answer with one of: {}.", answers.join(", "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(answers: &str) -> Result<String, String> {
        ask(&mut answers.as_bytes(), &mut Vec::new()).map(|plan| plan.to_toml()).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_few_answers_make_a_configuration() {
        let api = answered("3\nshop\nhttps://shop.example/v1\nSHOP_TOKEN\ncreate_order\n/orders\nyes\n").unwrap();
        for line in [
            "observe = true",
            "[destination.shop]",
            "bearer = \"env:SHOP_TOKEN\"",
            "[destination.shop.tool.create_order]",
        ] {
            assert!(api.contains(line), "{line} is not in\n{api}");
        }
        let command = answered("1\nnotes\nnpx -y server-memory\nno\n").unwrap();
        assert!(
            command.contains(r#"command = ["npx", "-y", "server-memory"]"#) && !command.contains("observe"),
            "{command}"
        );
        assert!(answered("4\nno\n").unwrap().contains("own functions"));
    }

    #[test]
    fn another_answer_is_asked_for_again_and_none_ends_it() {
        assert!(answered("x\n4\nno\n").is_ok());
        assert!(answered("3\nshop\n").unwrap_err().contains("no answer"));
    }
}
