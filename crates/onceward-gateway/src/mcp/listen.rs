//! What upstream servers tell by themselves: that a list is another one now, that a resource has changed.
//!
//! Callers of the stateless era ask for it with `subscriptions/listen` and hear it in that request's stream. Those of the session
//! era hear it over their pipe, or in a stream that they open with `GET`. Nothing is kept of them but the resources that a
//! principal watches: a host that hears of one that another host of its principal watches has lost nothing.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use onceward_destinations::mcp::{About, Era, McpUpstream, Notice, Watcher};
use onceward_ledger::authorize::Grant;
use rmcp::RoleServer;
use rmcp::model::{ErrorCode, ErrorData};
use rmcp::service::{RequestContext, SubscriptionContext};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::limits::{HEARD_AHEAD, PASSED_ON_WITHIN, WATCHED_MAX};
use super::service::Front;

const TOOLS: &str = "notifications/tools/list_changed";
const PROMPTS: &str = "notifications/prompts/list_changed";
const RESOURCES: &str = "notifications/resources/list_changed";
const UPDATED: &str = "notifications/resources/updated";

/// How long a server's stream of a resource's changes may last before it is asked for anew.
const LISTEN_WITHIN: Duration = Duration::from_secs(3600);

/// The resources that principals of the session era watch.
#[derive(Clone, Default)]
pub(crate) struct Watched(Arc<Mutex<HashMap<Who, HashSet<String>>>>);

/// A tenant and a principal of it.
type Who = (String, String);

impl Watched {
    fn add(&self, grant: &Grant, uri: &str) -> Result<(), ErrorData> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut own = all.remove(&who(grant)).unwrap_or_default();
        let room = own.contains(uri) || own.len() + all.values().map(HashSet::len).sum::<usize>() < WATCHED_MAX;
        if room {
            own.insert(uri.to_owned());
        }
        all.insert(who(grant), own);
        if room { Ok(()) } else { Err(ErrorData::internal_error("too many resources are watched", None)) }
    }

    fn remove(&self, grant: &Grant, uri: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = all.get_mut(&who(grant)) {
            own.remove(uri);
            if own.is_empty() {
                all.remove(&who(grant));
            }
        }
    }

    fn of(&self, grant: &Grant) -> HashSet<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&who(grant)).cloned().unwrap_or_default()
    }
}

fn who(grant: &Grant) -> Who {
    (grant.tenant().to_string(), grant.principal().to_string())
}

/// What servers tell, until it is dropped.
pub(crate) struct Notices {
    heard: mpsc::Receiver<(String, Value)>,
    sender: mpsc::Sender<(String, Value)>,
    tasks: JoinSet<()>,
}

impl Notices {
    /// Of these servers, from now on.
    fn of(servers: &[Arc<McpUpstream>]) -> Self {
        let (sender, heard) = mpsc::channel(HEARD_AHEAD);
        let mut tasks = JoinSet::new();
        for server in servers {
            let (mut notices, sender) = (server.subscribe(), sender.clone());
            tasks.spawn(async move {
                loop {
                    match notices.recv().await {
                        Ok(Notice { about: About::Server, method, params }) => {
                            if sender.send((method, params)).await.is_err() {
                                return;
                            }
                        }
                        // Of one call: whoever called hears it.
                        Ok(Notice { about: About::Operation(_), .. }) => {}
                        Err(RecvError::Lagged(missed)) => tracing::warn!(missed, "notices of a server were missed"),
                        Err(RecvError::Closed) => return,
                    }
                }
            });
        }
        Self { heard, sender, tasks }
    }

