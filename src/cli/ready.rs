//! `fairgate ready`.

use super::Settings;
use anyhow::Context;
use clap::Args;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

/// Timeout of each step of the request.
const DEADLINE: Duration = Duration::from_secs(3);

/// Check that a running server is ready.
///
/// Sends GET /ready to server.listen of the configuration (to loopback if it listens on all
/// addresses). Requires no API key. Suited for Docker's HEALTHCHECK and Kubernetes' exec probes, in
/// images without curl.
///
/// Exit status: 0 if the server is ready; 1 if it is not, or does not answer within 3 seconds, with
/// the reason on standard error; 64 if the configuration is invalid.
#[derive(Args)]
pub(super) struct Ready {
    #[command(flatten)]
    settings: Settings,
}

impl Ready {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let address = match self.settings.load() {
            Ok(loaded) => reachable(loaded.config.server.listen),
            Err(code) => return Ok(code),
        };
        let answer = ask(address).with_context(|| format!("not ready: no answer from http://{address}/ready"))?;
        if is_ok(&answer) {
            return Ok(ExitCode::SUCCESS);
        }
        anyhow::bail!("not ready: {}", answer.lines().last().unwrap_or_default())
    }
}

/// Returns the address at which a server that listens on `listen` is reachable from the same
/// machine.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// Requests `/ready` and returns the whole response as text, up to 64 KiB.
fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, DEADLINE)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.set_write_timeout(Some(DEADLINE))?;
    write!(stream, "GET /ready HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(1 << 16).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn is_ok(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 200 ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_all_addresses_is_asked_on_loopback() {
        for (listen, asked) in [
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:80", "[::1]:80"),
            ("127.0.0.1:9", "127.0.0.1:9"),
            ("10.0.0.7:80", "10.0.0.7:80"),
        ] {
            assert_eq!(reachable(listen.parse().unwrap()).to_string(), asked);
        }
    }

    #[test]
    fn only_status_200_is_ready() {
        assert!(is_ok("HTTP/1.1 200 OK\r\n\r\n"));
        for answer in ["", "HTTP/1.1 503 Service Unavailable\r\n", "SSH-2.0\r\n"] {
            assert!(!is_ok(answer), "{answer}");
        }
    }
}
