//! Connections: accepted one by one, each on a socket that can be cut.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

use super::limits::CONNECTIONS_MAX;
use super::wire::{Scissors, Wire};

/// How long a failed accept rests: out of descriptors, the next try would fail at once as well.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Accepts until told to stop. What is under way then is dropped where it waits, as a kill would drop it; a commit is never
/// interrupted, because it does not wait.
pub(crate) async fn accept(listener: TcpListener, router: Router, stop: CancellationToken, tasks: TaskTracker) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let next = async {
            // The semaphore is never closed.
            let place = Arc::clone(&room).acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            () = stop.cancelled() => return,
            next = next => next,
        };
        match accepted {
            Ok((stream, _)) => {
                let connection = connection(stream, router.clone(), stop.clone(), tasks.clone());
                tasks.spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the sandbox could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, router: Router, stop: CancellationToken, tasks: TaskTracker) {
    // An answer in several writes would otherwise wait for the peer's delayed acknowledgement, some 40 ms.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "the connection was gone before it was set up");
        return;
    }
    let scissors = Scissors::default();
    let wire = TokioIo::new(Wire::new(stream, scissors.clone()));
    let service = service_fn(|request: Request<Incoming>| {
        answer(request, router.clone(), scissors.clone(), stop.clone(), tasks.clone())
    });
    let serving = hyper::server::conn::http1::Builder::new().timer(TokioTimer::new()).serve_connection(wire, service);
    tokio::select! {
        () = stop.cancelled() => {}
        served = serving => if let Err(error) = served {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

/// Answers in a task of its own: a destination goes on with what it was asked when the caller hangs up.
async fn answer(
    mut request: Request<Incoming>,
    mut router: Router,
    scissors: Scissors,
    stop: CancellationToken,
    tasks: TaskTracker,
) -> Result<Response<Body>, Infallible> {
    request.extensions_mut().insert(scissors);
    let work = tasks.spawn(async move {
        tokio::select! {
            () = stop.cancelled() => None,
            answered = router.call(request) => Some(answered),
        }
    });
    match work.await {
        Ok(Some(Ok(response))) => Ok(response),
        Ok(Some(Err(never))) => match never {},
        // Stopped, or broken: the connection is closed right after, and this is not seen.
        Ok(None) | Err(_) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            Ok(response)
        }
    }
}
