//! The command line program.

/// A request makes some dozens of small allocations, a sixth of the server's time under the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    // Only an earlier call could make this fail, and there is none.
    _ = rustls::crypto::ring::default_provider().install_default();
    fairgate::cli::run()
}
