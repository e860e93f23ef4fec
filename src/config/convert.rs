//! Conversion of configuration values into the types of the program.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::report::nearest;
use super::size::{self, ByteSize};
use super::tree::{Kind, Value};
use crate::domain::{duration, names};

/// Reason why a value was refused.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused {
    /// Description of the accepted values, such as `a duration such as 60s`.
    pub expected: String,
    /// Suggestion for a correct value, if there is one.
    pub help: Option<String>,
}

impl Refused {
    /// Creates a refusal without help text.
    pub fn new(expected: impl Into<String>) -> Self {
        Self { expected: expected.into(), help: None }
    }

    /// Adds a help text.
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

/// A type that can be read from the configuration.
pub trait FromValue: Sized {
    /// Converts a value. The text of a `Kind::Raw` may stand for any type.
    fn from_value(value: &Value) -> Result<Self, Refused>;
}

/// A type whose values can be limited to a range.
pub trait Ranged: FromValue + PartialOrd + Default {
    /// Noun for messages, such as `a whole number`.
    const NOUN: &'static str;
    /// Formats a bound in the notation of the file.
    fn show(&self) -> String;
}

/// An enum that is configured by name.
pub trait Choice: Copy + PartialEq + 'static {
    /// Names of all values, in the order of the documentation.
    const CHOICES: &'static [(&'static str, Self)];

    /// Returns the name of this value.
    fn name(self) -> &'static str {
        Self::CHOICES.iter().find(|(_, choice)| *choice == self).map_or("?", |(name, _)| name)
    }
}

impl<T: Choice> FromValue for T {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        let choice = T::CHOICES.iter().find(|(name, _)| Some(*name) == value.text());
        choice.map(|(_, choice)| *choice).ok_or_else(|| {
            let names = || T::CHOICES.iter().map(|(name, _)| *name);
            let refused = Refused::new(format!("one of {}", names().collect::<Vec<_>>().join(", ")));
            match value.text().and_then(|text| nearest(text, names())) {
                Some(name) => refused.help(format!("did you mean \"{name}\"?")),
                None => refused,
            }
        })
    }
}

impl FromValue for bool {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        let flag = match &value.kind {
            Kind::Bool(flag) => Some(*flag),
            Kind::Raw(text) => text.parse().ok(),
            _ => None,
        };
        flag.ok_or_else(|| Refused::new("true or false"))
    }
}

macro_rules! whole_number {
    ($($number:ty),*) => {$(
        impl FromValue for $number {
            fn from_value(value: &Value) -> Result<Self, Refused> {
                let number = match &value.kind {
                    Kind::Integer(number) => Some(*number),
                    Kind::Raw(text) => text.parse().ok(),
                    _ => None,
                };
                let number = number.ok_or_else(|| Refused::new(Self::NOUN))?;
                number.try_into().map_err(|_| Refused::new(format!("{} from 0 to {}", Self::NOUN, Self::MAX)))
            }
        }

        impl Ranged for $number {
            const NOUN: &'static str = "a whole number";

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )*};
}
whole_number!(u32, u64, usize);

impl FromValue for f64 {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        let number = match &value.kind {
            Kind::Float(number) => Some(*number),
            Kind::Integer(number) => Some(*number as f64),
            Kind::Raw(text) => text.parse().ok(),
            _ => None,
        };
        number.filter(|number| number.is_finite()).ok_or_else(|| Refused::new(Self::NOUN))
    }
}

impl Ranged for f64 {
    const NOUN: &'static str = "a number";

    fn show(&self) -> String {
        self.to_string()
    }
}

impl FromValue for String {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        value.text().map(str::to_owned).ok_or_else(|| match &value.kind {
            Kind::List(_) | Kind::Indexed(_) | Kind::Table(_) => Refused::new("text"),
            _ => Refused::new("text").help(format!("put it in quotes: \"{value}\"")),
        })
    }
}

/// A name of lower-case letters, digits and dashes, such as a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Label(pub String);

impl FromValue for Label {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        let text = String::from_value(value)?;
        if names::is_label(&text) { Ok(Self(text)) } else { Err(Refused::new(names::LABEL_EXPECTED)) }
    }
}

impl FromValue for PathBuf {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        let path = value.text().filter(|text| !text.is_empty());
        path.map(Self::from).ok_or_else(|| Refused::new("a path"))
    }
}

impl FromValue for SocketAddr {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        let text = value.text().unwrap_or_default();
        // As in most servers, a port alone means all addresses. `Server::read` checks whether that
        // is safe.
        let full = match (text.strip_prefix("localhost:"), text.strip_prefix(':')) {
            (Some(port), _) => format!("127.0.0.1:{port}"),
            (_, Some(port)) => format!("0.0.0.0:{port}"),
            _ => text.to_owned(),
        };
        full.parse().map_err(|_| {
            let refused = Refused::new("an address with a port, such as 127.0.0.1:8080, localhost:8080 or :8080");
            match text.parse::<u16>() {
                Ok(port) => refused.help(format!("did you mean \"127.0.0.1:{port}\"?")),
                Err(_) => refused,
            }
        })
    }
}

