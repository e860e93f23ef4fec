//! Counts of Redis commands from `INFO commandstats`.

use crate::resp::{Reply, Resp};
use anyhow::bail;
use std::collections::BTreeMap;

/// Commands that only carry others (script calls), and the `INFO` of the benchmark itself.
const NOT_COUNTED: [&str; 4] = ["fcall", "eval", "evalsha", "info"];

/// Calls of each command so far.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    calls: BTreeMap<String, u64>,
}

impl Commands {
    pub fn read(redis: &mut Resp) -> anyhow::Result<Commands> {
        match redis.call(&["INFO", "commandstats"])? {
            Reply::Text(info) => Ok(Commands::parse(&info)),
            other => bail!("unexpected reply to INFO: {other:?}"),
        }
    }

    /// Parses lines such as `cmdstat_zadd:calls=3,usec=12,…`; subcommands are `cmdstat_config|get:…`.
    fn parse(info: &str) -> Commands {
        let line = |line: &str| {
            let (name, numbers) = line.strip_prefix("cmdstat_")?.split_once(':')?;
            let calls = numbers.split(',').find_map(|number| number.strip_prefix("calls="))?;
            Some((name.to_owned(), calls.parse().ok()?))
        };
        Commands { calls: info.lines().filter_map(line).collect() }
    }

    /// Calls of one command.
    pub fn of(&self, name: &str) -> u64 {
        self.calls.get(name).copied().unwrap_or(0)
    }

    /// Calls of scripts.
    pub fn scripts(&self) -> u64 {
        self.of("fcall") + self.of("evalsha") + self.of("eval")
    }

    /// Calls of all commands on data, inside scripts or not.
    pub fn total(&self) -> u64 {
        self.calls.iter().filter(|(name, _)| !NOT_COUNTED.contains(&name.as_str())).map(|(_, calls)| calls).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_scripts_count_but_not_script_calls_and_info() {
        let commands = Commands::parse(
            "# Commandstats\r\ncmdstat_zadd:calls=3,usec=12,usec_per_call=4.00,rejected_calls=0,failed_calls=0\r\n\
             cmdstat_config|set:calls=1,usec=2\r\ncmdstat_fcall:calls=4,usec=90\r\ncmdstat_evalsha:calls=1,usec=9\r\ncmdstat_eval:calls=1,usec=9\r\n\
             cmdstat_info:calls=7,usec=70\r\n",
        );
        assert_eq!((commands.total(), commands.scripts(), commands.of("zadd"), commands.of("get")), (4, 6, 3, 0));
    }
}
