//! A minimal HTTP/1.1 client connection: the load generator shares its cores with the server it measures.

use std::io::{self, Error, ErrorKind};
use std::net::SocketAddr;
use std::ops::Range;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection with one request in flight.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    body: Range<usize>,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: vec![0; 16 * 1024], body: 0..0 })
    }

    /// Sends a request, reads the whole response and returns its status.
    pub async fn exchange(&mut self, request: &[u8]) -> io::Result<u16> {
        self.stream.write_all(request).await?;
        let mut filled = 0;
        loop {
            match self.stream.read(&mut self.buffer[filled..]).await? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                read => filled += read,
            }
            let needed = match Head::parse(&self.buffer[..filled])? {
                Some(head) => {
                    self.body = head.length..head.length + head.content_length;
                    if filled >= self.body.end {
                        return Ok(head.status);
                    }
                    self.body.end
                }
                None => filled + 1024,
            };
            if needed > self.buffer.len() {
                self.buffer.resize(needed, 0);
            }
        }
    }

    /// The body of the last response.
    pub fn body(&self) -> &[u8] {
        &self.buffer[self.body.clone()]
    }
}

/// The bytes of a POST request, or of a GET request if the body is empty.
pub fn request(path: &str, body: &str) -> Vec<u8> {
    if body.is_empty() {
        return format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes();
    }
    let length = body.len();
    let head = "host: localhost\r\ncontent-type: application/json\r\ncontent-length:";
    format!("POST {path} HTTP/1.1\r\n{head} {length}\r\n\r\n{body}").into_bytes()
}

struct Head {
    status: u16,
    /// The length of the head, including the empty line.
    length: usize,
    content_length: usize,
}

impl Head {
    /// Parses the head of a response; `None` while it is incomplete.
    fn parse(bytes: &[u8]) -> io::Result<Option<Head>> {
        const CONTENT_LENGTH: &[u8] = b"content-length:";
        let mut content_length = None;
        let mut start = 0;
        while let Some(line) = bytes[start..].iter().position(|byte| *byte == b'\n') {
            let text = bytes[start..start + line].trim_ascii_end();
            start += line + 1;
            if text.is_empty() {
                // "HTTP/1.1 200 OK"
                let status = bytes.get(9..12).and_then(number).ok_or(ErrorKind::InvalidData)?;
                let content_length = content_length.ok_or_else(|| Error::other("an answer without Content-Length"))?;
                return Ok(Some(Head { status: status as u16, length: start, content_length }));
            }
            if text.len() > CONTENT_LENGTH.len() && text[..CONTENT_LENGTH.len()].eq_ignore_ascii_case(CONTENT_LENGTH) {
                content_length = number(text[CONTENT_LENGTH.len()..].trim_ascii());
            }
        }
        Ok(None)
    }
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_complete_with_its_empty_line() {
        let answer = b"HTTP/1.1 201 Created\r\nContent-Length: 12\r\nx: y\r\n\r\n{\"job\":null}";
        let head = Head::parse(answer).expect("readable").expect("complete");
        assert_eq!((head.status, head.content_length, answer.len() - head.length), (201, 12, 12));
        for end in 0..head.length {
            assert!(Head::parse(&answer[..end]).expect("readable").is_none(), "{end}");
        }
    }

    #[test]
    fn a_response_of_unknown_length_is_an_error() {
        assert!(Head::parse(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        assert!(Head::parse(b"nonsense\r\n\r\n").is_err());
    }
}
