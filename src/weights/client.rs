//! The HTTP client for calls to the user's endpoints.

use reqwest::ClientBuilder;
use reqwest::redirect::Policy;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use std::time::Duration;

pub(super) const USER_AGENT: &str = concat!("fairgate/", env!("CARGO_PKG_VERSION"));
/// Maximum time to connect; the deadline of a request is separate.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of idle connections per host, and the time for which they are kept.
const MOST_IDLE: usize = 4;
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// An HTTP client; clones share the connections.
pub type Client = reqwest::Client;

/// Returns the builder of a client that follows no redirects and ignores proxy settings of the
/// environment.
pub fn client_builder() -> ClientBuilder {
    builder(webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect())
}

/// Returns the builder of a client that trusts only the given PEM certificates. Returns a message
/// if they are invalid.
pub fn client_builder_trusting(certificates: &[u8]) -> Result<ClientBuilder, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(certificates) {
        let certificate = certificate.map_err(|error| format!("the certificates are not valid PEM: {error}"))?;
        roots.add(certificate).map_err(|error| format!("a certificate cannot be used: {error}"))?;
    }
    if roots.is_empty() { Err("no certificate found".to_owned()) } else { Ok(builder(roots)) }
}

/// Returns an error with its causes, without the URL that reqwest would add.
pub fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn builder(roots: RootCertStore) -> ClientBuilder {
    ClientBuilder::new()
        .user_agent(USER_AGENT)
        .redirect(Policy::none())
        .no_proxy()
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_max_idle_per_host(MOST_IDLE)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .tls_backend_preconfigured(tls(roots))
}

/// Specifies the provider explicitly: the process-wide one is installed by `main`, and clients
/// elsewhere would panic without it.
fn tls(roots: RootCertStore) -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring speaks TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_no_process_wide_provider() {
        // This would fail if the configuration came from another rustls version than reqwest's.
        client_builder().build().unwrap();
    }

    #[test]
    fn trusts_whom_it_is_told_to_trust() {
        let authority = rcgen::generate_simple_self_signed(["h".to_owned()]).unwrap();
        assert!(client_builder_trusting(authority.cert.pem().as_bytes()).unwrap().build().is_ok());
        for (text, part) in [
            ("", "no certificate found"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "cannot be used"),
            ("-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n", "not valid PEM"),
        ] {
            let refused = client_builder_trusting(text.as_bytes()).err().unwrap_or_default();
            assert!(refused.contains(part), "{refused}");
        }
    }
}
