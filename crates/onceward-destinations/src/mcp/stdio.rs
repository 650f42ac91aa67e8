//! A server that is a child process: one message a line, on its standard input and output.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use onceward_core::time::Timestamp;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};

use super::link::{Exchanged, Late, Lost, MayBeSent, Outgoing, Watcher};
use super::message::{self, Incoming, Reply};
use super::setting::Setting;
use crate::limits::{
    CHILD_DRAIN, CHILD_EXIT_PATIENCE, CHILD_LOOKS, MCP_LATE_MAX, MCP_LOG_LINE_BYTES_MAX, MCP_MESSAGE_BYTES_MAX,
    MCP_WRITES_AHEAD,
};

/// What a child is started with.
#[derive(Debug)]
pub(crate) struct Program {
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// Variables beside the few that every child gets.
    pub(crate) env: Vec<(String, Setting)>,
    /// The folder that it starts in.
    pub(crate) cwd: PathBuf,
}

/// Variables of ours that a child gets: what a program needs to run at all. Everything else may be a secret of another
/// destination.
const PASSED_ON: [&str; 12] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "TERM",
    "TMPDIR",
    "TZ",
    "XDG_CACHE_HOME",
    "SSL_CERT_FILE",
];

/// The requests that wait for a reply, or are given up and may still get one. Closed for good when the child's output ends.
#[derive(Debug, Default)]
struct Pending {
    waiting: HashMap<u64, Waiting>,
    closed: bool,
}

struct Waiting {
    reply: oneshot::Sender<Reply>,
    watcher: Option<Watcher>,
    late: Option<Late>,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waiting")
    }
}

type SharedPending = Arc<Mutex<Pending>>;

/// A line on its way to the child.
struct Line {
    bytes: Vec<u8>,
    may_be_sent: MayBeSent,
    written: oneshot::Sender<Written>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Whole,
    /// It was too late when its turn came; not a byte of it left.
    TooLate,
    Broken,
}

/// Our end of the pipes.
#[derive(Clone, Debug)]
pub(crate) struct StdioLink {
    /// When the child was started, which is its name.
    pub(crate) started_at: Timestamp,
    lines: mpsc::Sender<Line>,
    pending: SharedPending,
}

/// A child that runs, and what serves its pipes until it ends.
pub(crate) struct Running {
    child: Child,
    group: Group,
    input: ChildStdin,
    output: ChildStdout,
    errors: ChildStderr,
    lines: mpsc::Receiver<Line>,
    back: mpsc::Sender<Line>,
    pending: SharedPending,
}

