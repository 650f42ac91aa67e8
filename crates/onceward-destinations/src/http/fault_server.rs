//! A server that breaks its answers where a test says, and counts what it saw. Plain sockets: a well-behaved server
//! library cannot be made to lose a reply.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// What happens to a connection. The last one holds for all further connections.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// It is accepted and closed at once.
    CloseUnread,
    /// It is closed with a part of the request unread, which resets it.
    ResetWhileReading,
    /// The whole request is read, and the connection closed without an answer.
    CloseAfterRequest,
    /// The whole request is read, and nothing follows while the server lives.
    NeverAnswer,
    /// This is answered, and then the connection closed.
    Answer(&'static str),
    /// This is answered, and nothing follows while the server lives.
    AnswerAndHang(&'static str),
}

#[derive(Default)]
struct Seen {
    connections: usize,
    requests: Vec<String>,
    held: Vec<TcpStream>,
    stopping: bool,
}

pub(super) struct FaultServer {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    thread: Option<JoinHandle<()>>,
}

impl FaultServer {
    pub(super) fn start(faults: &'static [Fault]) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = Arc::clone(&seen);
        let thread = std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let mut seen = shared.lock().unwrap();
                if seen.stopping {
                    return;
                }
                seen.connections += 1;
                drop(seen);
                let fault = faults[number.min(faults.len() - 1)];
                let shared = Arc::clone(&shared);
                // A thread each: a connection that is held must not keep the next one waiting.
                std::thread::spawn(move || serve(stream.unwrap(), fault, &shared));
            }
        });
        Self { address, seen, thread: Some(thread) }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn connections(&self) -> usize {
        self.seen.lock().unwrap().connections
    }

    pub(super) fn requests(&self) -> Vec<String> {
        self.seen.lock().unwrap().requests.clone()
    }
}

impl Drop for FaultServer {
    fn drop(&mut self) {
        self.seen.lock().unwrap().stopping = true;
        drop(TcpStream::connect(self.address));
        self.thread.take().unwrap().join().unwrap();
    }
}

fn serve(mut stream: TcpStream, fault: Fault, shared: &Mutex<Seen>) {
    match fault {
        Fault::CloseUnread => {}
        Fault::ResetWhileReading => {
            let _ = stream.read(&mut [0; 1]);
        }
        Fault::CloseAfterRequest => note(&mut stream, shared),
        Fault::NeverAnswer => {
            note(&mut stream, shared);
            shared.lock().unwrap().held.push(stream);
        }
        Fault::Answer(text) => {
            note(&mut stream, shared);
            let _ = stream.write_all(text.as_bytes());
        }
        Fault::AnswerAndHang(text) => {
            note(&mut stream, shared);
            let _ = stream.write_all(text.as_bytes());
            shared.lock().unwrap().held.push(stream);
        }
    }
}

/// Reads one request to its end and remembers it.
fn note(stream: &mut TcpStream, shared: &Mutex<Seen>) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while !whole(&bytes) {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    }
    shared.lock().unwrap().requests.push(String::from_utf8_lossy(&bytes).into_owned());
}

fn whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}
