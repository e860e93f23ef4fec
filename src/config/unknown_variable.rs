//! Detection of environment variables that look like settings but are not.
//!
//! Without it, `FAIRGATE_LISTEN=…` would be ignored silently. A variable with `__` in its name is a
//! setting, so an unknown one is reported as an unknown key; this module checks those without.

use super::env::PREFIX;
use super::problem::Problem;
use super::report::nearest;
use super::tree::{Kind, Origin, Table, Value};

/// Variables that commands read directly. Cargo sets the last one for the programs that it runs.
const OWN: [&str; 4] = ["FAIRGATE_CONFIG", "FAIRGATE_API_KEY", "FAIRGATE_SIDEKIQ_URL", "FAIRGATE_COMMIT"];
const OF_TESTS: &str = "FAIRGATE_TEST_";

/// Returns an error for each variable with fairgate's prefix that is not used.
///
/// `keys` are the paths of all keys that can be set. The variable of a secret may have any name if
/// a key such as `password_env` refers to it.
pub fn find(env: &[(String, String)], values: &Table, keys: &[String]) -> Vec<Problem> {
    let mut secrets = Vec::new();
    values.iter().for_each(|(key, value)| collect_secrets(key, value, &mut secrets));
    let is_read =
        |name: &str| OWN.contains(&name) || name.starts_with(OF_TESTS) || secrets.iter().any(|secret| secret == name);
    let is_unknown = |name: &&String| {
        name.strip_prefix(PREFIX).is_some_and(|rest| !rest.contains("__") && !is_service_link(rest)) && !is_read(name)
    };
    let mut names: Vec<_> = env.iter().map(|(name, _)| name).filter(is_unknown).collect();
    names.sort();
    names.into_iter().map(|name| problem(name, keys)).collect()
}

/// Collects the names of variables that hold secrets: the values of all keys that end with `_env`.
fn collect_secrets(key: &str, value: &Value, found: &mut Vec<String>) {
    match &value.kind {
        Kind::Table(table) => table.iter().for_each(|(key, value)| collect_secrets(key, value, found)),
        Kind::List(values) => values.iter().for_each(|value| collect_secrets(key, value, found)),
        _ if key.ends_with("_env") => found.extend(value.text().map(str::to_owned)),
        _ => {}
    }
}

/// Recognizes the variables that Kubernetes sets in every pod next to a Service named `fairgate`:
/// `FAIRGATE_SERVICE_HOST`, `FAIRGATE_PORT`, `FAIRGATE_PORT_8080_TCP_ADDR` and so on.
fn is_service_link(rest: &str) -> bool {
    rest == "PORT"
        || rest.starts_with("SERVICE_")
        || rest.strip_prefix("PORT_").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

fn problem(name: &str, keys: &[String]) -> Problem {
    let help = match meant(name, keys) {
        Some(variable) => format!("did you mean {variable}?"),
        None => "settings are named FAIRGATE_SECTION__KEY, with two underscores; a variable with a secret must be the \
                 value of a key such as password_env"
            .to_owned(),
    };
    Problem {
        path: name.to_owned(),
        origin: Origin::Env { name: name.to_owned() },
        span: 0..0,
        message: "unknown variable".to_owned(),
        help: Some(help),
    }
}

/// Returns the variable that was probably meant: its key alone, or its path with single
/// underscores, possibly with a typo.
fn meant(name: &str, keys: &[String]) -> Option<String> {
    let wanted = name[PREFIX.len()..].to_ascii_lowercase();
    let forms = |path: &String| [path.replace('.', "_"), path.rsplit('.').next().unwrap_or(path).to_owned()];
    let all: Vec<(String, &String)> =
        keys.iter().filter(|path| path.contains('.')).flat_map(|path| forms(path).map(|form| (form, path))).collect();
    let form = nearest(&wanted, all.iter().map(|(form, _)| form.as_str()))?;
    let (_, path) = all.iter().find(|(known, _)| known == form)?;
    Some(format!("{PREFIX}{}", path.replace('.', "__").to_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{load, mistakes};

    #[test]
    fn a_variable_that_nothing_reads_is_an_error_with_a_suggestion() {
        for (name, help) in [
            ("FAIRGATE_LISTEN", "did you mean FAIRGATE_SERVER__LISTEN?"),
            ("FAIRGATE_SERVER_LISTEN", "did you mean FAIRGATE_SERVER__LISTEN?"),
            ("FAIRGATE_STORE_ULR", "did you mean FAIRGATE_STORE__URL?"),
            ("FAIRGATE_LOG_LEVEL", "did you mean FAIRGATE_LOG__LEVEL?"),
            ("FAIRGATE_ADMIN_KEY", "settings are named FAIRGATE_SECTION__KEY"),
        ] {
            let text = mistakes("", &[(name, "hunter2")]);
            assert!(text.contains("unknown variable") && text.contains(name) && text.contains(help), "{name}: {text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn secrets_that_a_key_names_and_links_of_kubernetes_are_none() {
        let text = "[store]\nurl = \"redis://h\"\npassword_env = \"FAIRGATE_REDIS_PASSWORD\"\n";
        load(
            text,
            &[
                ("FAIRGATE_REDIS_PASSWORD", "x"),
                ("FAIRGATE_CONFIG", "x"),
                ("FAIRGATE_SERVICE_HOST", "10.0.0.1"),
                ("FAIRGATE_SERVICE_PORT_HTTP", "8080"),
                ("FAIRGATE_PORT", "tcp://10.0.0.1:8080"),
                ("FAIRGATE_PORT_8080_TCP_ADDR", "10.0.0.1"),
            ],
        );
    }
}
