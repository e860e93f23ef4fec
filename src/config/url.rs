//! URL of a Redis: a server, a socket, sentinels or a cluster.

use percent_encoding::percent_decode_str;
use std::fmt;
use std::path::PathBuf;

use super::convert::{FromValue, Refused};
use super::report::nearest;
use super::secret::{Secret, redact};
use super::tree::Value;

const SCHEMES: [&str; 8] =
    ["redis", "rediss", "unix", "redis+unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"];

/// Schemes of other tools and their equivalents.
const ALIASES: [(&str, &str); 6] = [
    ("valkey", "redis"),
    ("valkeys", "rediss"),
    ("tcp", "redis"),
    ("tls", "rediss"),
    ("sentinel", "redis+sentinel"),
    ("cluster", "redis+cluster"),
];

/// A host and its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Name or address; IPv6 without brackets.
    pub name: String,
    /// Port.
    pub port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Host { name, port } = self;
        if name.contains(':') { write!(f, "[{name}]:{port}") } else { write!(f, "{name}:{port}") }
    }
}

/// Kind of Redis installation that a URL addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// A server: `redis://host:6379/0`.
    Server { host: Host, database: u32 },
    /// A socket on this machine: `unix:///run/redis.sock?db=0`.
    Socket { path: PathBuf, database: u32 },
    /// A primary that sentinels watch: `redis+sentinel://host1:26379,host2:26379/mymaster/0`.
    Sentinel { hosts: Vec<Host>, service: String, database: u32 },
    /// Nodes of a cluster: `redis+cluster://host1:7000,host2:7001`.
    Cluster { hosts: Vec<Host> },
}

/// URL of a Redis. Prints without its password.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl {
    text: String,
    /// True if the connection uses TLS.
    pub tls: bool,
    /// Installation to connect to.
    pub topology: Topology,
    /// User in the URL.
    pub username: Option<String>,
    /// Password in the URL.
    pub password: Option<Secret>,
}

impl StoreUrl {
    /// Parses a URL. Errors never quote it, because it may contain a password.
    pub fn parse(text: &str) -> Result<Self, Refused> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(
                Refused::new("a URL such as redis://127.0.0.1:6379/0").help("it needs a scheme, such as redis://")
            );
        };
        match scheme {
            "unix" | "redis+unix" => parse_socket(text, rest),
            _ if SCHEMES.contains(&scheme) => parse_network(text, scheme, rest),
            _ => Err(unknown_scheme(scheme)),
        }
    }

    /// Returns the URL of the primary behind these sentinels. The host of this URL is the name of
    /// the service, as Ruby clients write it: `redis://mymaster/0`.
    pub fn behind(&self, sentinels: &[String]) -> Result<Self, Refused> {
        let (Topology::Server { host, database }, Some((scheme, rest))) = (&self.topology, self.text.split_once("://"))
        else {
            return Err(Refused::new("a URL whose host is the service, such as redis://mymaster/0"));
        };
        if sentinels.iter().any(|sentinel| sentinel.contains(['@', '/'])) {
            let help = "sentinels take no user; put that of the server into url";
            return Err(Refused::new("hosts such as 10.0.0.1:26379").help(help));
        }
        let user = rest.rsplit_once('@').map(|(user, _)| format!("{user}@")).unwrap_or_default();
        Self::parse(&format!("{scheme}+sentinel://{user}{}/{}/{database}", sentinels.join(","), host.name))
    }

    /// Returns the URL without user and password, for use in a file.
    pub fn without_user(&self) -> String {
        let (scheme, rest) = self.text.split_once("://").unwrap_or_default();
        match &self.topology {
            Topology::Socket { path, database } => format!("{scheme}://{}?db={database}", path.display()),
            _ => {
                let (authority, path) =
                    rest.split_once('/').map_or((rest, String::new()), |(host, path)| (host, format!("/{path}")));
                let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
                format!("{scheme}://{hosts}{path}")
            }
        }
    }

    /// Returns the URL with its password, for connecting.
    pub fn expose(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redact(&self.text).text)
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

