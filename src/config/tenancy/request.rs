//! Settings of tenants in the bodies of requests.

use super::{read_limits, read_terms};
use crate::config::convert::Refused;
use crate::config::policy::{finish, table};
use crate::config::problem::Problem;
use crate::config::reader::SettingsReader;
use crate::config::tree::{Kind, Table};
use crate::domain::tenant::{TenantLimits, TenantSettings};

/// Maximum length in bytes of the reason for a change.
const LONGEST_REASON: usize = 1000;

/// Members of answers that cannot be set.
const READ_ONLY: [&str; 6] = ["source", "tier", "jobs", "total_jobs", "changes", "created_at"];

/// Removes members that only answers have, and those that are `null`.
fn tidy(table: &mut Table) {
    table.retain(|key, value| !READ_ONLY.contains(&key.as_str()) && !matches!(value.kind, Kind::Null));
}

/// Reads all settings of a tenant, and the reason for the change if there is one. Absent settings
/// get their defaults.
pub fn tenant_from_json(id: &str, json: serde_json::Value) -> Result<(TenantSettings, Option<String>), Vec<Problem>> {
    let mut table = table(json, "the terms of a tenant")?;
    tidy(&mut table);
    // An answer contains all members twice.
    table.remove("tenant");
    finish(&table, |reader| {
        let named: Option<String> = reader.find("tenant_id");
        if named.is_some_and(|named| named != id) {
            reader.refuse("tenant_id", Refused::new(format!("\"{id}\" as in the path")));
        }
        let reason = read_reason(reader);
        (read_terms(reader), reason)
    })
}

/// Reads a change of a tenant's limits, and the reason if there is one. Absent limits stay, `null`
/// removes a limit.
pub fn limits_from_json(
    json: serde_json::Value,
    current: &TenantLimits,
) -> Result<(TenantLimits, Option<String>), Vec<Problem>> {
    let table = table(json, "limits of a tenant")?;
    finish(&table, |reader| {
        let reason = if reader.is_null("reason") { None } else { read_reason(reader) };
        (read_limits(reader, current), reason)
    })
}

/// Reads the reason for a change.
fn read_reason(reader: &mut SettingsReader<'_>) -> Option<String> {
    reader.find_such("reason", "a text of at most 1000 bytes", |text: &String| text.len() <= LONGEST_REASON)
}
