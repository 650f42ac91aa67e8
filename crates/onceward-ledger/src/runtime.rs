//! Spawning and sleeping, as far as the engine needs them.

use std::time::Duration;

use crate::store::BoxFuture;

/// What runs the engine's tasks. Tokio is the default; anything that can spawn and sleep will do.
pub trait Runtime: Send + Sync + 'static {
    /// Runs the task to its end, detached from whoever asked for it (R13).
    fn spawn(&self, task: BoxFuture<'static, ()>);

    /// Completes after `duration`.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// Tasks run on the tokio runtime that was current when this was made.
#[derive(Clone, Debug)]
pub struct TokioRuntime(tokio::runtime::Handle);

impl TokioRuntime {
    /// The current runtime.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn current() -> Self {
        Self(tokio::runtime::Handle::current())
    }
}

impl Runtime for TokioRuntime {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        drop(self.0.spawn(task));
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}
