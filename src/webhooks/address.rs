//! Validation of webhook addresses. Clients choose them, and this process runs inside a private
//! network.

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use url::Host;

/// Maximum time to resolve the name in a URL.
const LOOK_UP: Duration = Duration::from_secs(2);

/// Returns true if an address belongs to the public Internet.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || first == 0
        || first >= 240
        || (first == 100 && (64..128).contains(&second))
        || (first == 192 && second == 0 && third == 0)
        || (first == 198 && (18..20).contains(&second)))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, .., seventh, eighth] = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    if let Some(mapped) = address.to_ipv4_mapped() {
        return is_public_v4(mapped);
    }
    match (first, second) {
        (0x64, 0xff9b) => embedded(seventh, eighth),
        (0x2002, high) => embedded(high, address.segments()[2]),
        // Teredo, documentation, and ranges that are not assigned to the public Internet.
        (0x2001, 0 | 0xdb8) => false,
        (first, _) => (0x2000..0x4000).contains(&first),
    }
}

/// The addresses that webhooks may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destinations {
    /// Only public addresses, over TLS.
    Public,
    /// Any address, also without TLS.
    Any,
}

/// Checks the URL of a webhook without resolving its name. Returns a message if it is not allowed.
pub fn check_url(text: &str, allowed: Destinations) -> Result<(), String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    match url.scheme() {
        "https" => {}
        "http" if allowed == Destinations::Any => {}
        scheme => return Err(format!("its scheme is {scheme:?}")),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it contains a user name or password".to_owned());
    }
    let address = match url.host() {
        Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
        Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
        Some(Host::Domain(_)) => None,
        None => return Err("it has no host".to_owned()),
    };
    match address.filter(|address| allowed == Destinations::Public && !is_public(*address)) {
        Some(address) => Err(format!("{address} is not a public address")),
        None => Ok(()),
    }
}

/// Checks that the name in a URL resolves to at least one public address. Returns a message with
/// another address if it does not. Accepts a name that cannot be resolved, because it is resolved
/// again for each delivery.
pub async fn check_name(text: &str) -> Result<(), String> {
    let Some(name) = Url::parse(text).ok().and_then(|url| url.domain().map(str::to_owned)) else { return Ok(()) };
    let looking_up = tokio::time::timeout(LOOK_UP, tokio::net::lookup_host((name.as_str(), 0)));
    let Ok(Ok(found)) = looking_up.await else { return Ok(()) };
    let mut addresses = found.map(|address| address.ip()).peekable();
    match addresses.peek().copied() {
        Some(first) if !addresses.any(is_public) => {
            Err(format!("{name} resolves to {first}, which is not a public address"))
        }
        _ => Ok(()),
    }
}

/// A resolver that drops addresses which are not public. The owner of a name may change its
/// addresses after the URL was checked.
pub(super) struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|address| is_public(address.ip())).collect();
            if public.is_empty() {
                return Err(format!("{} has no public address", name.as_str()).into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_open_internet_is_public() {
        for address in ["93.184.216.34", "8.8.8.8", "100.63.0.1", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8"] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
        for address in [
            "127.0.0.1",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "192.0.0.8",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "192.0.2.1",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "::7f00:1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn urls_that_lead_inside_are_refused() {
        for url in ["https://example.com/hook?x=1", "https://93.184.216.34:8443/"] {
            assert_eq!(check_url(url, Destinations::Public), Ok(()), "{url}");
        }
        for url in [
            "http://example.com/",
            "https://127.0.0.1/",
            "https://[::1]/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://user:pw@example.com/",
            "ftp://example.com/",
            "file:///etc/passwd",
            "",
            "example.com",
            "https://169.254.169.254/latest/",
        ] {
            assert!(check_url(url, Destinations::Public).is_err(), "{url}");
        }
        assert_eq!(check_url("http://127.0.0.1:9/", Destinations::Any), Ok(()));
        assert!(check_url("gopher://127.0.0.1:9/", Destinations::Any).is_err());
    }

    #[tokio::test]
    async fn a_name_for_an_address_inside_is_refused_and_an_unknown_one_is_not() {
        let refused = check_name("https://localhost:8443/hook").await.unwrap_err();
        assert!(
            refused.starts_with("localhost resolves to ") && refused.ends_with("not a public address"),
            "{refused}"
        );
        assert_eq!(check_name("https://does-not-exist.invalid/").await, Ok(()));
        assert_eq!(check_name("https://127.0.0.1/").await, Ok(()), "addresses are checked elsewhere");
    }

    #[tokio::test]
    async fn a_name_that_stands_for_an_address_inside_is_not_found() {
        let name = "localhost".parse().unwrap();
        let error = PublicOnly.resolve(name).await.err().expect("no public address");
        assert_eq!(error.to_string(), "localhost has no public address");
    }
}
