//! Hand-written HTTP/1.1 over one connection, so that no client library decides if the connection is still usable.

use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// The time after which a response counts as lost.
const PATIENCE: Duration = Duration::from_secs(20);

/// A keep-alive connection.
pub struct Connection {
    stream: BufReader<TcpStream>,
}

/// A response as received.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    /// Header names are in lower case.
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    /// The value of a header that may occur at most once; empty if it is missing.
    pub fn header(&self, name: &str) -> &str {
        let mut values = self.headers.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str());
        let first = values.next().unwrap_or_default();
        assert_eq!(values.next(), None, "two headers {name}");
        first
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server accepts connections");
        stream.set_nodelay(true).expect("a TCP socket");
        Connection { stream: BufReader::new(stream) }
    }

    /// Sends bytes unchanged.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Reads one response by its Content-Length, and no further byte.
    pub async fn receive(&mut self) -> Result<Response> {
        let answer = tokio::time::timeout(PATIENCE, self.read_answer()).await;
        answer.unwrap_or_else(|_| Err(Error::new(ErrorKind::TimedOut, "no answer")))
    }

    async fn read_answer(&mut self) -> Result<Response> {
        let status_line = self.line().await?;
        let status = status_line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let status = status.ok_or_else(|| malformed(&status_line))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| malformed(&line))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut response = Response { status, headers, body: Vec::new() };
        let length = match response.header("content-length") {
            "" if status == 204 => 0,
            length => length.parse().map_err(|_| malformed("no Content-Length"))?,
        };
        response.body.resize(length, 0);
        self.stream.read_exact(&mut response.body).await?;
        Ok(response)
    }

    async fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line).await?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None if line.is_empty() => Err(ErrorKind::UnexpectedEof.into()),
            None => Err(malformed(&line)),
        }
    }

    /// Returns true if the server closes the connection without sending another byte.
    pub async fn is_closed_by_the_server(&mut self) -> bool {
        let mut byte = [0];
        match tokio::time::timeout(PATIENCE, self.stream.read(&mut byte)).await {
            Ok(Ok(length)) => length == 0,
            // A server that closes the connection while the client is sending resets it.
            Ok(Err(error)) => error.kind() == ErrorKind::ConnectionReset,
            Err(_) => false,
        }
    }

    /// Returns true if the server closes the connection, no matter what it sends before.
    pub async fn is_ended_by_the_server(&mut self) -> bool {
        let mut rest = Vec::new();
        let reading = self.stream.read_to_end(&mut rest);
        match tokio::time::timeout(PATIENCE, reading).await {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => error.kind() == ErrorKind::ConnectionReset,
            Err(_) => false,
        }
    }

    /// Reads `bytes` bytes in ten parts with a pause before each; returns false if the server stops sending.
    pub async fn take(&mut self, bytes: usize, rest: Duration) -> bool {
        let mut part = vec![0; bytes / 10];
        for _ in 0..10 {
            tokio::time::sleep(rest).await;
            let reading = self.stream.read_exact(&mut part);
            if !tokio::time::timeout(PATIENCE, reading).await.is_ok_and(|read| read.is_ok()) {
                return false;
            }
        }
        true
    }

    /// Returns true if a valid request succeeds on this connection.
    pub async fn is_usable(&mut self) -> bool {
        let sent = self.send(b"GET /ojs/manifest HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        sent.is_ok() && self.receive().await.is_ok_and(|answer| answer.status == 200)
    }
}

fn malformed(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("malformed answer: {what:?}"))
}

/// The bytes of a request. A body gets a Content-Length header unless the given headers say how it is sent.
pub fn request(method: &str, path: &str, headers: &[(&str, Vec<u8>)], body: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = format!("{method} {path} HTTP/1.1\r\n").into_bytes();
    let has = |name: &str| headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    if !has("host") {
        bytes.extend(b"Host: localhost\r\n");
    }
    if let Some(body) = body {
        if !has("content-type") {
            bytes.extend(b"Content-Type: application/openjobspec+json\r\n");
        }
        if !has("content-length") && !has("transfer-encoding") {
            bytes.extend(format!("Content-Length: {}\r\n", body.len()).bytes());
        }
    }
    for (name, value) in headers {
        bytes.extend([name.as_bytes(), b": ", value.as_slice(), b"\r\n"].concat());
    }
    bytes.extend(b"\r\n");
    bytes.extend(body.unwrap_or_default());
    bytes
}