impl FromValue for StoreUrl {
    fn from_value(value: &Value) -> Result<Self, Refused> {
        Self::parse(value.text().unwrap_or_default())
    }
}

fn unknown_scheme(scheme: &str) -> Refused {
    let refused = Refused::new(format!("a URL with one of the schemes {}", SCHEMES.join(", ")));
    let alias = ALIASES.iter().find(|(alias, _)| *alias == scheme).map(|(_, scheme)| *scheme);
    match alias.or_else(|| nearest(scheme, SCHEMES.into_iter())) {
        Some(meant) => refused.help(format!("did you mean {meant}://?")),
        None => refused,
    }
}

fn parse_socket(text: &str, rest: &str) -> Result<StoreUrl, Refused> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let refused = || Refused::new("the absolute path of a socket, such as unix:///run/redis.sock?db=0");
    if !path.starts_with('/') {
        return Err(refused());
    }
    let (mut database, mut username, mut password) = (0, None, None);
    for (key, value) in
        query.split('&').filter(|part| !part.is_empty()).map(|part| part.split_once('=').unwrap_or((part, "")))
    {
        match key {
            "db" => database = value.parse().map_err(|_| refused().help("db is the number of a database"))?,
            "user" => username = decode(value)?,
            "pass" => password = decode(value)?,
            _ => return Err(refused().help("a socket takes db, user and pass")),
        }
    }
    let topology = Topology::Socket { path: path.into(), database };
    Ok(StoreUrl { text: text.to_owned(), tls: false, topology, username, password: password.map(Secret::new) })
}

