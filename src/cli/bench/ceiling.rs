//! What promotion could reach at most: a script that makes its writes for picks that it is told. It is called as promotion is,
//! as a function of Redis where there are some, over a connection of the same kind.

use super::shape::{KIND, QUEUE, RULE, Shape, tenant};
use anyhow::ensure;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionAddr, cmd};
use std::collections::BTreeMap;
use std::path::Path;

const SCRIPT: &str = include_str!("ceiling.lua");
const FUNCTION: &str = "bench_ceiling";

/// The script on one connection.
pub(super) struct Ceiling {
    redis: MultiplexedConnection,
    verb: &'static str,
    name: String,
}

/// Jobs that go next: tenant and how many of its jobs went before.
pub(super) type Picks = Vec<(u64, u64)>;

impl Ceiling {
    pub(super) async fn load(socket: &Path) -> anyhow::Result<Ceiling> {
        let client = Client::open(ConnectionAddr::Unix(socket.to_owned()))?;
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let mut redis = client.get_multiplexed_async_connection_with_config(&config).await?;
        let library =
            format!("#!lua name={FUNCTION}\nredis.register_function('{FUNCTION}', function(KEYS, ARGV)\n{SCRIPT}end)");
        if cmd("FUNCTION").arg("LOAD").arg(library).exec_async(&mut redis).await.is_ok() {
            return Ok(Ceiling { redis, verb: "FCALL", name: FUNCTION.to_owned() });
        }
        let name = cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query_async(&mut redis).await?;
        Ok(Ceiling { redis, verb: "EVALSHA", name })
    }

    /// What Redis knows the script by.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The command that promotes these jobs of a filling.
    pub(super) fn command(&self, shape: Shape, filling: u64, picks: &[(u64, u64)]) -> Cmd {
        let mut command = cmd(self.verb);
        command.arg(&self.name).arg(1).arg("fg:{default}:").arg(RULE).arg(QUEUE).arg(KIND);
        let mut by_tenant: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        picks.iter().for_each(|(tenant, job)| by_tenant.entry(*tenant).or_default().push(*job));
        for (number, jobs) in by_tenant {
            let after = jobs.last().map_or(0, |last| last + 1);
            command.arg(tenant(number)).arg(after).arg(after).arg(u8::from(after == shape.jobs_each)).arg(jobs.len());
            jobs.iter().for_each(|job| _ = command.arg(shape.id(filling, job * shape.tenants + number)));
        }
        command
    }

    /// Makes one call.
    pub(super) async fn call(&mut self, command: &Cmd, expected: usize) -> anyhow::Result<()> {
        let promoted: usize = command.query_async(&mut self.redis).await?;
        ensure!(promoted == expected, "the ceiling's script promoted {promoted} jobs of {expected}");
        Ok(())
    }
}
