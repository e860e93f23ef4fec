//! Types of values that only plan rules have, with their error messages.

use ::url::Url;

use crate::config::convert::{Choice, FromValue, Refused};
use crate::config::secret::MASK;
use crate::config::tree::Value;
use crate::domain::job::sidekiq;
use crate::domain::names;
use crate::domain::plan::{Batch, OnMissingTenant, OnUnknownWeight, OnWebhookError, PriorityScope, TenantKey};
use crate::domain::tenant::Weight;

/// Largest batch. A round promotes it in portions so that other calls can run in between, but holds
/// the lock of the rule throughout.
const LARGEST_BATCH: u32 = 100_000;

impl Choice for OnMissingTenant {
    const CHOICES: &'static [(&'static str, Self)] = &[("reject", Self::Reject), ("default", Self::Default)];
}

impl Choice for PriorityScope {
    const CHOICES: &'static [(&'static str, Self)] =
        &[(Self::Global.name(), Self::Global), (Self::WithinTenant.name(), Self::WithinTenant)];
}

impl Choice for OnWebhookError {
    const CHOICES: &'static [(&'static str, Self)] = &[("default_weight", Self::DefaultWeight), ("hold", Self::Hold)];
}

impl Choice for OnUnknownWeight {
    const CHOICES: &'static [(&'static str, Self)] = &[("ask", Self::Ask), ("default_weight", Self::DefaultWeight)];
}

impl FromValue for TenantKey {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        let text = value.text().unwrap_or_default();
        TenantKey::parse(text).ok_or_else(|| {
            let refused = Refused::new(TenantKey::EXPECTED);
            let meant = format!("meta.{text}");
            let bare = names::is_type(text) && !text.contains('.') && !["meta", "args"].contains(&text);
            if bare { refused.help(format!("did you mean \"{meant}\"?")) } else { refused }
        })
    }
}

impl FromValue for Batch {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        if value.text() == Some("auto") {
            return Ok(Batch::Auto);
        }
        let refused = || Refused::new(format!("a whole number from 1 to {LARGEST_BATCH}, or \"auto\""));
        let jobs = u32::from_value(value).map_err(|_| refused())?;
        if (1..=LARGEST_BATCH).contains(&jobs) { Ok(Batch::Jobs(jobs)) } else { Err(refused()) }
    }
}

impl FromValue for Weight {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        let refused =
            || Refused::new(format!("a number from {} to {}, or 0 to hold a tenant", Weight::LEAST, Weight::MOST));
        let number = f64::from_value(value).map_err(|_| refused())?;
        // `Weight::of` clamps the weights of webhooks. In a file, a weight out of range is an
        // error.
        let fits = number == 0.0 || (Weight::LEAST.as_f64()..=Weight::MOST.as_f64()).contains(&number);
        Weight::of(number).filter(|_| fits).ok_or_else(refused)
    }
}

/// Expected value in the error for an invalid type.
pub const TYPE_EXPECTED: &str = "a job type such as email.send, or a glob such as email.*";

/// A job type or a Ruby class, or a glob of either.
pub struct PlannedType(pub String);

impl FromValue for PlannedType {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        match value.text().filter(|text| sidekiq::is_class_pattern(text)) {
            Some(class) => Ok(Self(class.to_owned())),
            None => TypePattern::from_value(value).map(|TypePattern(pattern)| Self(pattern)),
        }
    }
}

/// A job type, or a glob of types.
pub struct TypePattern(pub String);

impl FromValue for TypePattern {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        let text = value.text().unwrap_or_default();
        if names::is_type_pattern(text) {
            return Ok(Self(text.to_owned()));
        }
        let refused = Refused::new(TYPE_EXPECTED);
        match text.to_ascii_lowercase() {
            lower if lower != text && names::is_type(&lower) => Err(refused.help(format!("did you mean \"{lower}\"?"))),
            _ => Err(refused),
        }
    }
}

/// URL of a weights webhook or another HTTP endpoint.
#[derive(Default)]
pub struct WebhookUrl(pub String);