fn parse_network(text: &str, scheme: &str, rest: &str) -> Result<StoreUrl, Refused> {
    let (base, flavour) = scheme.split_once('+').unwrap_or((scheme, ""));
    let (shape, default_port) = match flavour {
        "sentinel" => ("://host1:26379,host2:26379/mymaster/0", 26379),
        "cluster" => ("://host1:7000,host2:7001", 6379),
        _ => ("://127.0.0.1:6379/0", 6379),
    };
    let refused = || Refused::new(format!("a URL such as {scheme}{shape}"));
    if rest.contains(['?', '#']) {
        return Err(refused().help("it takes no ? and no #; in a password, write %3F and %23"));
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (username, password) = user.split_once(':').unwrap_or((user, ""));
    let hosts: Option<Vec<Host>> = hosts.split(',').map(|host| parse_host(host, default_port)).collect();
    let mut hosts = hosts.ok_or_else(refused)?;
    let number = |text: &str| if text.is_empty() { Ok(0) } else { text.parse().map_err(|_| refused()) };
    let topology = match flavour {
        "sentinel" => {
            let (service, database) = path.split_once('/').unwrap_or((path, ""));
            if service.is_empty() {
                return Err(refused().help("add the name of the service that the sentinels watch"));
            }
            Topology::Sentinel { hosts, service: service.to_owned(), database: number(database)? }
        }
        "cluster" if path.is_empty() => Topology::Cluster { hosts },
        "cluster" => return Err(refused().help("a cluster has no numbered databases")),
        _ if hosts.len() > 1 => {
            return Err(refused().help(format!("for several hosts, use {base}+sentinel:// or {base}+cluster://")));
        }
        _ => Topology::Server { host: hosts.remove(0), database: number(path)? },
    };
    let password = decode(password)?.map(Secret::new);
    Ok(StoreUrl { text: text.to_owned(), tls: base == "rediss", topology, username: decode(username)?, password })
}

fn parse_host(text: &str, default_port: u16) -> Option<Host> {
    let (name, port) = match text.strip_prefix('[') {
        Some(bracketed) => {
            let (name, port) = bracketed.split_once(']')?;
            name.parse::<std::net::Ipv6Addr>().ok()?;
            (name, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
        }
        None => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
    };
    let odd = name.is_empty() || name.contains(char::is_whitespace);
    let port = port.map_or(Some(default_port), |port| port.parse().ok().filter(|port| *port != 0))?;
    (!odd).then(|| Host { name: name.to_owned(), port })
}

/// Decodes percent-encoding; `None` for an empty text.
fn decode(text: &str) -> Result<Option<String>, Refused> {
    let refused = || Refused::new("a URL whose % signs are followed by two hexadecimal digits");
    let is_code = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|digit| digit.is_ascii_hexdigit());
    if !text.split('%').skip(1).all(is_code) {
        return Err(refused());
    }
    let decoded = percent_decode_str(text).decode_utf8().map_err(|_| refused())?;
    Ok(Some(decoded.into_owned()).filter(|decoded| !decoded.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, port: u16) -> Host {
        Host { name: name.to_owned(), port }
    }

    fn topology(text: &str) -> Topology {
        StoreUrl::parse(text).unwrap_or_else(|refused| panic!("{text}: {refused:?}")).topology
    }

    #[test]
    fn reads_every_scheme() {
        assert_eq!(topology("redis://h"), Topology::Server { host: host("h", 6379), database: 0 });
        assert_eq!(topology("rediss://[::1]:7/3"), Topology::Server { host: host("::1", 7), database: 3 });
        for scheme in ["unix", "redis+unix"] {
            let socket = Topology::Socket { path: "/r.sock".into(), database: 2 };
            assert_eq!(topology(&format!("{scheme}:///r.sock?db=2")), socket);
        }
        let hosts = vec![host("a", 26379), host("b", 1)];
        let sentinel = Topology::Sentinel { hosts, service: "mymaster".to_owned(), database: 4 };
        assert_eq!(topology("redis+sentinel://a,b:1/mymaster/4"), sentinel);
        assert_eq!(topology("rediss+cluster://a:1,b:2"), Topology::Cluster { hosts: vec![host("a", 1), host("b", 2)] });
        let tls = |url| StoreUrl::parse(url).map(|url| url.tls);
        assert_eq!((tls("redis://h"), tls("rediss+sentinel://h/m")), (Ok(false), Ok(true)));
    }

    #[test]
    fn credentials_are_decoded_and_never_printed() {
        for url in ["redis://a%40b:hun%2Fter2@h", "unix:///s?user=a%40b&pass=hun%2Fter2"] {
            let url = StoreUrl::parse(url).expect("a good url");
            assert_eq!(url.username.as_deref(), Some("a@b"));
            assert_eq!(url.password.as_ref().map(Secret::expose), Some("hun/ter2"));
            assert!(!format!("{url} {url:?}").contains("ter2"), "{url:?}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        for url in [
            "",
            "redis",
            "redis://",
            "redis://h:x",
            "redis://h:0",
            "redis://h/x",
            "redis://a,b",
            "redis://h?x=1",
            "redis://[::g]",
            "redis://:p%zz@h",
            "redis://:p%f@h",
            "redis://:p%%41@h",
            "redis://:p%+f@h",
            "redis://:p%ff@h",
            "unix://r.sock",
            "unix:///s?x=1",
            "redis+sentinel://a:1",
            "redis+sentinel://a/m/x",
            "redis+cluster://a/0",
            "redis+cluster://a,,b",
            "http://h",
        ] {
            assert!(StoreUrl::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_wrong_scheme_gets_a_suggestion() {
        let help = |url| StoreUrl::parse(url).err().and_then(|refused| refused.help);
        assert_eq!(help("reddis://h").as_deref(), Some("did you mean redis://?"));
        assert_eq!(help("valkey://h").as_deref(), Some("did you mean redis://?"));
        assert_eq!(help("redis+sentinal://h").as_deref(), Some("did you mean redis+sentinel://?"));
        assert_eq!(help("https://h"), None);
    }
}
