//! `[[api_key]]`: API keys with their roles and tenants.

use super::Sources;
use super::convert::{Choice, Refused};
use super::reader::SettingsReader;
use crate::auth::{ApiKey, Digest, NAME_EXPECTED, Role, WEAK, is_name, is_strong};
use crate::domain::tenant_id;

/// Maximum number of keys in a configuration.
const MOST: usize = 1000;

impl Choice for Role {
    const CHOICES: &'static [(&'static str, Self)] = &Role::ALL;
}

/// Reads all `[[api_key]]` tables.
pub(super) fn read(root: &mut SettingsReader<'_>, sources: &Sources) -> Vec<ApiKey> {
    let mut keys: Vec<ApiKey> = Vec::new();
    root.each("api_key", |reader| {
        let key = read_key(reader, sources);
        if let Some(key) = key.filter(|_| reader.is_sound(&["name", "role", "tenant", "hash", "key_env"])) {
            check_with_others(reader, &key, &keys);
            keys.push(key);
        }
    });
    if keys.len() > MOST {
        let message = format!("expected at most {MOST} keys, found {}", keys.len());
        root.conflict(&["api_key"], message, Some("create keys at run time: POST /ojs/v1/admin/keys"));
    }
    keys
}

fn read_key(reader: &mut SettingsReader<'_>, sources: &Sources) -> Option<ApiKey> {
    let name = reader.get_such("name", NAME_EXPECTED, |name: &String| is_name(name));
    let role: Role = reader.get("role");
    let tenant = reader.find_such("tenant", tenant_id::EXPECTED, |id: &String| tenant_id::is_id(id));
    let (hash, variable) = (reader.find::<String>("hash"), reader.find::<String>("key_env"));
    let digest = match (hash, variable) {
        (Some(hash), None) => {
            // The message does not repeat the value, which may be the key itself.
            let digest = Digest::parse(&hash);
            if digest.is_none() {
                let help = "`fairgate keys create --offline` creates a key and its hash, `fairgate keys hash` hashes an existing key";
                reader.conflict(&["hash"], format!("expected {}, found something else", Digest::EXPECTED), Some(help));
            }
            digest
        }
        (None, Some(variable)) => read_variable(reader, sources, &variable),
        (Some(_), Some(_)) => {
            reader.conflict(&["key_env", "hash"], "hash and key_env are both set", Some("keep one of the two"));
            None
        }
        (None, None) => {
            if reader.is_sound(&["hash", "key_env"]) {
                let help = "`fairgate keys create --offline` creates a key and its hash";
                reader.blame("expected hash or key_env, found neither", Some(help));
            }
            None
        }
    };
    Some(ApiKey { name, role, tenant, digest: digest? })
}

fn read_variable(reader: &mut SettingsReader<'_>, sources: &Sources, variable: &str) -> Option<Digest> {
    let Some((_, key)) = sources.env.iter().find(|(name, text)| name == variable && !text.is_empty()) else {
        let expected = "the name of an environment variable that is set and not empty";
        reader.refuse("key_env", Refused::new(expected).help("key_env is the name of a variable, not the key"));
        return None;
    };
    if !is_strong(key) {
        reader.refuse(
            "key_env",
            Refused::new(format!("a variable with {WEAK}")).help("`fairgate keys create --offline` creates one"),
        );
        return None;
    }
    Some(Digest::of(key))
}

