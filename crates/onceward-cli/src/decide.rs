//! `onceward decide`: what can be decided about an operation, and a person's decision.

use std::fs::File;
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::client::{Connection, segment};
use crate::exit::{Exit, Failure};
use crate::limits::HASHED_AT_ONCE;
use crate::{json_input, operations};

/// Show what can be decided about an operation and what follows; with --choice, decide. Needs an operator's token
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The operation id
    id: String,
    /// What is decided; without it the choices are shown, and nothing is changed
    #[arg(long, value_enum)]
    choice: Option<Choice>,
    /// On what kind of knowledge it rests, such as seen_at_destination; the choices say which carry them
    #[arg(long, value_name = "REASON", requires = "choice")]
    reason: Option<String>,
    /// What was looked at, where, and what was found
    #[arg(long, value_name = "TEXT", requires = "choice")]
    evidence: Option<String>,
    /// A file that shows it: its SHA-256 is recorded, and the file is yours to keep
    #[arg(long, value_name = "PATH", requires = "choice")]
    evidence_file: Option<PathBuf>,
    /// With confirmed_done: the destination's name of the effect, such as T-1001
    #[arg(long, value_name = "ID", requires = "choice")]
    effect_id: Option<String>,
    /// With confirmed_done and refused: what repetitions of the call are given, as JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", requires = "choice")]
    receipt: Option<String>,
    /// With superseded_by: the operation that replaces it
    #[arg(long, value_name = "ID", requires = "choice")]
    superseded_by: Option<String>,
    /// With wait: until when an automatic check is put off, in RFC 3339
    #[arg(long, value_name = "TIME", requires = "choice")]
    until: Option<String>,
    /// Do not ask before deciding
    #[arg(long, requires = "choice")]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// What is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Choice {
    /// It was done: repetitions get the receipt given here, nothing is sent again
    ConfirmedDone,
    /// It was not done and stays so: repetitions are told, nothing is sent again
    ConfirmedNotDone,
    /// It was not done, and the next call is sent. If it had been done after all, this may make a second effect
    DispatchAgain,
    /// What the destination answered is a refusal: repetitions get that answer
    Refused,
    /// Another operation replaces it; whether it was done is not established
    SupersededBy,
    /// Nothing yet: somebody has looked
    Wait,
    /// The evidence against what is recorded was seen, and the record stands
    Acknowledge,
}

impl Choice {
    const fn name(self) -> &'static str {
        match self {
            Self::ConfirmedDone => "confirmed_done",
            Self::ConfirmedNotDone => "confirmed_not_done",
            Self::DispatchAgain => "dispatch_again",
            Self::Refused => "refused",
            Self::SupersededBy => "superseded_by",
            Self::Wait => "wait",
            Self::Acknowledge => "acknowledge",
        }
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let prepared = arguments.choice.map(|choice| prepared(choice, &arguments)).transpose()?;
    let path = format!("/v1/operations/{}/decisions", segment(&arguments.id));
    let gateway = arguments.connection.open()?;
    let choices = gateway.get(&path).await?.succeeded()?;
    let Some((choice, mut decision)) = prepared else {
        match arguments.json {
            true => say!("{choices:#}"),
            false => say!("{}", shown(&choices)),
        }
        return Ok(Exit::Done);
    };
    let offer = offer(&choices, choice)?;
    if !arguments.yes {
        confirmed(offer)?;
    }
    decision["expected"] = choices["version"].clone();
    let after = gateway.post(&path, &decision).await?.succeeded()?;
    operations::print_shown(&after, arguments.json);
    Ok(Exit::Done)
}

/// The decision as it is sent, without the version that it is about. What is missing is said before anything is asked.
fn prepared(choice: Choice, arguments: &Arguments) -> Result<(Choice, Value), Failure> {
    let missing = |what: &str, next: &str| Failure::new(Exit::Usage, what).not("Nothing was decided.").next(next);
    let Some(reason) = &arguments.reason else {
        return Err(missing(
            "a decision needs --reason: the kind of knowledge that it rests on",
            "`onceward decide ID` without --choice shows which reasons carry each choice.",
        ));
    };
    if arguments.evidence.is_none() && arguments.evidence_file.is_none() {
        return Err(missing(
            "a decision needs --evidence or --evidence-file",
            "Say what was looked at, where, and what was found.",
        ));
    }
    let mut body = json!({ "choice": choice.name(), "reason": reason });
    let fields = [
        ("evidence", &arguments.evidence),
        ("effect_id", &arguments.effect_id),
        ("superseded_by", &arguments.superseded_by),
        ("until", &arguments.until),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            body[name] = value.as_str().into();
        }
    }
    if let Some(path) = &arguments.evidence_file {
        body["evidence_file"] = hash(path)?.into();
    }
    if let Some(receipt) = &arguments.receipt {
        body["receipt"] = match choice {
            Choice::Refused => json!({ "status": 422, "body": json_input::read(receipt)?.value() }),
            Choice::ConfirmedDone
            | Choice::ConfirmedNotDone
            | Choice::DispatchAgain
            | Choice::SupersededBy
            | Choice::Wait
            | Choice::Acknowledge => json!({ "body": json_input::read(receipt)?.value() }),
        };
    }
    Ok((choice, body))
}

