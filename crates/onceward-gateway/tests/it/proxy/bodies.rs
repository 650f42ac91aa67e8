//! Bodies of every kind leave as they came, and are compared by what they say.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method as AxumMethod, Uri};
use axum::response::IntoResponse;
use onceward_lab::sandbox::SandboxContract;
use reqwest::Method;
use std::sync::{Arc, Mutex};

use super::Shop;

/// A vendor that keeps what it is sent, word for word.
#[derive(Clone, Default)]
struct Vendor {
    seen: Arc<Mutex<Vec<(String, HeaderMap, Bytes)>>>,
}

impl Vendor {
    async fn start() -> (Self, String) {
        async fn keep(
            State(vendor): State<Vendor>,
            method: AxumMethod,
            uri: Uri,
            headers: HeaderMap,
            body: Bytes,
        ) -> impl IntoResponse {
            let target = uri.path_and_query().map_or("", |target| target.as_str());
            vendor.seen.lock().unwrap().push((format!("{method} {target}"), headers, body));
            let mut answer = axum::response::Response::new(axum::body::Body::from(&b"{\"id\":\"x-1\"}\n\xff"[..]));
            *answer.status_mut() = axum::http::StatusCode::CREATED;
            for (name, value) in [
                ("content-type", "application/octet-stream"),
                ("location", "/things/x-1"),
                ("set-cookie", "session=s3cret"),
                ("x-ratelimit-left", "7"),
            ] {
                answer.headers_mut().append(name, HeaderValue::from_static(value));
            }
            answer
        }
        let vendor = Self::default();
        let router = Router::new().fallback(keep).with_state(vendor.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (vendor, address)
    }

    fn seen(&self) -> Vec<(String, HeaderMap, Bytes)> {
        self.seen.lock().unwrap().clone()
    }
}

/// A destination that promises nothing, whose key is a header all the same.
fn destination(address: &str) -> String {
    format!(
        "[destination.vendor]\nurl = \"{address}/api\"\nlisten = \"127.0.0.1:0\"\n[destination.vendor.proxy]\n\
         pinned_headers = [\"X-Api-Version\"]\n[destination.vendor.contract]\nversion = 1\n\
         key = {{ carriers = [{{ in = \"header\", name = \"Idempotency-Key\" }}], sdk_may_invent_key = false }}\n"
    )
}

async fn shop() -> (Vendor, Shop) {
    let (vendor, address) = Vendor::start().await;
    (vendor, Shop::with(SandboxContract::without_keys(), &destination(&address)).await)
}

#[tokio::test]
async fn what_a_client_writes_leaves_byte_for_byte_and_the_answer_comes_back_the_same() {
    let (vendor, shop) = shop().await;
    let binary: Vec<u8> = (0..=255).collect();
    let bodies: [(&str, &[u8]); 4] = [
        ("application/json; charset=utf-8", b" {\"n\": 1.10, \"big\":12345678901234567890, \"n2\":1e2} "),
        ("application/x-www-form-urlencoded", b"a=%7e+%2B&a=&b"),
        ("application/pdf", &binary),
        ("multipart/form-data; boundary=b", b"--b\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\nx\r\n--b--\r\n"),
    ];
    for (at, (media_type, body)) in bodies.into_iter().enumerate() {
        let send = async || {
            let request = shop
                .client
                .request(Method::PUT, &format!("/things/{at}?q=%20a+b"))
                .header("content-type", media_type)
                .header("idempotency-key", format!("k-{at}"))
                .header("x-api-version", "7")
                .header("x-secret-note", "stays here")
                .body(body.to_vec());
            let response = request.send().await.unwrap();
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            (status, headers, response.bytes().await.unwrap())
        };
        let (status, headers, bytes) = send().await;
        assert_eq!((status, &bytes[..]), (201, &b"{\"id\":\"x-1\"}\n\xff"[..]));
        assert_eq!(headers["location"], "/things/x-1");
        assert!(!headers.contains_key("set-cookie") && !headers.contains_key("x-ratelimit-left"), "{headers:?}");
        let (status, again, bytes_again) = send().await;
        assert_eq!((status, bytes_again), (201, bytes));
        assert_eq!(
            (&again["location"], &again["idempotent-replayed"]),
            (&headers["location"], &HeaderValue::from_static("true"))
        );
        let seen = vendor.seen();
        let (target, sent, received) = seen.last().unwrap();
        assert_eq!((seen.len(), target.as_str()), (at + 1, format!("PUT /api/things/{at}?q=%20a+b").as_str()));
        assert_eq!(&received[..], body, "{media_type}");
        assert_eq!(
            (&sent["content-type"], &sent["x-api-version"]),
            (&HeaderValue::from_str(media_type).unwrap(), &HeaderValue::from_static("7"))
        );
        assert!(!sent.contains_key("x-secret-note") && !sent.contains_key("authorization"), "{sent:?}");
        assert_ne!(sent["idempotency-key"], format!("k-{at}").as_str(), "ours goes out");
    }
}

#[tokio::test]
async fn an_upload_whose_client_makes_a_new_boundary_is_a_repetition() {
    let (vendor, shop) = shop().await;
    let upload = async |boundary: &str, file: &str| {
        let body = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.png\"\r\n\r\n{file}\r\n--{boundary}--\r\n"
        );
        let request = shop
            .client
            .request(Method::POST, "/files")
            .header("content-type", format!("multipart/form-data; boundary={boundary}"))
            .header("idempotency-key", "file-1")
            .body(body);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.headers()["onceward-outcome"].to_str().unwrap().to_owned())
    };
    assert_eq!(upload("one", "PNG").await, (201, "executed".to_owned()));
    assert_eq!(upload("two", "PNG").await, (201, "replayed".to_owned()));
    assert_eq!(upload("three", "JPG").await, (422, "conflict".to_owned()));
    assert_eq!(vendor.seen().len(), 1);
}

