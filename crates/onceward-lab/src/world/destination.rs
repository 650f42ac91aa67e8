//! A sandbox in a process of its own, asked by callers and by the auditor.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::http::{Ask, Http, NoReply, Reply};
use crate::process::Server;

/// A running `onceward sandbox`.
#[derive(Debug)]
pub(crate) struct SandboxProcess {
    server: Server,
    http: Http,
}

impl SandboxProcess {
    /// Starts one on a free port, with its file in this folder.
    ///
    /// # Errors
    /// When it does not start.
    pub(crate) async fn start(binary: &Path, folder: &Path, http: &Http) -> Result<Self> {
        Self::start_named(binary, folder, http, "sandbox", None).await
    }

    /// Starts one that speaks the interface of this contract's file; its own files have this name.
    ///
    /// # Errors
    /// When it does not start.
    pub(crate) async fn start_speaking(
        binary: &Path,
        folder: &Path,
        http: &Http,
        name: &str,
        contract: &Path,
    ) -> Result<Self> {
        Self::start_named(binary, folder, http, name, Some(contract)).await
    }

    async fn start_named(
        binary: &Path,
        folder: &Path,
        http: &Http,
        name: &str,
        contract: Option<&Path>,
    ) -> Result<Self> {
        let database = folder.join(format!("{name}.db"));
        let mut arguments = vec![
            "sandbox".as_ref(),
            "--listen".as_ref(),
            "127.0.0.1:0".as_ref(),
            "--db".as_ref(),
            database.as_os_str(),
        ];
        if let Some(contract) = contract {
            arguments.extend(["--contract".as_ref(), contract.as_os_str()]);
        }
        let server = Server::start(binary, &arguments, &folder.join(format!("{name}.log"))).await?;
        Ok(Self { server, http: http.clone() })
    }

    /// Every effect, of whatever kind: how many, and how many requests tried to make one.
    ///
    /// # Errors
    /// When the auditor is not answered.
    pub(crate) async fn everything(&self) -> Result<(i64, i64)> {
        let url = format!("{}/admin/effects", self.url());
        let audit = self.http.send(Ask::get(url)).await?.succeeded("an audit")?.body;
        let count = |field: &str| audit[field].as_i64().with_context(|| format!("the auditor gave no {field}"));
        Ok((count("count")?, count("requests")?))
    }

    /// Lets this go wrong with the next writes here, so many of them, and forgets what was programmed before. A path may end in
    /// `*`.
    ///
    /// # Errors
    /// When the fault has no such name.
    pub(crate) async fn break_writes(&self, path: &str, fault: &str, times: u64) -> Result<()> {
        self.mend().await?;
        let rules: Value = ["POST", "PUT"]
            .map(|method| json!({ "match": { "method": method, "path": path, "times": times }, "fault": fault }))
            .into_iter()
            .collect();
        self.http.send(Ask::post(format!("{}/admin/faults", self.url()), &rules)).await?.succeeded("a fault")?;
        Ok(())
    }

    /// What its clock shows.
    ///
    /// # Errors
    /// When the auditor is not answered.
    pub(crate) async fn now(&self) -> Result<jiff::Timestamp> {
        let clock = self.http.send(Ask::get(format!("{}/admin/clock", self.url()))).await?.succeeded("the clock")?.body;
        Ok(clock["now"].as_str().context("a clock without a time")?.parse()?)
    }

    /// Moves its clock forward.
    ///
    /// # Errors
    /// When the auditor is not answered.
    pub(crate) async fn advance_clock(&self, by: Duration) -> Result<()> {
        let ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        let ask = Ask::post(format!("{}/admin/clock", self.url()), &json!({ "advance_ms": ms }));
        self.http.send(ask).await?.succeeded("moving the clock")?;
        Ok(())
    }

    /// Nothing goes wrong any more.
    ///
    /// # Errors
    /// When the auditor is not answered.
    pub(crate) async fn mend(&self) -> Result<()> {
        let url = format!("{}/admin/faults", self.url());
        self.http.send(Ask::delete(url)).await?.succeeded("dropping the faults")?;
        Ok(())
    }

    /// Where it listens.
    #[must_use]
    pub(crate) fn url(&self) -> &str {
        self.server.url()
    }

    /// A caller's own request to make something, with headers.
    ///
    /// # Errors
    /// [`NoReply`]: the thing may have been made.
    pub(crate) async fn create(&self, path: &str, body: &Value, headers: &[(&str, &str)]) -> Result<Reply, NoReply> {
        let ask = Ask::post(format!("{}{path}", self.url()), body);
        self.http.send(headers.iter().fold(ask, |ask, (name, value)| ask.header(name, value))).await
    }

    /// A ticket as it is now, read by its id.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) async fn ticket(&self, id: &str) -> Result<Value> {
        let reply = self.http.send(Ask::get(format!("{}/tickets/{id}", self.url()))).await?;
        Ok(reply.succeeded("reading a ticket")?.body)
    }

    /// Somebody else closes a ticket.
    ///
    /// # Errors
    /// When there is no such ticket.
    pub(crate) async fn close_ticket(&self, id: &str) -> Result<()> {
        let url = format!("{}/tickets/{id}/close", self.url());
        self.http.send(Ask::post(url, &json!({}))).await?.succeeded("closing a ticket")?;
        Ok(())
    }

    /// How many tickets there really are.
    ///
    /// # Errors
    /// When the auditor is not answered.
    pub(crate) async fn tickets(&self) -> Result<i64> {
        self.audit("tickets").await?["count"].as_i64().context("the auditor gave no count")
    }

    /// Everything the auditor knows of one kind of thing.
    ///
    /// # Errors
    /// When the auditor is not answered.
    pub(crate) async fn audit(&self, resource: &str) -> Result<Value> {
        let url = format!("{}/admin/effects?resource={resource}", self.url());
        Ok(self.http.send(Ask::get(url)).await?.succeeded("an audit")?.body)
    }

    /// How many things of this kind one account really has.
    ///
    /// # Errors
    /// When the auditor is not answered.
    pub(crate) async fn count_of(&self, resource: &str, account: &str) -> Result<i64> {
        self.audit(&format!("{resource}&account={account}")).await?["count"]
            .as_i64()
            .context("the auditor gave no count")
    }

    /// Lets this go wrong with the next request to make something here, such as `/tickets`.
    ///
    /// # Errors
    /// When the fault has no such name.
    pub(crate) async fn break_next(&self, path: &str, fault: &str) -> Result<()> {
        let rules = json!([{ "match": { "path": path }, "fault": fault }]);
        self.http.send(Ask::post(format!("{}/admin/faults", self.url()), &rules)).await?.succeeded("a fault")?;
        Ok(())
    }

    /// Changes what a repeated key is worth.
    ///
    /// # Errors
    /// When a field has no such name or value.
    pub(crate) async fn promise(&self, changes: Value) -> Result<()> {
        self.http.send(Ask::put(format!("{}/admin/contract", self.url()), &changes)).await?.succeeded("a contract")?;
        Ok(())
    }

    /// Forgets everything it holds.
    ///
    /// # Errors
    /// When the auditor is not answered.
    pub(crate) async fn reset(&self) -> Result<()> {
        self.http.send(Ask::post(format!("{}/admin/reset", self.url()), &json!({}))).await?.succeeded("a reset")?;
        Ok(())
    }
}
