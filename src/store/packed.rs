//! Typed calls: a command takes its arguments as one msgpack value and returns its reply as another,
//! with the same names of fields on both sides. The counterpart of `lua/lib/packed.lua`.
//!
//! Commands that clients call for each job keep flat words, which cost less to encode.

use super::connection::Connection;
use super::script::Script;
use super::{Core, Error};
use redis::{Cmd, Value};
use rmp::Marker;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, de};
use std::fmt;
use std::marker::PhantomData;

impl Script {
    /// Calls the script with its arguments and returns its reply.
    pub(super) async fn call_packed<R: DeserializeOwned>(
        &self,
        core: &Core,
        args: &impl Serialize,
    ) -> Result<R, Error> {
        self.call_packed_with_words(core, args, |_, _| ()).await
    }

    /// Calls the script with its arguments and with words behind them: jobs, which `push` encodes for
    /// `lua/queue/enqueue.lua`. The flag of `push` is true if an earlier attempt may have been
    /// carried out.
    pub(super) async fn call_packed_with_words<R: DeserializeOwned>(
        &self,
        core: &Core,
        args: &impl Serialize,
        push: impl Fn(&mut Cmd, bool),
    ) -> Result<R, Error> {
        let args = encode(args)?;
        let fill = |command: &mut Cmd, again: bool| {
            core.begin(command).arg(&args).arg(u8::from(again));
            push(command, again);
        };
        decode(self.call(&core.connection, fill).await?, &self.command())
    }

    /// Calls a script in the Redis of another system.
    pub(super) async fn call_packed_there<R: DeserializeOwned>(
        &self,
        connection: &Connection,
        args: &impl Serialize,
    ) -> Result<R, Error> {
        let args = encode(args)?;
        decode(self.call(connection, |command, _| _ = command.arg(0).arg(&args)).await?, &self.command())
    }

    /// Returns the name of the command, for errors.
    pub(super) fn command(&self) -> String {
        self.name.to_ascii_lowercase()
    }
}

/// Encodes arguments as a map of their names.
pub(super) fn encode(args: &impl Serialize) -> Result<Vec<u8>, Error> {
    rmp_serde::to_vec_named(args).map_err(|error| Error::Backend(format!("cannot encode arguments: {error}")))
}

/// Decodes the reply to a command.
pub(super) fn decode<R: DeserializeOwned>(reply: Value, command: &str) -> Result<R, Error> {
    let Value::BulkString(bytes) = reply else { return Err(Error::unreadable(command)) };
    let decoded = rmp_serde::from_slice(&bytes).or_else(|error| match with_valid_text(&bytes) {
        Some(valid) => rmp_serde::from_slice(&valid),
        None => Err(error),
    });
    decoded.map_err(|error| Error::unreadable(&format!("{command}: {error}")))
}

/// Returns a value with a replacement character for each invalid sequence in its strings, because a
/// key that is damaged, or that another program has written, must not fail a whole call. `None` if
/// the bytes are not msgpack.
fn with_valid_text(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut valid = Vec::with_capacity(bytes.len());
    while !bytes.is_empty() {
        let marker = rmp::decode::read_marker(&mut &*bytes).ok()?;
        // What follows the marker itself. The elements of a list or map are values of their own.
        let data = match marker {
            Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => {
                let length = rmp::decode::read_str_len(&mut bytes).ok()? as usize;
                let (text, rest) = bytes.split_at_checked(length)?;
                rmp::encode::write_str(&mut valid, &String::from_utf8_lossy(text)).ok()?;
                bytes = rest;
                continue;
            }
            Marker::U8 | Marker::I8 => 1,
            Marker::U16 | Marker::I16 | Marker::Array16 | Marker::Map16 => 2,
            Marker::U32 | Marker::I32 | Marker::F32 | Marker::Array32 | Marker::Map32 => 4,
            Marker::U64 | Marker::I64 | Marker::F64 => 8,
            _ => 0,
        };
        let (value, rest) = bytes.split_at_checked(1 + data)?;
        valid.extend(value);
        bytes = rest;
    }
    Some(valid)
}

/// Deserializes a map. An empty one arrives as an empty list, because Lua has one type for both.
pub(super) fn map<'de, D, K, V, M>(deserializer: D) -> Result<M, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de>,
    V: Deserialize<'de>,
    M: Default + Extend<(K, V)>,
{
    deserializer.deserialize_any(MapVisitor(PhantomData))
}

struct MapVisitor<K, V, M>(PhantomData<(K, V, M)>);

