//! Sizes in bytes: `512B`, `64KiB`, `16MiB`, `1GiB`, or a number of bytes.

use std::fmt;
use std::str::FromStr;

/// Expected value in the error for an unreadable size.
pub const EXPECTED: &str = "a size such as 64KiB, 16MiB or a number of bytes";

/// Units and their sizes in bytes. Powers of 1024 only; the ambiguous `MB` is refused with a hint.
const UNITS: [(&str, usize); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(usize);

impl ByteSize {
    /// Creates a size of `bytes` bytes.
    pub const fn new(bytes: usize) -> Self {
        Self(bytes)
    }

    /// Creates a size of `count` KiB.
    pub const fn kib(count: usize) -> Self {
        Self(count * 1024)
    }

    /// Returns the number of bytes.
    pub const fn bytes(self) -> usize {
        self.0
    }
}

/// Error for text that is not a size.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {EXPECTED}")]
pub struct ParseError;

impl FromStr for ByteSize {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(split);
        let factor = match unit.trim_start() {
            "" => 1,
            unit => UNITS.iter().find(|(name, _)| *name == unit).ok_or(ParseError)?.1,
        };
        let count: usize = digits.parse().map_err(|_| ParseError)?;
        count.checked_mul(factor).map(Self).ok_or(ParseError)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |factor: usize| self.0 >= factor && self.0.is_multiple_of(factor);
        let (unit, factor) = UNITS.into_iter().find(|(_, factor)| fits(*factor)).unwrap_or(("B", 1));
        write!(f, "{}{unit}", self.0 / factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, bytes) in [
            ("0", 0),
            ("1024", 1024),
            ("512B", 512),
            ("64KiB", 65_536),
            ("16 MiB", 16_777_216),
            ("1GiB", 1_073_741_824),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize::new(bytes)), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        for text in
            ["", "KiB", "-1", "1.5MiB", "16MB", "16mib", "16MiB!", "1e3", "99999999999999999999", "99999999999GiB"]
        {
            assert_eq!(text.parse::<ByteSize>(), Err(ParseError), "{text}");
        }
    }

    #[test]
    fn writes_what_it_can_read_back() {
        for text in ["0B", "1B", "1023B", "1KiB", "1025B", "16MiB", "3GiB"] {
            assert_eq!(text.parse::<ByteSize>().map(|size| size.to_string()), Ok(text.to_owned()));
        }
    }
}