impl FromValue for Duration {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        let ms = value.text().and_then(duration::parse_ms);
        ms.map(Self::from_millis).ok_or_else(|| {
            let refused = Refused::new(duration::EXPECTED);
            let bare = matches!(value.kind, Kind::Integer(0..))
                || value.text().is_some_and(|text| text.parse::<u64>().is_ok());
            if bare {
                let number = value.text().map_or_else(|| value.to_string(), str::to_owned);
                return refused.help(format!("a duration needs a unit: \"{number}s\" are seconds"));
            }
            refused
        })
    }
}

impl Ranged for Duration {
    const NOUN: &'static str = "a duration";

    fn show(&self) -> String {
        show_duration(*self)
    }
}

/// Formats a duration in the notation of the file: `90s`, `7d`.
pub fn show_duration(duration: Duration) -> String {
    let ms = duration.as_millis();
    // Days are used from two days on, because people write 24h.
    let units = [("d", 86_400_000, 2), ("h", 3_600_000, 1), ("m", 60_000, 1), ("s", 1_000, 1)];
    match units.into_iter().find(|(_, unit, least)| ms >= unit * least && ms.is_multiple_of(*unit)) {
        Some((name, unit, _)) => format!("{}{name}", ms / unit),
        None => format!("{ms}ms"),
    }
}

impl FromValue for ByteSize {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        let refused = || Refused::new(size::EXPECTED);
        if let Kind::Integer(number) = value.kind {
            return usize::try_from(number).map(Self::new).map_err(|_| refused());
        }
        let text = value.text().ok_or_else(refused)?;
        text.parse().map_err(|_| match text.to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
            short if short.ends_with(['K', 'M', 'G']) => {
                let (count, unit) = short.split_at(short.len() - 1);
                match format!("{count}{unit}iB") {
                    meant if meant.parse::<Self>().is_ok() => refused().help(format!("did you mean \"{meant}\"?")),
                    _ => refused(),
                }
            }
            _ => refused(),
        })
    }
}

impl Ranged for ByteSize {
    const NOUN: &'static str = "a size";

    fn show(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::Origin;
    use super::*;

    fn read<T: FromValue>(kind: Kind) -> Result<T, Refused> {
        T::from_value(&Value::new(kind, Origin::Default))
    }

    fn raw(text: &str) -> Kind {
        Kind::Raw(text.to_owned())
    }

    fn text(text: &str) -> Kind {
        Kind::Text(text.to_owned())
    }

    fn help<T: FromValue>(kind: Kind) -> Option<String> {
        read::<T>(kind).err().and_then(|refused| refused.help)
    }

    #[test]
    fn untyped_text_is_read_as_what_is_wanted_and_typed_text_is_not() {
        assert_eq!((read(raw("true")), read(raw("7")), read(raw("0.5"))), (Ok(true), Ok(7_u64), Ok(0.5)));
        assert_eq!(read(raw("true")), Ok("true".to_owned()));
        assert!(
            read::<bool>(text("true")).is_err() && read::<u64>(text("7")).is_err() && read::<f64>(raw("inf")).is_err()
        );
    }

    #[test]
    fn numbers_stay_in_their_type() {
        assert_eq!(read(Kind::Integer(u64::MAX.into())), Ok(u64::MAX));
        let refused = Refused::new("a whole number from 0 to 4294967295");
        assert_eq!(read::<u32>(Kind::Integer(1 << 32)), Err(refused));
        assert!(read::<usize>(Kind::Integer(-1)).is_err());
    }

    #[test]
    fn says_what_was_probably_meant() {
        assert_eq!(help::<SocketAddr>(text("8080")).as_deref(), Some("did you mean \"127.0.0.1:8080\"?"));
        assert_eq!(help::<ByteSize>(text("16MB")).as_deref(), Some("did you mean \"16MiB\"?"));
        assert_eq!(help::<ByteSize>(text("16m")).as_deref(), Some("did you mean \"16MiB\"?"));
        assert_eq!(help::<ByteSize>(text("many")), None);
        let unit = Some("a duration needs a unit: \"30s\" are seconds");
        assert_eq!(help::<Duration>(Kind::Integer(30)).as_deref(), unit);
        assert_eq!(help::<Duration>(raw("30")).as_deref(), unit);
        assert_eq!(help::<String>(Kind::Integer(1)).as_deref(), Some("put it in quotes: \"1\""));
    }

    #[test]
    fn sizes_come_as_numbers_or_text() {
        assert_eq!(read(Kind::Integer(1024)), Ok(ByteSize::kib(1)));
        assert_eq!(read(text("1KiB")), Ok(ByteSize::kib(1)));
        assert!(read::<ByteSize>(Kind::Integer(-1)).is_err());
    }

    #[test]
    fn durations_are_shown_so_that_they_can_be_read_back() {
        for shown in ["0ms", "1ms", "1500ms", "90s", "5m", "24h", "36h", "7d"] {
            assert_eq!(read(text(shown)).map(show_duration), Ok(shown.to_owned()));
        }
    }
}
