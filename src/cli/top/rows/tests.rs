use super::*;
use serde_json::json;

/// Queues with numbers of available jobs.
fn queues(figures: &[(&str, Value)]) -> Value {
    let item = |(name, jobs): &(&str, Value)| json!({"name": name, "state": "active", "counts": {"available": jobs}});
    json!({"items": figures.iter().map(item).collect::<Vec<Value>>(), "pagination": {"total": figures.len()}})
}

fn names(rows: &Rows) -> Vec<&str> {
    rows.shown().into_iter().map(|row| row.id.as_str()).collect()
}

fn selected(rows: &Rows) -> Option<&str> {
    rows.selected().map(|row| row.id.as_str())
}

fn rows() -> Rows {
    let mut rows = Rows::new(Tab::Queues);
    rows.replace(&queues(&[("mail", json!(5)), ("billing", json!(20)), ("reports", json!(null))]));
    rows
}

fn sort_by(rows: &mut Rows, title: &str) {
    let titles = Tab::Queues.columns().iter().map(|column| column.title);
    for _ in 0..=titles.take_while(|other| *other != title).count() {
        rows.sort_by_next();
    }
}

#[test]
fn rows_keep_their_places_and_new_ones_are_last() {
    let mut rows = rows();
    rows.replace(&queues(&[("new", json!(1)), ("reports", json!(9)), ("mail", json!(0))]));
    assert_eq!(names(&rows), ["mail", "reports", "new"]);
    assert_eq!(rows.shown()[1].cells[3], "9");
}

#[test]
fn numbers_are_sorted_from_the_largest_and_missing_ones_are_last() {
    let mut rows = rows();
    sort_by(&mut rows, "AVAILABLE");
    assert_eq!(names(&rows), ["billing", "mail", "reports"]);
    rows.reverse();
    assert_eq!(names(&rows), ["mail", "billing", "reports"]);
    rows.replace(&queues(&[("mail", json!(5)), ("billing", json!(1))]));
    assert_eq!(names(&rows), ["billing", "mail"]);
}

#[test]
fn texts_are_sorted_from_a_and_the_cycle_ends_with_the_places() {
    let mut rows = rows();
    sort_by(&mut rows, "QUEUE");
    assert_eq!(names(&rows), ["billing", "mail", "reports"]);
    for _ in Tab::Queues.columns() {
        rows.sort_by_next();
    }
    assert_eq!((rows.sort(), names(&rows)), (None, vec!["mail", "billing", "reports"]));
    rows.reverse();
    assert_eq!(names(&rows), ["reports", "billing", "mail"]);
}

#[test]
fn the_selection_follows_its_row() {
    let mut rows = rows();
    rows.step(1);
    assert_eq!(selected(&rows), Some("billing"));
    sort_by(&mut rows, "QUEUE");
    assert_eq!((selected(&rows), rows.position()), (Some("billing"), 0));
    rows.reverse();
    assert_eq!((selected(&rows), rows.position()), (Some("billing"), 2));
}

#[test]
fn the_selection_stays_at_its_place_if_the_row_disappears() {
    let mut rows = rows();
    rows.step(1);
    rows.replace(&queues(&[("mail", json!(5)), ("reports", json!(1))]));
    assert_eq!(selected(&rows), Some("reports"));
    rows.replace(&queues(&[("mail", json!(5))]));
    assert_eq!(selected(&rows), Some("mail"));
    rows.replace(&queues(&[]));
    assert_eq!(selected(&rows), None);
    rows.step(1);
    rows.step(-3);
    assert_eq!(selected(&rows), None);
}

#[test]
fn the_selection_stops_at_both_ends() {
    let mut rows = rows();
    rows.step(-1);
    assert_eq!(rows.position(), 0);
    rows.step(isize::MAX);
    assert_eq!(selected(&rows), Some("reports"));
    rows.step(isize::MIN);
    assert_eq!(selected(&rows), Some("mail"));
}

#[test]
fn a_row_can_be_selected_before_it_arrives() {
    let mut rows = Rows::new(Tab::Queues);
    rows.select("billing".to_owned());
    rows.replace(&queues(&[("mail", json!(5)), ("billing", json!(1))]));
    assert_eq!(selected(&rows), Some("billing"));
}

#[test]
fn the_filter_looks_at_texts_in_any_case() {
    let mut rows = rows();
    rows.set_filter("IL".to_owned());
    assert_eq!(names(&rows), ["mail", "billing"]);
    rows.set_filter("20".to_owned());
    assert_eq!((names(&rows), selected(&rows)), (vec![], None));
    rows.set_filter(String::new());
    assert_eq!(names(&rows).len(), 3);
}

#[test]
fn the_total_may_be_larger_than_the_page() {
    let mut rows = rows();
    assert_eq!((rows.total, rows.is_loaded), (3, true));
    rows.replace(&json!({"items": [{"name": "mail"}], "pagination": {"total": 900}}));
    assert_eq!(rows.total, 900);
    rows.replace(&json!({"error": "something else"}));
    assert_eq!((rows.total, names(&rows).len()), (0, 0));
}
