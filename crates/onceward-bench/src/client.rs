//! The smallest HTTP/1.1 client that keeps its connection: what it costs must not be what is measured.

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One kept connection.
pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects to `address` (`127.0.0.1:port`).
    ///
    /// # Errors
    /// When nobody listens.
    pub(crate) async fn connect(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(8192) })
    }

    /// Posts a JSON body and reads the whole answer; any status of 300 or more is an error.
    ///
    /// # Errors
    /// When the connection fails, or the answer is no success.
    pub(crate) async fn post(&mut self, path: &str, headers: &str, body: &str) -> Result<()> {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n{body}",
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await?;
        self.buffer.clear();
        let head = loop {
            ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the server closed the connection");
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
        };
        let text = std::str::from_utf8(&self.buffer[..head])?.to_ascii_lowercase();
        let status: u16 = text.get(9..12).context("no status line")?.parse()?;
        let length: usize = text
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"))
            .context("the answer has no content-length")?
            .trim()
            .parse()?;
        while self.buffer.len() < head + length {
            ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the answer was cut");
        }
        ensure!(status < 300, "status {status}: {}", String::from_utf8_lossy(&self.buffer[head..]));
        Ok(())
    }
}
