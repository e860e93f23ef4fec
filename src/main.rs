//! The command line program.

/// A request makes some dozens of small allocations, a sixth of the server's time under the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    // Huge pages under the allocator's arenas make 3 MiB of use 20 MiB of memory; Redis, our child, asks for the same. Where
    // the system refuses, only that is lost.
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_thp_disable(true);
    // Only an earlier call could make this fail, and there is none.
    _ = rustls::crypto::ring::default_provider().install_default();
    fairgate::cli::run()
}
