//! A minimal Redis client for commands outside the store, such as FLUSHALL and DBSIZE.

use anyhow::{Context, bail};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Long enough for Redis to drop a few hundred thousand jobs.
const PATIENCE: Duration = Duration::from_secs(30);

/// A reply; an error is an `Err`.
#[derive(Debug, PartialEq)]
pub enum Reply {
    Nil,
    Number(i64),
    Text(String),
    List(Vec<Reply>),
}

/// A connection to Redis.
pub struct Resp {
    stream: BufReader<UnixStream>,
}

impl Resp {
    pub fn connect(socket: &Path) -> anyhow::Result<Self> {
        let stream = UnixStream::connect(socket).with_context(|| format!("cannot connect to {}", socket.display()))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Resp { stream: BufReader::new(stream) })
    }

    /// Sends a command and waits for its reply.
    pub fn call<W: AsRef<[u8]>>(&mut self, words: &[W]) -> anyhow::Result<Reply> {
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for word in words.iter().map(AsRef::as_ref) {
            command.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            command.extend_from_slice(word);
            command.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&command)?;
        self.next()
    }

    /// Waits for the next reply. After `MONITOR`, each command of a client is one.
    pub fn next(&mut self) -> anyhow::Result<Reply> {
        read(&mut self.stream)
    }

    /// The number of keys.
    pub fn keys(&mut self) -> anyhow::Result<i64> {
        match self.call(&["DBSIZE"])? {
            Reply::Number(keys) => Ok(keys),
            other => bail!("unexpected reply to DBSIZE: {other:?}"),
        }
    }

    /// The name and version of the server.
    pub fn version(&mut self) -> anyhow::Result<String> {
        let Reply::Text(info) = self.call(&["INFO", "server"])? else { bail!("unexpected reply to INFO") };
        // Valkey also reports a redis_version, the one it is compatible with.
        let of = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        let valkey = of("valkey_version:").map(|version| format!("Valkey {version}"));
        valkey.or_else(|| of("redis_version:").map(|version| format!("Redis {version}"))).context("no version in INFO")
    }
}

fn read(stream: &mut impl BufRead) -> anyhow::Result<Reply> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let line = line.trim_end();
    let (kind, rest) = line.split_at_checked(1).context("Redis closed the connection")?;
    Ok(match kind {
        "+" => Reply::Text(rest.to_owned()),
        "-" => bail!("Redis returned an error: {rest}"),
        ":" => Reply::Number(rest.parse()?),
        "$" | "*" if rest == "-1" => Reply::Nil,
        "$" => {
            let length: usize = rest.parse()?;
            let mut bytes = vec![0; length + 2];
            stream.read_exact(&mut bytes)?;
            Reply::Text(String::from_utf8_lossy(&bytes[..length]).into_owned())
        }
        "*" => Reply::List((0..rest.parse::<usize>()?).map(|_| read(stream)).collect::<anyhow::Result<_>>()?),
        _ => bail!("unexpected reply from Redis: {line:?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_replies_of_scripts() {
        let reply = read(&mut &b"*1\r\n*3\r\n$2\r\nok\r\n:17\r\n$-1\r\n"[..]).expect("readable");
        let inner = vec![Reply::Text("ok".to_owned()), Reply::Number(17), Reply::Nil];
        assert_eq!(reply, Reply::List(vec![Reply::List(inner)]));
    }

    #[test]
    fn error_replies_and_closed_connections_are_errors() {
        let error = read(&mut &b"-NOSCRIPT No matching script\r\n"[..]).expect_err("an error");
        assert!(error.to_string().contains("NOSCRIPT"), "{error}");
        assert!(read(&mut &b""[..]).is_err());
    }
}
