//! The HTTP client with which fairgate calls its user's endpoints.

use reqwest::ClientBuilder;
use reqwest::redirect::Policy;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use std::time::Duration;

const USER_AGENT: &str = concat!("fairgate/", env!("CARGO_PKG_VERSION"));
/// How long one attempt to connect may take; the deadline of a request is set beside it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Connections kept open to a host that nobody uses now, and for how long.
const MOST_IDLE: usize = 4;
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// A client; clones share its connections.
pub type Client = reqwest::Client;

/// A client that talks to whom it is told and to nobody else: it follows no redirect and asks no proxy of the environment.
pub fn client_builder() -> ClientBuilder {
    ClientBuilder::new()
        .user_agent(USER_AGENT)
        .redirect(Policy::none())
        .no_proxy()
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_max_idle_per_host(MOST_IDLE)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .tls_backend_preconfigured(tls())
}

/// Names its provider itself: the process-wide one is installed by `main`, and without it a client panics.
fn tls() -> ClientConfig {
    let roots: RootCertStore = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
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
        // A configuration of another rustls than reqwest's own would be refused here.
        client_builder().build().unwrap();
    }
}
