//! The commands that clients send to Redis, as `MONITOR` prints them.

use crate::resp::{Reply, Resp};
use anyhow::{Context, ensure};

/// A connection on which Redis reports the commands of all clients.
pub struct Monitor(Resp);

impl Monitor {
    pub fn start(mut redis: Resp) -> anyhow::Result<Monitor> {
        let reply = redis.call(&["MONITOR"])?;
        ensure!(reply == Reply::Text("OK".to_owned()), "unexpected reply to MONITOR: {reply:?}");
        Ok(Monitor(redis))
    }

    /// Returns the words of the next command that fits; waits until there is one.
    pub fn find(&mut self, fits: impl Fn(&[Vec<u8>]) -> bool) -> anyhow::Result<Vec<Vec<u8>>> {
        loop {
            let reply = self.0.next().context("Redis did not report the expected command")?;
            let Reply::Text(line) = &reply else { anyhow::bail!("unexpected line of MONITOR: {reply:?}") };
            let words = parse(line).with_context(|| format!("unexpected line of MONITOR: {line}"))?;
            if fits(&words) {
                return Ok(words);
            }
        }
    }
}

/// Parses a line such as `1700000000.000001 [0 unix:/tmp/redis.sock] "SET" "a\x00b" "1"`.
fn parse(line: &str) -> Option<Vec<Vec<u8>>> {
    let (_, mut rest) = line.split_once("] ")?;
    let mut words = Vec::new();
    while let Some(quoted) = rest.trim_start().strip_prefix('"') {
        let (word, behind) = unquote(quoted)?;
        words.push(word);
        rest = behind;
    }
    rest.is_empty().then_some(words)
}

/// Decodes a word up to its closing quote; returns it and the text behind the quote.
fn unquote(quoted: &str) -> Option<(Vec<u8>, &str)> {
    let mut word = Vec::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        let byte = match character {
            '"' => return Some((word, &quoted[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => b'\n',
                'r' => b'\r',
                't' => b'\t',
                'a' => 7,
                'b' => 8,
                'x' => {
                    let digits = quoted.get(at + 2..at + 4)?;
                    characters.nth(1)?;
                    u8::from_str_radix(digits, 16).ok()?
                }
                other => u8::try_from(other).ok()?,
            },
            other => u8::try_from(other).ok()?,
        };
        word.push(byte);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_decoded() {
        let line = r#"1700000000.000001 [0 unix:/tmp/redis.sock] "FCALL" "" "a \"b\"\\\n\r\t\a\b" "\x00\xc3\xa9]""#;
        let expected: [&[u8]; 4] = [b"FCALL", b"", b"a \"b\"\\\n\r\t\x07\x08", b"\x00\xc3\xa9]"];
        assert_eq!(parse(line).expect("readable"), expected);
    }

    #[test]
    fn an_incomplete_line_is_refused() {
        for line in ["OK", r#"1.0 [0 lua] "GET"#, r#"1.0 [0 lua] "\x0"#, r#"1.0 [0 lua] "GET" k"#] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
