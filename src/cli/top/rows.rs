//! The rows of a view: their order, the filter and the selection.

use super::tab::Tab;
use crate::cli::lists::column::Column;
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::HashMap;

/// A row.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) item: Value,
    /// The text of each column.
    pub(super) cells: Vec<String>,
}

/// The rows of a view. Rows keep their places when their figures change, unless they are sorted.
#[derive(Debug)]
pub(super) struct Rows {
    tab: Tab,
    rows: Vec<Row>,
    /// The number of entries that the server has, which may be more than those here.
    pub(super) total: usize,
    /// False until the first answer of the server.
    pub(super) is_loaded: bool,
    sort: Option<usize>,
    is_reversed: bool,
    filter: String,
    /// Identity of the selected row, which may not be there.
    selected: Option<String>,
    /// The last position of the selected row, which another one inherits if it disappears.
    position: usize,
}

impl Rows {
    pub(super) fn new(tab: Tab) -> Rows {
        Rows {
            tab,
            rows: Vec::new(),
            total: 0,
            is_loaded: false,
            sort: None,
            is_reversed: false,
            filter: String::new(),
            selected: None,
            position: 0,
        }
    }

    /// Replaces the rows by those of an answer. Rows that were there keep their places, and new ones
    /// follow in the order of the server.
    pub(super) fn replace(&mut self, answer: &Value) {
        let items = answer["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let places: HashMap<String, usize> =
            self.rows.drain(..).enumerate().map(|(place, row)| (row.id, place)).collect();
        self.rows = items.iter().map(|item| self.row(item)).collect();
        self.rows.sort_by_key(|row| places.get(&row.id).copied().unwrap_or(usize::MAX));
        let total = answer.pointer("/pagination/total").and_then(Value::as_u64);
        self.total = total.and_then(|total| usize::try_from(total).ok()).unwrap_or(0).max(self.rows.len());
        self.is_loaded = true;
        self.settle();
    }

    /// Forgets the rows, but not the order and the filter.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.total = 0;
        self.is_loaded = false;
        self.selected = None;
        self.position = 0;
    }

    fn row(&self, item: &Value) -> Row {
        let cells = self.tab.columns().iter().map(|column| column.value(item)).collect();
        Row { id: self.tab.id(item), item: item.clone(), cells }
    }

    /// Returns the rows that match the filter, in the order of the screen.
    pub(super) fn shown(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().filter(|row| self.matches(row)).collect();
        match self.sort_column() {
            Some(column) => rows.sort_by(|a, b| compare(column, &a.item, &b.item, self.is_reversed)),
            None if self.is_reversed => rows.reverse(),
            None => {}
        }
        rows
    }

    /// The filter looks for its text in the columns of texts: numbers change all the time.
    fn matches(&self, row: &Row) -> bool {
        let columns = self.tab.columns().iter().zip(&row.cells);
        let mut texts = columns.filter(|(column, _)| !column.is_number()).map(|(_, cell)| cell.to_lowercase());
        self.filter.is_empty() || texts.any(|text| text.contains(&self.filter.to_lowercase()))
    }

    pub(super) fn columns(&self) -> &'static [Column] {
        self.tab.columns()
    }

    fn sort_column(&self) -> Option<&'static Column> {
        self.tab.columns().get(self.sort?)
    }

    /// Returns the position of the column that the rows are sorted by.
    pub(super) fn sort(&self) -> Option<usize> {
        self.sort
    }

    pub(super) fn is_reversed(&self) -> bool {
        self.is_reversed
    }

    /// Sorts by the next column, after the last one by none. Numbers begin with the largest.
    pub(super) fn sort_by_next(&mut self) {
        let next = self.sort.map_or(0, |column| column + 1);
        self.sort = (next < self.tab.columns().len()).then_some(next);
        self.is_reversed = self.sort_column().is_some_and(Column::is_number);
        self.settle();
    }

    pub(super) fn reverse(&mut self) {
        self.is_reversed = !self.is_reversed;
        self.settle();
    }

    pub(super) fn filter(&self) -> &str {
        &self.filter
    }

    pub(super) fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        self.settle();
    }

    /// Returns the selected row.
    pub(super) fn selected(&self) -> Option<&Row> {
        self.shown().get(self.position).copied()
    }

    /// Returns the identity of the selected row, or of the one that is to be selected.
    pub(super) fn wanted(&self) -> Option<&str> {
        self.selected.as_deref()
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.rows.iter().any(|row| row.id == id)
    }

    /// Returns the position of the selected row among those shown.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// Selects a row by its identity, also one that the server has not yet returned.
    pub(super) fn select(&mut self, id: String) {
        self.selected = Some(id);
        self.settle();
    }

    /// Moves the selection by a number of rows, as far as there are any.
    pub(super) fn step(&mut self, by: isize) {
        let last = self.shown().len().saturating_sub(1);
        self.position = self.position.saturating_add_signed(by).min(last);
        self.selected = self.selected().map(|row| row.id.clone());
    }

    /// Finds the selected row again, or selects the one at its place. Without any rows the selection
    /// stays as it is, for those that come.
    fn settle(&mut self) {
        let shown = self.shown();
        let found = self.selected.as_ref().and_then(|id| shown.iter().position(|row| row.id == *id));
        let position = found.unwrap_or(self.position.min(shown.len().saturating_sub(1)));
        let selected = shown.get(position).map(|row| row.id.clone());
        self.position = position;
        self.selected = selected.or(self.selected.take());
    }
}

/// Compares two items by a column. Items without a value are last in both directions.
fn compare(column: &Column, a: &Value, b: &Value, is_reversed: bool) -> Ordering {
    let (a, b) = (column.find(a), column.find(b));
    let order = match (a.as_f64(), b.as_f64()) {
        _ if a.is_null() || b.is_null() => return a.is_null().cmp(&b.is_null()),
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => match (a, b) {
            (Value::String(a), Value::String(b)) => a.cmp(b),
            (a, b) => a.to_string().cmp(&b.to_string()),
        },
    };
    if is_reversed { order.reverse() } else { order }
}

#[cfg(test)]
mod tests;
