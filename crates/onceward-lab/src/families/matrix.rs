//! Plays the matrix and prints it.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use futures_util::future::try_join_all;

use super::expected::expected;
use super::family::{FAMILIES, Family};
use super::situation::{Cell, Play, Situation, callers};
use crate::http::Http;
use crate::table::Table;
use crate::world::{Caller, Configuration, GatewayProcess, Home, SandboxProcess};

/// What a run is started with.
#[derive(Debug, Clone)]
pub struct MatrixOptions {
    /// The `onceward` binary whose processes are played with.
    pub binary: PathBuf,
    /// How much of it.
    pub subset: Subset,
}

/// How much of the matrix is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subset {
    /// All of it.
    Whole,
    /// Four contracts, one of each kind, in the situations that take no time.
    OneOfEachKind,
}

impl Subset {
    fn families(self) -> Vec<&'static Family> {
        let wanted = |family: &&Family| match self {
            Self::Whole => true,
            Self::OneOfEachKind => {
                ["stripe.v1", "acp.checkout + atomic", "generic.lookup_only", "none"].contains(&family.name)
            }
        };
        FAMILIES.iter().filter(wanted).collect()
    }

    fn situations(self) -> Vec<Situation> {
        let wanted = |situation: &Situation| match (self, situation) {
            (Self::Whole, _) => true,
            (
                Self::OneOfEachKind,
                Situation::LostReply
                | Situation::Crash
                | Situation::ErrorAfterCommit
                | Situation::Malformed
                | Situation::Mismatch,
            ) => true,
            (
                Self::OneOfEachKind,
                Situation::LostRequest
                | Situation::ErrorRolledBack
                | Situation::InFlight
                | Situation::AlreadyExists
                | Situation::Unacceptable
                | Situation::LateAnswer,
            ) => false,
        };
        Situation::ALL.into_iter().filter(wanted).collect()
    }
}

/// What came out.
#[derive(Debug)]
pub struct Matrix {
    rows: Vec<Row>,
    situations: Vec<Situation>,
}

#[derive(Debug)]
struct Row {
    family: &'static str,
    cells: Vec<Option<(Cell, &'static str)>>,
}

impl Matrix {
    /// How many cells were played.
    #[must_use]
    pub fn played(&self) -> usize {
        self.rows.iter().flat_map(|row| &row.cells).flatten().count()
    }

    /// What is not as it must be, one line each.
    #[must_use]
    pub fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for row in &self.rows {
            for (situation, cell) in self.situations.iter().zip(&row.cells) {
                if let Some((found, must)) = cell
                    && found.to_string() != *must
                {
                    wrong.push(format!("{}, {}: {found}, and must be {must}", row.family, situation.name()));
                }
            }
        }
        wrong
    }
}

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head: Vec<&str> = std::iter::once("contract").chain(self.situations.iter().map(|one| one.name())).collect();
        let mut table = Table::new(&head);
        for row in &self.rows {
            let cells = row.cells.iter().map(|cell| cell.as_ref().map_or(String::new(), |(cell, _)| cell.to_string()));
            let line: Vec<String> = std::iter::once(row.family.to_owned()).chain(cells).collect();
            table.row(&line.iter().map(String::as_str).collect::<Vec<_>>());
        }
        writeln!(f, "{table}")?;
        write!(
            f,
            "first answer>answer to a repetition, effects; ! is a disagreement that an operator sees; empty: does not exist there"
        )
    }
}

/// The processes of a run.
struct Stage<'a> {
    families: Vec<(&'a Family, SandboxProcess)>,
    gateway: GatewayProcess,
    agent: Caller,
    operator: Caller,
}

/// Plays the matrix: situation by situation, all contracts at once.
///
/// # Errors
/// When a process does not start or something that must come does not come.
pub async fn play(options: &MatrixOptions) -> Result<Matrix> {
    play_on(options, None).await
}

/// The same with a ledger that lies there, if it is said where.
pub(crate) async fn play_on(options: &MatrixOptions, ledger: Option<&Home>) -> Result<Matrix> {
    let folder = tempfile::tempdir()?;
    let ledger = ledger.cloned().unwrap_or_else(|| Home::file(folder.path()));
    let mut stage = Stage::start(options, folder.path(), ledger).await?;
    let situations = options.subset.situations();
    let mut rows: Vec<Row> =
        stage.families.iter().map(|(family, _)| Row { family: family.name, cells: Vec::new() }).collect();
    for situation in situations.iter().copied() {
        let cells;
        (stage, cells) = match situation {
            Situation::Crash => stage.crash().await?,
            _ => stage.play(situation).await?,
        };
        for (row, cell) in rows.iter_mut().zip(cells) {
            row.cells.push(cell.and_then(|cell| Some((cell, expected(row.family, situation)?))));
        }
    }
    Ok(Matrix { rows, situations })
}

impl<'a> Stage<'a> {
    async fn start(options: &MatrixOptions, folder: &Path, ledger: Home) -> Result<Self> {
        let http = Http::new()?;
        let token = folder.join("token");
        std::fs::write(&token, "sk_test_acme\n")?;
        let mut tables = String::new();
        let mut families = Vec::new();
        for family in options.subset.families() {
            let slug = family.slug();
            let contract = folder.join(format!("{slug}.toml"));
            std::fs::write(&contract, family.contract()?)?;
            let sandbox = SandboxProcess::start_speaking(&options.binary, folder, &http, &slug, &contract).await?;
            tables.push_str(&family.tables(sandbox.url(), &contract, &token)?);
            families.push((family, sandbox));
        }
        let configuration = Configuration::of_tables(tables);
        let gateway = GatewayProcess::start_on(&options.binary, folder, ledger, &configuration, &http).await?;
        let (agent, operator) = callers(&gateway).await?;
        Ok(Self { families, gateway, agent, operator })
    }

    fn plays(&self, situation: Situation) -> Vec<Option<Play<'_>>> {
        self.families.iter().map(|(family, sandbox)| Some(Play { family, sandbox, situation })).collect()
    }

    async fn play(self, situation: Situation) -> Result<(Self, Vec<Option<Cell>>)> {
        let plays = self.plays(situation);
        let cells = try_join_all(plays.iter().map(async |play| match play {
            Some(play) => play.play(&self.agent, &self.operator).await.map(Some),
            None => Ok(None),
        }))
        .await?;
        drop(plays);
        Ok((self, cells))
    }

    async fn crash(self) -> Result<(Self, Vec<Option<Cell>>)> {
        let begun = try_join_all(self.plays(Situation::Crash).iter().map(async |play| match play {
            Some(play) => play.begin(&self.agent).await.map(Some),
            None => Ok(None),
        }))
        .await?;
        let gateway = self.gateway.kill().await?.start().await?;
        let (agent, operator) = (gateway.again(&self.agent), gateway.again(&self.operator));
        let stage = Self { families: self.families, gateway, agent, operator };
        let plays = stage.plays(Situation::Crash);
        let cells = try_join_all(plays.iter().zip(begun).map(async |(play, begun)| match (play, begun) {
            (Some(play), Some(begun)) => play.end(&stage.agent, &stage.operator, begun).await.map(Some),
            (_, _) => Ok(None),
        }))
        .await?;
        drop(plays);
        Ok((stage, cells))
    }
}