fn check_with_others(reader: &mut SettingsReader<'_>, key: &ApiKey, others: &[ApiKey]) {
    if others.iter().any(|other| other.digest == key.digest) {
        let message = "another api_key has the same key";
        reader.conflict(&["hash", "key_env"], message, Some("each holder needs a key of its own"));
        return;
    }
    let of_name: Vec<_> = others.iter().filter(|other| other.name == key.name).collect();
    if of_name.iter().any(|other| other.role != key.role || other.tenant != key.tenant) {
        let message = format!("another api_key is named {:?} and has another role or tenant", key.name);
        reader.conflict(
            &["name"],
            message,
            Some("keys may share a name only for rotation, with the same role and tenant"),
        );
    } else if of_name.len() >= ApiKey::MOST_OF_A_NAME {
        let message = format!("expected at most {} keys named {:?}", ApiKey::MOST_OF_A_NAME, key.name);
        reader.conflict(&["name"], message, Some("remove the oldest, or choose another name"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::describe;
    use super::super::testing::{load, mistakes};
    use super::*;

    const KEY: &str = "fgk_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG";

    fn with(more: &str) -> String {
        format!("[[api_key]]\nname = \"web\"\nrole = \"producer\"\n{more}\n")
    }

    fn hashed(key: &str) -> String {
        with(&format!("hash = \"{}\"", Digest::of(key).text()))
    }

    #[test]
    fn a_key_comes_as_a_hash_or_from_a_variable() {
        let by_hash = load(&hashed(KEY), &[]).config.api_keys;
        let by_variable = load(&with("key_env = \"FAIRGATE_WEB_KEY\""), &[("FAIRGATE_WEB_KEY", KEY)]).config.api_keys;
        let expected = ApiKey { name: "web".into(), role: Role::Producer, tenant: None, digest: Digest::of(KEY) };
        assert_eq!((&by_hash[..], &by_variable[..]), (&[expected.clone()][..], &[expected][..]));
        let bound = load(&(hashed(KEY) + "tenant = \"acme\""), &[]).config.api_keys;
        assert_eq!(bound[0].tenant.as_deref(), Some("acme"));
        assert_eq!(load(&(hashed(KEY) + &hashed("another")), &[]).config.api_keys.len(), 2, "two under one name");
    }

    #[test]
    fn nothing_that_is_printed_holds_a_key() {
        let loaded = load(&with("key_env = \"K\""), &[("K", KEY)]);
        assert!(!format!("{loaded:?}{}", describe(&loaded)).contains(KEY));
        for wrong in [
            format!("key = \"{KEY}\""),
            format!("hash = \"{KEY}\""),
            format!("hash = \"sha256:{KEY}\""),
            format!("key_env = \"{KEY}\""),
            format!("hash = \"{}\"\nname = \"{KEY}\"", Digest::of("x").text()),
        ] {
            let text = mistakes(&with(&wrong), &[]);
            assert!(!text.contains(&KEY[4..]), "{text}");
        }
    }

    #[test]
    fn each_mistake_is_told_with_its_line() {
        let other = |line: &str| format!("{}[[api_key]]\n{line}\nhash = \"{}\"", hashed(KEY), Digest::of("y").text());
        for (text, part) in [
            (with(""), "api_key[0]: expected hash or key_env, found neither"),
            (with("hash = \"abc\""), "api_key[0].hash: expected sha256: and 64 hexadecimal digits"),
            (with("key_env = \"NOT_SET\""), "api_key[0].key_env: expected the name of an environment variable"),
            (with("key_env = \"WEAK\""), "api_key[0].key_env: expected a variable with a key of 32 to 512"),
            (hashed(KEY) + "key_env = \"K\"", "api_key[0].key_env: hash and key_env are both set"),
            (hashed(KEY) + "tenant = \"\"", "api_key[0].tenant: expected the id of a tenant"),
            (hashed(KEY).replace("producer", "produser"), "did you mean \"producer\"?"),
            (hashed(KEY).replace("web", "a b"), "api_key[0].name: expected 1 to 63 characters"),
            (hashed(KEY).replace("role = \"producer\"", ""), "api_key[0].role: expected a value, found none"),
            (hashed(KEY) + "tenent = \"a\"", "did you mean \"tenant\"?"),
            (hashed(KEY) + &hashed(KEY), "api_key[1].hash: another api_key has the same key"),
            (other("name = \"web\"\nrole = \"admin\""), "api_key[1].name: another api_key is named \"web\""),
            (hashed("x") + &hashed("y") + &hashed("z"), "api_key[2].name: expected at most 2 keys named \"web\""),
            ("[api_key]\nname = \"a\"".to_owned(), "api_key: expected a list of tables"),
        ] {
            let said = mistakes(&text, &[("WEAK", "password"), ("K", KEY)]);
            assert!(said.contains(part) && said.contains("--> fairgate.toml:"), "{part}\n{said}");
            assert!(said.ends_with("1 error in fairgate.toml"), "{said}");
            assert!(!said.contains("password\""), "{said}");
        }
    }

    #[test]
    fn keys_allow_other_addresses() {
        let open = "[server]\nlisten = \"0.0.0.0:80\"\n";
        assert!(mistakes(open, &[]).contains("without authentication"));
        assert_eq!(load(&(open.to_owned() + &hashed(KEY)), &[]).config.server.listen.port(), 80);
    }
}
