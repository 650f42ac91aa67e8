//! What must never lie in the ledger's files.

use std::net::SocketAddr;
use std::path::Path;

use axum::Router;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use axum::routing::post;
use onceward_gateway::limits::Limits;
use serde_json::json;

use crate::bench::{Client, catalog, gateway_of};

/// A destination that answers with all that a careless one answers with.
async fn careless() -> SocketAddr {
    async fn answer(headers: HeaderMap) -> impl IntoResponse {
        let sent = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        let answered = [
            ("location", "/things/7".to_owned()),
            ("etag", "\"v1\"".to_owned()),
            ("link", "</things>; rel=collection".to_owned()),
            ("set-cookie", "session=c00kie-s3cret".to_owned()),
            ("authorization", format!("{sent}-answered-s3cret")),
            ("x-ratelimit-remaining", "ratelimit-s3cret".to_owned()),
            ("www-authenticate", "challenge-s3cret".to_owned()),
        ];
        (axum::http::StatusCode::CREATED, answered, axum::Json(json!({ "id": 7 })))
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new().route("/things", post(answer));
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

fn bytes_below(folder: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        bytes.extend(std::fs::read(entry.unwrap().path()).unwrap());
    }
    bytes
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// R068, R096, R066
#[tokio::test]
async fn a_replay_has_the_status_and_the_kept_headers_and_no_credential_lies_in_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let token_file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token_file.path(), "destination-s3cret\n").unwrap();
    let text = format!(
        "[destination.careless]\nurl = \"http://{}\"\ncontract = \"none\"\nauth = {{ bearer = \"file:{}\" }}\n\
         [destination.careless.tool.make]\nrequest = {{ method = \"POST\", path = \"/things\", body = \"arguments\" }}\n",
        careless().await,
        token_file.path().display(),
    );
    let gateway =
        gateway_of(folder.path().join("onceward.db"), catalog(&text), Limits::default()).start().await.unwrap();
    let token = gateway.first_tokens.as_ref().unwrap().agent.reveal().to_owned();
    let agent = Client::to(gateway.address, Some(&token));
    let first = agent.call("make", "m-1", json!({ "name": "visible-words" })).await.is(200, "executed");
    let second = agent.call("make", "m-1", json!({ "name": "visible-words" })).await.is(200, "replayed");
    assert_eq!(first["receipt"], second["receipt"]);
    assert_eq!(second["receipt"]["status"], 201);
    let headers = &second["receipt"]["headers"];
    assert_eq!(headers["location"], "/things/7");
    assert_eq!(headers["etag"], "\"v1\"");
    assert_eq!(headers["link"], "</things>; rel=collection");
    for gone in ["set-cookie", "authorization", "x-ratelimit-remaining", "www-authenticate", "date"] {
        assert!(headers.get(gone).is_none(), "{gone}");
    }
    let bytes = bytes_below(folder.path());
    assert!(has(&bytes, "visible-words"), "the scan sees what is stored");
    for secret in ["c00kie-s3cret", "answered-s3cret", "ratelimit-s3cret", "challenge-s3cret", "destination-s3cret"] {
        assert!(!has(&bytes, secret), "{secret} lies in the ledger's files");
    }
    assert!(!has(&bytes, &token), "a token lies in the ledger's files");
    gateway.stop().await;
}