impl<'de, K: Deserialize<'de>, V: Deserialize<'de>, M: Default + Extend<(K, V)>> Visitor<'de> for MapVisitor<K, V, M> {
    type Value = M;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<M, A::Error> {
        let mut map = M::default();
        while let Some(entry) = entries.next_entry()? {
            map.extend([entry]);
        }
        Ok(map)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<M, A::Error> {
        match elements.next_element::<IgnoredAny>()? {
            None => Ok(M::default()),
            Some(_) => Err(de::Error::invalid_type(de::Unexpected::Seq, &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Limit {
        key: String,
        running: u64,
        until: Option<i64>,
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Outcome {
        Gone,
        Skipped { reason: String },
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Documents {
        #[serde(deserialize_with = "map")]
        documents: BTreeMap<String, String>,
    }

    fn read<R: DeserializeOwned>(reply: &serde_json::Value) -> Result<R, Error> {
        decode(Value::BulkString(encode(reply).unwrap()), "limit_list")
    }

    fn message<R: fmt::Debug>(outcome: Result<R, Error>) -> String {
        outcome.expect_err("an error").reason()
    }

    #[test]
    fn arguments_are_a_map_of_their_names() {
        #[derive(Serialize)]
        #[serde(rename_all = "snake_case")]
        enum Which<'a> {
            One { name: &'a str, at: Option<i64> },
        }
        let args = encode(&Which::One { name: "a", at: None }).unwrap();
        assert_eq!(args, b"\x81\xa3one\x82\xa4name\xa1a\xa2at\xc0");
    }

    #[test]
    fn a_reply_is_read_by_the_names_of_its_fields() {
        let limit = read::<Limit>(&serde_json::json!({"until": -1, "running": 2, "key": "a", "later": []}));
        assert_eq!(limit.unwrap(), Limit { key: "a".to_owned(), running: 2, until: Some(-1) });
        assert_eq!(read::<Outcome>(&serde_json::json!("gone")).unwrap(), Outcome::Gone);
        let skipped = Outcome::Skipped { reason: "full".to_owned() };
        assert_eq!(read::<Outcome>(&serde_json::json!({"skipped": {"reason": "full"}})).unwrap(), skipped);
    }

    #[test]
    fn a_malformed_reply_is_an_error_that_names_the_command() {
        for (reply, expected) in [
            (serde_json::json!({"key": "a"}), "missing field `running`"),
            (serde_json::json!({"key": "a", "running": -1}), ""),
            (serde_json::json!({"key": "a", "running": "2"}), ""),
            (serde_json::json!({"key": "a", "running": 1.5}), ""),
            (serde_json::json!({"key": 5, "running": 2}), ""),
            (serde_json::json!(5), ""),
        ] {
            let message = message(read::<Limit>(&reply));
            assert!(message.starts_with(&format!("unexpected reply to limit_list: {expected}")), "{message}");
        }
        assert!(message(read::<Outcome>(&serde_json::json!("later"))).contains("unknown variant `later`"));
        for value in [Value::Nil, Value::Int(1), Value::Okay, Value::Array(Vec::new())] {
            assert_eq!(message(decode::<Limit>(value, "limit_list")), "unexpected reply to limit_list");
        }
        for bytes in [&b""[..], b"\x83\xa3key", b"\xc1", b"\xd9\x05a"] {
            let message = message(decode::<Limit>(Value::BulkString(bytes.to_vec()), "limit_list"));
            assert!(message.starts_with("unexpected reply to limit_list: "), "{message}");
        }
    }

    #[test]
    fn an_empty_map_arrives_as_an_empty_list() {
        let expected = |pairs: &[(&str, &str)]| Documents {
            documents: pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect(),
        };
        assert_eq!(read::<Documents>(&serde_json::json!({"documents": []})).unwrap(), expected(&[]));
        assert_eq!(read::<Documents>(&serde_json::json!({"documents": {"a": "b"}})).unwrap(), expected(&[("a", "b")]));
        assert!(read::<Documents>(&serde_json::json!({"documents": ["a"]})).is_err());
    }

    #[test]
    fn text_that_is_not_utf_8_does_not_fail_the_call() {
        let reply = b"\x83\xa3key\xa3a\xffb\xa7running\xcd\x01\x00\xa5until\xd2\xff\xff\xff\xff".to_vec();
        let limit = decode::<Limit>(Value::BulkString(reply), "limit_list").unwrap();
        assert_eq!(limit, Limit { key: "a\u{fffd}b".to_owned(), running: 256, until: Some(-1) });
    }
}
