//! Raw promotion, the upper bound (ceiling) for promotion: a script that makes the same writes for picks given as
//! arguments. It is called in the same way, as a Redis function if the server supports them, over the same kind of
//! connection.

use crate::shape::{KIND, QUEUE, RULE, Shape, tenant};
use anyhow::ensure;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionAddr, cmd};
use std::collections::BTreeMap;
use std::path::Path;

const SCRIPT: &str = include_str!("raw_promotion.lua");
const FUNCTION: &str = "bench_raw_promotion";

/// The script, loaded over one connection.
pub struct RawPromotion {
    redis: MultiplexedConnection,
    verb: &'static str,
    name: String,
}

/// The jobs to promote next: tenant and the number of its jobs promoted before.
pub type Picks = Vec<(u64, u64)>;

impl RawPromotion {
    pub async fn load(socket: &Path) -> anyhow::Result<RawPromotion> {
        let client = Client::open(ConnectionAddr::Unix(socket.to_owned()))?;
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let mut redis = client.get_multiplexed_async_connection_with_config(&config).await?;
        let library =
            format!("#!lua name={FUNCTION}\nredis.register_function('{FUNCTION}', function(KEYS, ARGV)\n{SCRIPT}end)");
        if cmd("FUNCTION").arg("LOAD").arg(library).exec_async(&mut redis).await.is_ok() {
            return Ok(RawPromotion { redis, verb: "FCALL", name: FUNCTION.to_owned() });
        }
        let name = cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query_async(&mut redis).await?;
        Ok(RawPromotion { redis, verb: "EVALSHA", name })
    }

    /// The function name or digest of the script.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Builds the command that promotes these jobs of a filling.
    pub fn command(&self, shape: Shape, filling: u64, picks: &[(u64, u64)]) -> Cmd {
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
    pub async fn call(&mut self, command: &Cmd, expected: usize) -> anyhow::Result<()> {
        let promoted: usize = command.query_async(&mut self.redis).await?;
        ensure!(promoted == expected, "the raw script promoted {promoted} jobs of {expected}");
        Ok(())
    }
}