#[tokio::test]
async fn a_body_that_the_ledger_cannot_keep_is_refused_and_nothing_is_sent() {
    let (vendor, shop) = shop().await;
    let request = shop
        .client
        .request(Method::POST, "/files")
        .header("content-type", "application/octet-stream")
        .header("idempotency-key", "file-1")
        .body(vec![7; 900 * 1024]);
    shop.client.send(request).await.is(413, "too_large");
    assert_eq!(vendor.seen().len(), 0);
}

#[tokio::test]
async fn a_path_with_dots_or_an_absolute_address_leads_nowhere_else() {
    let (vendor, shop) = shop().await;
    let address = shop.bench.gateway.proxies[0].1;
    let token = shop.token();
    for target in ["/a/../../admin", "/a/%2e%2e/%2E./admin", "//evil.example/x"] {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nIdempotency-Key: p-1\r\n\
             Content-Length: 0\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert!(text.starts_with("HTTP/1.1 400"), "{target}: {text}");
    }
    assert_eq!(vendor.seen().len(), 0);
}

/// R096: neither the caller's token nor a cookie goes out with a read, and none comes back.
#[tokio::test]
async fn a_read_carries_no_credential_of_the_callers_and_brings_none_back() {
    let (vendor, shop) = shop().await;
    let request =
        shop.client.request(Method::GET, "/things?limit=3").header("cookie", "a=b").header("range", "bytes=0-1");
    let read = request.send().await.unwrap();
    assert!(!read.headers().contains_key("set-cookie"), "{:?}", read.headers());
    assert_eq!(read.headers()["x-ratelimit-left"], "7", "what only concerns the read comes along");
    assert_eq!(&read.bytes().await.unwrap()[..], b"{\"id\":\"x-1\"}\n\xff");
    let seen = vendor.seen();
    let (target, sent, _) = seen.last().unwrap();
    assert_eq!(target, "GET /api/things?limit=3");
    assert!(["authorization", "cookie"].iter().all(|name| !sent.contains_key(*name)), "{sent:?}");
}
