//! A line to the database that can be cut at a COMMIT: before it arrives, or after it was carried out and before its answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Where the next COMMIT is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// It never arrives.
    Before = 1,
    /// It is carried out, and nobody hears of it.
    After = 2,
}

/// A COMMIT as a simple query, with its length and its end.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

#[derive(Clone)]
pub(crate) struct Proxy {
    port: u16,
    armed: Arc<AtomicU8>,
    cuts: Arc<AtomicU32>,
}

impl Proxy {
    pub(crate) async fn before(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            armed: Arc::new(AtomicU8::new(0)),
            cuts: Arc::new(AtomicU32::new(0)),
        };
        let serving = proxy.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
                tokio::spawn(serving.clone().serve(client, server));
            }
        });
        proxy
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    pub(crate) fn arm(&self, cut: Cut) {
        self.armed.store(cut as u8, Ordering::SeqCst);
    }

    pub(crate) fn cuts(&self) -> u32 {
        self.cuts.load(Ordering::SeqCst)
    }

    async fn serve(self, mut client: TcpStream, mut server: TcpStream) {
        let (mut from_client, mut from_server) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
        loop {
            tokio::select! {
                read = client.read(&mut from_client) => {
                    let Ok(read @ 1..) = read else { return };
                    let bytes = &from_client[..read];
                    let at = bytes.windows(COMMIT.len()).position(|window| window == COMMIT);
                    let Some(at) = at else {
                        if server.write_all(bytes).await.is_err() { return }
                        continue;
                    };
                    match self.armed.swap(0, Ordering::SeqCst) {
                        1 => {
                            self.cuts.fetch_add(1, Ordering::SeqCst);
                            let _ = server.write_all(&bytes[..at]).await;
                            return;
                        }
                        2 => {
                            self.cuts.fetch_add(1, Ordering::SeqCst);
                            let _ = server.write_all(bytes).await;
                            self.swallow(&mut server).await;
                            return;
                        }
                        _ => if server.write_all(bytes).await.is_err() { return },
                    }
                }
                read = server.read(&mut from_server) => {
                    let Ok(read @ 1..) = read else { return };
                    if client.write_all(&from_server[..read]).await.is_err() { return }
                }
            }
        }
    }

    /// Reads until the answer to the COMMIT has come: it is on disk then, and nobody is told.
    async fn swallow(&self, server: &mut TcpStream) {
        let mut seen = Vec::new();
        let mut bytes = vec![0; 64 * 1024];
        while !seen.windows(11).any(|window| window == b"\0\0\0\x0bCOMMIT\0") {
            match tokio::time::timeout(Duration::from_secs(5), server.read(&mut bytes)).await {
                Ok(Ok(read @ 1..)) => seen.extend_from_slice(&bytes[..read]),
                Ok(_) | Err(_) => return,
            }
        }
    }
}