impl FromValue for WebhookUrl {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        let refused = || Refused::new("a URL such as http://127.0.0.1:9000/weights");
        let text = value.text().ok_or_else(refused)?;
        let url = Url::parse(text).map_err(|error| refused().help(error.to_string()))?;
        // The text is checked as well, because the parser accepts `http:host` and `http:///host`.
        let host = text.split_once("://").filter(|(scheme, _)| ["http", "https"].contains(scheme));
        if host.is_none_or(|(_, host)| host.starts_with('/')) {
            return Err(refused().help("it must start with http:// or https:// and a host"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused().help("it takes no user and no password; sign the requests with secret_env instead"));
        }
        if url.query() == Some(MASK) {
            return Err(refused().help("the query was redacted in an answer; send the original URL"));
        }
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tree::{Kind, Origin};

    fn read<T: FromValue>(kind: Kind) -> Result<T, Refused> {
        T::from_value(&Value::new(kind, Origin::Default))
    }

    fn text(text: &str) -> Kind {
        Kind::Text(text.to_owned())
    }

    #[test]
    fn batches_are_numbers_or_auto() {
        assert_eq!(read(text("auto")), Ok(Batch::Auto));
        assert_eq!(read(Kind::Raw("7".to_owned())), Ok(Batch::Jobs(7)));
        assert_eq!(read(Kind::Integer(100_000)), Ok(Batch::Jobs(100_000)));
        for kind in [Kind::Integer(0), Kind::Integer(100_001), Kind::Integer(-1), Kind::Float(1.0), text("all")] {
            assert!(read::<Batch>(kind).is_err());
        }
    }

    #[test]
    fn weights_are_zero_or_in_range() {
        for (number, thousandths) in [(0.0, 0), (0.05, 50), (2.5, 2500), (1000.0, 1_000_000)] {
            assert_eq!(read(Kind::Float(number)).map(Weight::thousandths), Ok(thousandths), "{number}");
        }
        for number in [0.04, 1000.1, -1.0, f64::NAN, f64::INFINITY] {
            let expected = "a number from 0.05 to 1000, or 0 to hold a tenant";
            assert_eq!(read::<Weight>(Kind::Float(number)), Err(Refused::new(expected)), "{number}");
        }
    }

    #[test]
    fn types_may_be_globs() {
        for good in ["a", "report.daily", "report.*", "*", "*.pdf", "a*b"] {
            assert!(read::<TypePattern>(text(good)).is_ok(), "{good}");
        }
        for bad in ["", "Report.daily", "a b", "1st", "a..b", "a.*?", "ä*", "A*"] {
            assert!(read::<TypePattern>(text(bad)).is_err(), "{bad}");
        }
        let help = read::<TypePattern>(text("Report.Daily")).err().and_then(|refused| refused.help);
        assert_eq!(help.as_deref(), Some("did you mean \"report.daily\"?"));
    }

    #[test]
    fn webhooks_are_asked_over_http_without_a_password() {
        for good in ["http://h", "https://h:1/weights?x=1", "http://[::1]:9000/"] {
            assert!(read::<WebhookUrl>(text(good)).is_ok(), "{good}");
        }
        let of_users = ["http://u@h", "http://u:p@h", "http://:p@h"];
        for bad in ["", "h", "/weights", "http://", "http:///w", "ftp://h", "http://h?***"].iter().chain(&of_users) {
            assert!(read::<WebhookUrl>(text(bad)).is_err(), "{bad}");
        }
        assert!(read::<WebhookUrl>(Kind::Integer(1)).is_err());
    }

    #[test]
    fn a_bare_word_is_probably_a_key_of_meta() {
        let help = |key| read::<TenantKey>(text(key)).err().and_then(|refused| refused.help);
        assert_eq!(help("tenant_id").as_deref(), Some("did you mean \"meta.tenant_id\"?"));
        assert_eq!((help("args"), help("args.x")), (None, None));
    }
}