/// The child's process group. Dropped with the child still in it, as when the gateway ends, it takes the group along.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Starts the child.
///
/// # Errors
/// The program cannot be started; nothing runs.
pub(crate) fn start(program: &Program, started_at: Timestamp) -> std::io::Result<(StdioLink, Running)> {
    let (name, arguments) = program.command.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(name);
    command.args(arguments).current_dir(&program.cwd).env_clear();
    for name in PASSED_ON {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    for (name, value) in &program.env {
        command.env(name, value.expose());
    }
    // A group of its own: starters like npx leave the server as a grandchild, which must end with them. It also keeps Ctrl-C
    // in our terminal from ending the server before its calls are settled.
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let group = Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
    let missing = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
    let input = child.stdin.take().ok_or_else(missing)?;
    let output = child.stdout.take().ok_or_else(missing)?;
    let errors = child.stderr.take().ok_or_else(missing)?;
    let (sender, lines) = mpsc::channel(MCP_WRITES_AHEAD);
    let pending = SharedPending::default();
    let link = StdioLink { started_at, lines: sender.clone(), pending: Arc::clone(&pending) };
    Ok((link, Running { child, group, input, output, errors, lines, back: sender, pending }))
}

impl StdioLink {
    /// Sends a request once and waits for its reply.
    pub(crate) async fn exchange(&self, outgoing: Outgoing<'_>) -> Exchanged {
        let Outgoing { id, message, may_be_sent, within, watcher, late, .. } = outgoing;
        let (reply, replied) = oneshot::channel();
        {
            let mut pending = lock(&self.pending);
            if pending.closed {
                return Exchanged::NoConnection;
            }
            pending.waiting.insert(id, Waiting { reply, watcher, late });
        }
        let mut given_up = GiveUp { pending: &self.pending, id, may_be_answered: true };
        let (written, was_written) = oneshot::channel();
        let line = Line { bytes: line_of(message), may_be_sent, written };
        match tokio::time::timeout(within, self.lines.send(line)).await {
            Ok(Ok(())) => {}
            // It never left this process.
            Ok(Err(_)) | Err(_) => {
                given_up.may_be_answered = false;
                return Exchanged::NoConnection;
            }
        }
        let answered = async {
            match was_written.await {
                Ok(Written::Whole) => {}
                Ok(Written::TooLate) => return Exchanged::TooLate,
                Ok(Written::Broken) => return Exchanged::Lost(Lost::WriteFailed),
                // The writer ended with the line in its hands, or in its queue: nobody can tell.
                Err(_) => return Exchanged::Lost(Lost::Ended),
            }
            match replied.await {
                Ok(reply) => Exchanged::Replied(reply),
                Err(_) => Exchanged::Lost(Lost::Ended),
            }
        };
        let exchanged = tokio::time::timeout(within, answered).await;
        given_up.may_be_answered = exchanged.is_err();
        exchanged.unwrap_or(Exchanged::Lost(Lost::TimedOut))
    }

    /// Tells the server something; whether it listens changes nothing.
    pub(crate) async fn tell(&self, message: &Value) {
        let (written, _) = oneshot::channel();
        let _ = self.lines.send(Line { bytes: line_of(message), may_be_sent: Box::new(|| true), written }).await;
    }
}

/// Takes a request out of those that wait when its call is over, whichever way; unless its answer may come late, and somebody
/// wants to hear it.
struct GiveUp<'a> {
    pending: &'a SharedPending,
    id: u64,
    may_be_answered: bool,
}

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        let mut pending = lock(self.pending);
        let is_awaited = pending.waiting.get(&self.id).is_some_and(|waiting| waiting.late.is_some());
        if !(self.may_be_answered && is_awaited) {
            pending.waiting.remove(&self.id);
        }
        // A child that never answers is not remembered for ever.
        let given_up = |waiting: &Waiting| waiting.reply.is_closed();
        if pending.waiting.values().filter(|waiting| given_up(waiting)).count() > MCP_LATE_MAX {
            let oldest = pending.waiting.iter().filter(|(_, waiting)| given_up(waiting)).map(|(id, _)| *id).min();
            oldest.map(|id| pending.waiting.remove(&id));
        }
    }
}

impl Running {
    /// Serves the pipes until the child ends or breaks them, or `end_it` comes; then ends what is left of it. After this it is
    /// surely gone, if [`Gone::Surely`] says so: nothing that it was told can still happen.
    pub(crate) async fn serve(
        self,
        name: &str,
        notices: &(dyn Fn(&str, &Value) + Send + Sync),
        end_it: oneshot::Receiver<()>,
    ) -> Gone {
        let Self { mut child, group, input, output, errors, lines, back, pending } = self;
        let reader = read(name, output, &pending, &back, notices);
        tokio::pin!(reader);
        tokio::select! {
            () = &mut reader => tracing::warn!(server = name, "the server closed its output"),
            () = write(input, lines) => tracing::warn!(server = name, "the server closed its input"),
            () = log(name, errors) => {}
            // Sent or dropped, it means the same.
            _ = end_it => {}
            status = child.wait() => {
                tracing::warn!(server = name, ?status, "the server ended");
                // What it answered before it ended still lies in the pipe.
                let _ = tokio::time::timeout(CHILD_DRAIN, &mut reader).await;
            }
        }
        close(&pending);
        end(&mut child, group).await
    }
}

/// Whether a child and all that it started are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    Surely,
    Perhaps,
}

