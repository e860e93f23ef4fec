//! Migrations of stored data that an older version wrote.
//!
//! Each is one script, which checks the schema, changes the data and sets the next schema. So a
//! migration happens entirely or not at all, and may be repeated. Processes of the older version
//! must have stopped: they would continue to write the old format.

use super::RawConnection;
use super::health::ask;
use crate::store::{Error, SCHEMA, reply};

/// A migration from one schema to the next.
struct Migration {
    from: &'static str,
    script: &'static str,
}

const MIGRATIONS: &[Migration] = &[Migration { from: "3", script: include_str!("../migrations/3.lua") }];

/// Returns true if data with this schema can be migrated to the present one.
pub(super) fn is_known(schema: &str) -> bool {
    MIGRATIONS.iter().any(|migration| migration.from == schema)
}

/// Migrates data step by step to the present schema. Returns the schema of the data afterwards,
/// which is the same as before if no migration begins with it.
pub(super) async fn migrate(connection: &mut RawConnection, key: &str, schema: String) -> Result<String, Error> {
    let mut reached = schema.clone();
    while let Some(migration) = MIGRATIONS.iter().find(|migration| migration.from == reached) {
        let prefix = key.strip_suffix("schema").unwrap_or(key);
        let reply = ask(connection, "EVAL", &[migration.script, "1", key, prefix]).await?;
        reached = reply::text(reply, "migration")?;
    }
    if reached == SCHEMA && schema != SCHEMA {
        tracing::info!(from = schema, to = reached, "stored data migrated");
    }
    Ok(reached)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_lead_to_the_present_schema_one_by_one() {
        let schemas: Vec<u32> = MIGRATIONS.iter().map(|migration| migration.from.parse().unwrap()).collect();
        let last: u32 = SCHEMA.parse().unwrap();
        assert_eq!(schemas, (schemas[0]..last).collect::<Vec<_>>());
    }
}
