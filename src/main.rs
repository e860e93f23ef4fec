//! The command line program.

fn main() -> std::process::ExitCode {
    // Only an earlier call could make this fail, and there is none.
    _ = rustls::crypto::ring::default_provider().install_default();
    fairgate::cli::run()
}
