//! `fairgate jobs`, `queues`, `tenants`, `limits`, `workers` and `planner`: lists of a running server.

pub(super) mod column;
pub(super) mod columns;
mod commands;

pub(super) use commands::{Jobs, Limits, Planner, Queues, Tenants, Workers};

use super::server::Server;
use clap::Args;
use column::Column;
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde_json::Value;
use std::process::ExitCode;

/// Options of all lists.
#[derive(Args)]
struct ListOptions {
    #[command(flatten)]
    server: Server,
    /// Print the response of the server as JSON
    #[arg(long)]
    json: bool,
    /// Most entries, 1 to 200
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=200))]
    limit: u16,
    /// Entries to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u32,
}

/// A list of the API, and the columns that show its items.
struct List {
    /// Path below `/ojs/v1`.
    path: String,
    /// Parameters of the query besides `limit` and `offset`.
    query: Vec<(&'static str, String)>,
    columns: &'static [Column],
}

impl List {
    fn url(&self, options: &ListOptions) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in &self.query {
            query.append_pair(name, value);
        }
        query.append_pair("limit", &options.limit.to_string()).append_pair("offset", &options.offset.to_string());
        format!("/ojs/v1{}?{}", self.path, query.finish())
    }

    /// Requests the list and prints it.
    fn print(&self, options: &ListOptions) -> anyhow::Result<ExitCode> {
        let client = options.server.client()?;
        let answer = super::runtime()?.block_on(client.api_get(&self.url(options)))?;
        if options.json {
            crate::cli::print(format_args!("{answer:#}"))?;
            return Ok(ExitCode::SUCCESS);
        }
        let items = answer["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        if !items.is_empty() {
            crate::cli::print(table(self.columns, items))?;
        }
        eprintln!("{}", shown(items.len(), options.offset, &answer));
        Ok(ExitCode::SUCCESS)
    }
}

fn table(columns: &[Column], items: &[Value]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(columns.iter().map(|column| Cell::new(column.title)));
    for item in items {
        table.add_row(columns.iter().map(|column| {
            let side = if column.is_number() { CellAlignment::Right } else { CellAlignment::Left };
            Cell::new(column.value(item)).set_alignment(side)
        }));
    }
    table
}

/// Returns which entries of how many were printed.
fn shown(printed: usize, offset: u32, answer: &Value) -> String {
    let total = answer.pointer("/pagination/total").and_then(Value::as_u64);
    match total {
        _ if printed == 0 => "no entries".to_owned(),
        Some(total) if total > printed as u64 => {
            let first = u64::from(offset) + 1;
            format!("entries {first} to {} of {total}; see --limit and --offset", first + printed as u64 - 1)
        }
        _ if answer["truncated"] == true => "not all entries were examined".to_owned(),
        _ if printed == 1 => "1 entry".to_owned(),
        _ => format!("{printed} entries"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_last_line_says_what_is_missing() {
        let page = |total: u64| json!({"pagination": {"total": total}});
        assert_eq!(shown(0, 0, &page(0)), "no entries");
        assert_eq!(shown(1, 0, &page(1)), "1 entry");
        assert_eq!(shown(2, 0, &page(2)), "2 entries");
        assert_eq!(shown(50, 100, &page(1000)), "entries 101 to 150 of 1000; see --limit and --offset");
        assert_eq!(shown(3, 0, &json!({"truncated": true})), "not all entries were examined");
    }

    #[test]
    fn numbers_are_aligned_to_the_right() {
        let columns = [Column::text("NAME", "/name"), Column::number("JOBS", "/jobs")];
        let items = [json!({"name": "mail", "jobs": 5}), json!({"name": "reports", "jobs": 1200})];
        let lines: Vec<String> = table(&columns, &items).lines().map(|line| line.trim_end().to_owned()).collect();
        assert_eq!(lines, [" NAME     JOBS", " mail        5", " reports  1200"]);
    }
}