/// The SHA-256 of a file, however large it is.
fn hash(path: &Path) -> Result<String, Failure> {
    let unreadable = |error: std::io::Error| {
        Failure::new(Exit::Usage, format!("the evidence file {} cannot be read: {error}", path.display()))
            .not("Nothing was decided.")
    };
    let mut file = File::open(path).map_err(unreadable)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; HASHED_AT_ONCE];
    loop {
        match file.read(&mut buffer).map_err(unreadable)? {
            0 => break,
            read => hash.update(&buffer[..read]),
        }
    }
    Ok(format!("sha256:{}", onceward_core::hex::encode(&hash.finalize())))
}

/// What is offered of this choice, if it is legal.
pub(crate) fn offer(choices: &Value, choice: Choice) -> Result<&Value, Failure> {
    let offers = choices["choices"].as_array().into_iter().flatten();
    let offer = offers.into_iter().find(|offer| offer["choice"] == choice.name()).ok_or_else(|| {
        Failure::new(Exit::Failed, format!("the gateway does not know the choice {}", choice.name()))
            .not("Nothing was decided.")
    })?;
    if offer["legal"] == true {
        return Ok(offer);
    }
    let because = offer["because"].as_str().unwrap_or("it is not legal where the operation stands");
    Err(Failure::new(Exit::Refused, format!("{} is not legal: {because}", choice.name()))
        .not("Nothing was decided.")
        .next("`onceward decide ID` shows what is."))
}

/// Shows the consequence and asks. Whoever cannot be asked must say so beforehand.
pub(crate) fn confirmed(offer: &Value) -> Result<(), Failure> {
    let unasked = |what: &str| Failure::new(Exit::Usage, what.to_owned()).not("Nothing was decided.");
    if !std::io::stdin().is_terminal() {
        return Err(
            unasked("nobody can be asked here whether this is meant").next("Say --yes to decide without being asked.")
        );
    }
    eprintln!("{}\n", offer["consequence"].as_str().unwrap_or_default());
    eprint!("Decide so? Type yes: ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    match std::io::stdin().read_line(&mut answer) {
        Ok(_) if answer.trim() == "yes" => Ok(()),
        Ok(_) | Err(_) => Err(Failure::new(Exit::Refused, "it was not confirmed").not("Nothing was decided.")),
    }
}

/// What can be decided, in lines.
fn shown(choices: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut lines = vec![format!(
        "{} is {} (version {})",
        text(&choices["operation_id"]),
        text(&choices["state"]),
        choices["version"]
    )];
    if let Some(title) = choices["title"].as_str() {
        lines.push(title.to_owned());
    }
    if let Some(kind) = choices["disagreement"]["kind"].as_str() {
        let seen = match choices["disagreement"]["acknowledged_at"].as_str() {
            Some(at) => format!("seen by a person at {at}"),
            None => "nobody has seen it yet".to_owned(),
        };
        lines.push(format!("Evidence contradicts what is recorded: {kind}; {seen}."));
    }
    lines.push(format!("If nobody decides: {}", text(&choices["otherwise"])));
    if let Some(at) = choices["irreversible_at"].as_str() {
        lines.push(format!("The destination recognises its key until {at}; after that this way out is closed."));
    }
    for offer in choices["choices"].as_array().into_iter().flatten() {
        lines.push(String::new());
        match offer["legal"] == true {
            true => {
                let needs: String =
                    list(&offer["needs"]).iter().map(|need| format!(" --{}", need.replace('_', "-"))).collect();
                lines.push(format!("  --choice {}{needs}", text(&offer["choice"])));
                lines.push(format!("      {}", text(&offer["consequence"])));
                lines.push(format!("      reasons: {}", list(&offer["reasons"]).join(", ")));
            }
            false => lines.push(format!("  {}: not now; {}", text(&offer["choice"]), text(&offer["because"]))),
        }
    }
    lines.join("\n")
}

fn list(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|one| one.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choices_are_those_of_the_rules() {
        let mine: Vec<_> = Choice::value_variants().iter().map(|choice| choice.name()).collect();
        let rules: Vec<_> = onceward_core::decision::ChoiceKind::ALL.iter().map(|choice| choice.name()).collect();
        assert_eq!(mine, rules);
    }

    #[test]
    fn a_choice_that_is_not_legal_is_refused_with_the_reason_before_anything_is_sent() {
        let choices = json!({ "choices": [
            { "choice": "wait", "legal": true, "consequence": "Nothing moves." },
            { "choice": "dispatch_again", "legal": false, "because": "it is settled" },
        ]});
        assert!(offer(&choices, Choice::Wait).is_ok());
        let refused = offer(&choices, Choice::DispatchAgain).unwrap_err();
        assert!(refused.exit == Exit::Refused && refused.to_string().contains("it is settled"), "{refused}");
        let text = shown(&choices);
        assert!(text.contains("Nothing moves.") && text.contains("not now; it is settled"), "{text}");
    }

    #[test]
    fn a_file_is_named_by_its_hash() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        let abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash(file.path()).unwrap(), abc);
        assert!(hash(Path::new("no such file")).is_err());
    }
}
