//! The servers that the gateway is compared with. Each runs in a process of its own, as the gateway does.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use crate::client::Client;
use crate::raw::Raw;

/// A destination that does nothing: whatever it costs is in both sides of each ratio.
///
/// # Errors
/// When it cannot listen.
pub(crate) async fn echo() -> Result<()> {
    let app = Router::new().route(
        "/things",
        post(|Json(body): Json<Value>| async move {
            (StatusCode::CREATED, Json(json!({"id": uuid::Uuid::new_v4().to_string(), "thing": body})))
        }),
    );
    serve(app).await
}

struct Bare {
    raw: Raw,
    echo: String,
    pool: Mutex<Vec<Client>>,
}

/// The reference: HTTP in, claim, HTTP to the destination, completion, HTTP out. No rules at all.
///
/// # Errors
/// When it cannot listen or open its file.
pub(crate) async fn bare(file: &Path, echo: String) -> Result<()> {
    let state = Arc::new(Bare { raw: Raw::open(file)?, echo, pool: Mutex::default() });
    serve(Router::new().route("/call", post(call)).with_state(state)).await
}

async fn call(State(bare): State<Arc<Bare>>, body: String) -> Result<Json<Value>, (StatusCode, String)> {
    forward(&bare, body).await.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")))
}

async fn forward(bare: &Bare, body: String) -> Result<Json<Value>> {
    let id = uuid::Uuid::now_v7().to_string();
    bare.raw.claim(id.clone(), body.clone()).await?;
    let kept = bare.pool.lock().await.pop();
    let mut client = match kept {
        Some(client) => client,
        None => Client::connect(&bare.echo).await?,
    };
    client.post("/things", "", &body).await?;
    bare.pool.lock().await.push(client);
    bare.raw.complete(id.clone(), body).await?;
    Ok(Json(json!({"id": id})))
}

async fn serve(app: Router) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(axum::serve::ListenerExt::tap_io(listener, |stream| drop(stream.set_nodelay(true))), app).await?;
    Ok(())
}