    /// Asks a server to tell of this resource's changes. One of the session era tells them to everybody who listens to it.
    fn watch(&mut self, server: Arc<McpUpstream>, uri: String) {
        let sender = self.sender.clone();
        let watcher: Watcher = Arc::new(move |method: &str, params: &Value| {
            // Whoever does not keep up hears of the next change.
            let _ = sender.try_send((method.to_owned(), params.clone()));
        });
        self.tasks.spawn(async move {
            let asked = match server.greeting().map(|greeting| greeting.era) {
                Some(Era::Modern) => {
                    let params = json!({ "notifications": { "resourceSubscriptions": [uri] } });
                    server.request("subscriptions/listen", params, LISTEN_WITHIN, Some(watcher)).await
                }
                Some(Era::Legacy { .. }) | None => {
                    server.request("resources/subscribe", json!({ "uri": uri }), PASSED_ON_WITHIN, None).await
                }
            };
            if let Err(error) = asked {
                tracing::warn!(server = server.name(), %error, "a resource is not watched");
            }
        });
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> (String, Value) {
        match self.heard.recv().await {
            Some(notice) => notice,
            // This value holds a sender itself.
            None => std::future::pending().await,
        }
    }
}

impl Front {
    /// Tells a caller of the stateless era what it asked to hear, until it hangs up.
    pub(crate) async fn relay_notices(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let grant = self.grant_of(context.request_context())?;
        let uris = context.accepted().resource_subscriptions.clone().unwrap_or_default();
        let mut notices = Notices::of(&self.upstreams_of(&grant));
        for uri in &uris {
            for server in self.able(&grant, "resources") {
                notices.watch(server, uri.clone());
            }
        }
        loop {
            let (method, params) = tokio::select! {
                () = context.cancelled() => return Ok(()),
                notice = notices.next() => notice,
            };
            // The sink holds back what this caller did not ask for.
            let told = match method.as_str() {
                TOOLS => context.sink().notify_tool_list_changed().await,
                PROMPTS => context.sink().notify_prompt_list_changed().await,
                RESOURCES => context.sink().notify_resource_list_changed().await,
                UPDATED => match params.get("uri").and_then(Value::as_str) {
                    Some(uri) if uris.iter().any(|asked| asked == uri) => {
                        context.sink().notify_resource_updated(uri).await
                    }
                    Some(_) | None => Ok(()),
                },
                _ => Ok(()),
            };
            if let Err(error) = told {
                tracing::debug!(%error, method, "not told");
            }
        }
    }

    /// What a caller of the session era hears by itself: messages, ready to be sent.
    pub(crate) fn notices_for(&self, grant: &Grant) -> OwnNotices {
        let mut notices = Notices::of(&self.upstreams_of(grant));
        let mut asked = HashSet::new();
        self.watch_more(grant, &mut notices, &mut asked);
        OwnNotices { front: self.clone(), grant: grant.clone(), notices, asked }
    }

    fn watch_more(&self, grant: &Grant, notices: &mut Notices, asked: &mut HashSet<String>) {
        for uri in self.watched.of(grant) {
            if asked.insert(uri.clone()) {
                for server in self.able(grant, "resources") {
                    notices.watch(server, uri.clone());
                }
            }
        }
    }

    /// `resources/subscribe`.
    pub(crate) fn watch(&self, uri: &str, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
        let grant = self.grant_of(context)?;
        if !self.able(&grant, "resources").iter().any(|server| can_tell_of_changes(server)) {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "resources/subscribe", None));
        }
        self.watched.add(&grant, uri)?;
        self.watching.notify_waiters();
        Ok(())
    }

    /// `resources/unsubscribe`.
    pub(crate) fn unwatch(&self, uri: &str, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.watched.remove(&*self.grant_of(context)?, uri);
        Ok(())
    }
}

/// Whether a server can be asked to tell of a resource's changes.
pub(crate) fn can_tell_of_changes(server: &McpUpstream) -> bool {
    server
        .greeting()
        .is_some_and(|greeting| greeting.capabilities.pointer("/resources/subscribe") == Some(&Value::Bool(true)))
}

/// What a caller of the session era hears.
pub(crate) struct OwnNotices {
    front: Front,
    grant: Grant,
    notices: Notices,
    asked: HashSet<String>,
}

impl OwnNotices {
    /// The next message for it.
    pub(crate) async fn next(&mut self) -> Value {
        loop {
            let (method, params) = tokio::select! {
                () = self.front.watching.notified() => {
                    self.front.watch_more(&self.grant, &mut self.notices, &mut self.asked);
                    continue;
                }
                notice = self.notices.next() => notice,
            };
            let tell = match method.as_str() {
                TOOLS | PROMPTS | RESOURCES => true,
                UPDATED => params
                    .get("uri")
                    .and_then(Value::as_str)
                    .is_some_and(|uri| self.front.watched.of(&self.grant).contains(uri)),
                _ => false,
            };
            if tell {
                return json!({ "jsonrpc": "2.0", "method": method, "params": params });
            }
        }
    }
}
