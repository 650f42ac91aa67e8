//! Connections: accepted one by one, each with its limits, and drained when the gateway stops.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service as _;

use crate::limits::{ACCEPT_PAUSE, CONNECTION_BUFFER_BYTES, CONNECTIONS_MAX, READ_WITHIN};

/// Accepts until told to stop. Requests under way then are answered; idle connections are closed.
pub(crate) async fn accept(listener: TcpListener, router: Router, stop: CancellationToken, connections: TaskTracker) {
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
                let connection = serve(stream, router.clone(), stop.clone());
                connections.spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, router: Router, stop: CancellationToken) {
    if let Err(error) = prepare(&stream) {
        tracing::debug!(%error, "the connection was gone before it was set up");
        return;
    }
    let service = service_fn(move |request: Request<Incoming>| answer(router.clone(), request));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(READ_WITHIN)
        .max_buf_size(CONNECTION_BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        // A caller that hung up: what it asked for goes on.
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Small answers in two writes would otherwise wait for the peer's delayed acknowledgement, some 40 ms on every call.
fn prepare(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)
}

async fn answer(mut router: Router, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    router.call(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_accepted_socket_sends_small_answers_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        assert!(!stream.nodelay().unwrap(), "the system's default, or this test shows nothing");
        prepare(&stream).unwrap();
        assert!(stream.nodelay().unwrap());
    }
}