/// Ends the child and its group, and looks whether it worked.
async fn end(child: &mut Child, mut group: Group) -> Gone {
    // From here on the name is not to be used again once nothing answers to it: another group may get it.
    let Some(id) = group.0.take() else { return Gone::Perhaps };
    let _ = kill_process_group(id, Signal::KILL);
    if tokio::time::timeout(CHILD_EXIT_PATIENCE, child.wait()).await.is_err() {
        return Gone::Perhaps;
    }
    for _ in 0..CHILD_LOOKS {
        match test_kill_process_group(id) {
            Ok(()) => tokio::time::sleep(CHILD_EXIT_PATIENCE / CHILD_LOOKS).await,
            Err(rustix::io::Errno::SRCH) => return Gone::Surely,
            Err(_) => return Gone::Perhaps,
        }
    }
    Gone::Perhaps
}

fn close(pending: &SharedPending) {
    let mut pending = lock(pending);
    pending.closed = true;
    pending.waiting.clear();
}

async fn write(mut input: ChildStdin, mut lines: mpsc::Receiver<Line>) {
    while let Some(Line { bytes, may_be_sent, written }) = lines.recv().await {
        if !may_be_sent() {
            let _ = written.send(Written::TooLate);
            continue;
        }
        let done = async {
            input.write_all(&bytes).await?;
            input.flush().await
        };
        match done.await {
            Ok(()) => {
                let _ = written.send(Written::Whole);
            }
            Err(error) => {
                tracing::warn!(%error, "a message could not be written whole");
                let _ = written.send(Written::Broken);
                return;
            }
        }
    }
}

async fn read(
    name: &str,
    output: ChildStdout,
    pending: &SharedPending,
    back: &mpsc::Sender<Line>,
    notices: &(dyn Fn(&str, &Value) + Send + Sync),
) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut output).take(MCP_MESSAGE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line).await {
            Ok(0) => return,
            Ok(_) if line.len() > MCP_MESSAGE_BYTES_MAX => {
                // Whose reply it is cannot be told any more, and those that wait must not wait for their time to run out.
                tracing::error!(server = name, "a message is larger than is read; the connection is given up");
                return;
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(server = name, %error, "the server's output cannot be read");
                return;
            }
        }
        for incoming in message::read(&line) {
            take(name, incoming, pending, back, notices);
        }
    }
}

fn take(
    name: &str,
    incoming: Incoming,
    pending: &SharedPending,
    back: &mpsc::Sender<Line>,
    notices: &(dyn Fn(&str, &Value) + Send + Sync),
) {
    match incoming {
        Incoming::Reply { id, reply } => {
            let waiting = lock(pending).waiting.remove(&id);
            match waiting {
                Some(Waiting { reply: waiting, late, .. }) => {
                    if let (Err(reply), Some(late)) = (waiting.send(reply), late) {
                        tracing::info!(server = name, id, "a reply came after its call was given up; it is evidence");
                        late(reply);
                    }
                }
                None => tracing::warn!(server = name, id, "a reply came to a request that nobody waits for any more"),
            }
        }
        Incoming::Request { id, method } => {
            let (written, _) = oneshot::channel();
            let bytes = line_of(&message::answer_to(&id, &method));
            // A server that asks faster than it reads gets no answer to some of its questions.
            let _ = back.try_send(Line { bytes, may_be_sent: Box::new(|| true), written });
        }
        Incoming::Notice { method, params } => {
            let token = params.get("progressToken").and_then(Value::as_u64);
            let watcher = token.and_then(|token| lock(pending).waiting.get(&token)?.watcher.clone());
            match watcher {
                Some(watcher) => watcher(&method, &params),
                None => notices(&method, &params),
            }
        }
        Incoming::Nothing => {}
    }
}

/// The child's errors, into our log.
async fn log(name: &str, errors: ChildStderr) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut errors).take(MCP_LOG_LINE_BYTES_MAX as u64).read_until(b'\n', &mut line).await {
            // A server may close its errors and work on.
            Ok(0) | Err(_) => return std::future::pending().await,
            Ok(_) => tracing::info!(server = name, "{}", String::from_utf8_lossy(&line).trim_end()),
        }
    }
}

fn line_of(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

fn lock(pending: &SharedPending) -> MutexGuard<'_, Pending> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}
