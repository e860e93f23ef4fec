//! The temporary directory of a benchmark.

use anyhow::Context;
use fairgate::config::{Config, Sources};
use std::path::{Path, PathBuf};

/// A temporary directory, removed when dropped.
pub struct Directory(PathBuf);

impl Directory {
    pub fn create() -> anyhow::Result<Directory> {
        let path = std::env::temp_dir().join(format!("fairgate-bench-{}", fairgate::domain::job::id::generate()));
        std::fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Directory(path))
    }

    /// Creates one with a configuration file, which a server started in this directory reads.
    pub fn with_config(text: &str) -> anyhow::Result<Directory> {
        let directory = Directory::create()?;
        std::fs::write(directory.0.join("fairgate.toml"), text)?;
        Ok(directory)
    }

    /// Reads the configuration file and ignores the environment.
    pub fn config(&self) -> anyhow::Result<Config> {
        Ok(Config::load(&Sources { directory: self.0.clone(), ..Sources::default() })?)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {error}", self.0.display());
        }
    }
}
