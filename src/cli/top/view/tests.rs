use super::*;
use crate::cli::top::poll::{Figures, Reading};
use crate::cli::top::state::Event;
use crate::cli::top::text::lines;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::{Value, json};
use std::time::Duration;

fn rule(name: &str, staged: u64) -> Value {
    json!({
        "rule": name,
        "state": "running",
        "staged": {"jobs": staged, "tenants": 3, "oldest_age_ms": 4200},
        "gate": {"open": staged < 1000, "reason": (staged >= 1000).then_some("latency"), "latency_threshold_ms": 5000},
        "main_queue": {"latency_ms": 120, "depth": 7, "drain_per_s": 12.5},
        "rounds": {"promoted_total": 900},
    })
}

fn figures(rules: &[Value]) -> Figures {
    Figures {
        report: json!({
            "verdict": "warning",
            "summary": "1 warning; 2 rules, 3 queues and 0 limits examined",
            "generated_at": "2027-01-15T08:00:00.000Z",
        }),
        rules: json!({"items": rules, "pagination": {"total": rules.len()}}),
        ..Figures::default()
    }
}

fn update(state: &mut State, outcome: Result<Figures, Failure>, now_ms: u64) {
    let tab = state.tab;
    _ = state.update(Event::Read(Box::new(Reading { tab, outcome })), now_ms);
}

fn press(state: &mut State, keys: &str) {
    for key in keys.chars() {
        _ = state.update(Event::Key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE)), 0);
    }
}

fn empty() -> State {
    State::new("http://127.0.0.1:8080".to_owned(), Duration::from_secs(2))
}

fn state() -> State {
    let mut state = empty();
    update(&mut state, Ok(figures(&[rule("reports", 1200), rule("mail", 3)])), 0);
    state
}

fn draw_at(state: &State, now_ms: u64, width: u16, height: u16) -> Terminal<TestBackend> {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let screen = Screen { state, now_ms, look: Look::Coloured };
    let Ok(_) = terminal.draw(|frame| screen.draw(frame, &mut Scroll::default()));
    terminal
}

fn screen(state: &State, width: u16, height: u16) -> Vec<String> {
    lines(draw_at(state, 0, width, height).backend().buffer())
}

/// The style of a cell.
fn style(state: &State, look: Look, line: u16) -> Style {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(100, 12));
    let Ok(_) = terminal.draw(|frame| Screen { state, now_ms: 0, look }.draw(frame, &mut Scroll::default()));
    terminal.backend().buffer()[(0, line)].style()
}

#[test]
fn the_screen_shows_the_server_its_verdict_and_the_rows() {
    assert_eq!(
        screen(&state(), 120, 8),
        [
            "08:00:00 UTC  http://127.0.0.1:8080",
            "warning: 1 warning; 2 rules, 3 queues and 0 limits examined",
            " 1 Rules  2 Tenants  3 Queues  4 Limits  5 Workers",
            "RULE     STATE     STAGED   TENANTS   OLDEST  OPEN   CLOSED BY    LATENCY   OF   DEPTH   JOBS/S   PROMOTED",
            "reports  running     1200         3    4.2 s  no     latency       120 ms  5 s       7     12.5        900",
            "mail     running        3         3    4.2 s  yes    -             120 ms  5 s       7     12.5        900",
            "",
            "? keys  q quit                                                                                                    1 of 2",
        ]
        .map(|line| line.to_owned()),
    );
}

#[test]
fn a_small_terminal_shows_the_columns_that_fit() {
    let shown = screen(&state(), 40, 10);
    assert_eq!(shown[2], " 1 Rules  2 Tenants  3 Queues  4 Limits");
    assert_eq!(shown[3], "RULE     STATE     STAGED   TENANTS");
    assert_eq!(shown[4], "reports  running     1200         3");
    assert_eq!(shown[9], "? keys  q quit                    1 of 2");
    for (width, height) in [(1, 1), (3, 2), (10, 3), (12, 5), (500, 1)] {
        assert_eq!(screen(&state(), width, height).len(), usize::from(height), "{width} x {height}");
    }
}

#[test]
fn the_keys_fit_on_a_small_terminal() {
    let mut state = state();
    press(&mut state, "?");
    let shown = screen(&state, 40, 10);
    assert!(shown[0].starts_with("1-5 Tab") && shown[9].starts_with("q Ctrl-C"), "{shown:?}");
    assert!(HELP.iter().all(|(key, effect)| key.len() <= 10 && effect.len() <= 29));
    press(&mut state, "x");
    assert!(screen(&state, 40, 10)[0].contains("UTC"));
}

#[test]
fn the_selected_row_is_visible_however_many_there_are() {
    let rules: Vec<Value> = (0..150).map(|number| rule(&format!("rule-{number:03}"), 1)).collect();
    let mut state = empty();
    update(&mut state, Ok(figures(&rules)), 0);
    press(&mut state, &"j".repeat(140));
    let shown = screen(&state, 100, 10);
    assert!(shown.iter().any(|line| line.starts_with("rule-140")), "{shown:?}");
    assert!(shown[9].ends_with("141 of 150"));
}

#[test]
fn sorting_marks_its_column_and_orders_the_rows() {
    let mut state = state();
    press(&mut state, "s");
    let shown = screen(&state, 100, 10);
    assert!(shown[3].starts_with("RULE↑"), "{shown:?}");
    assert!(shown[4].starts_with("mail") && shown[5].starts_with("reports"));
    press(&mut state, "r");
    assert!(screen(&state, 100, 10)[3].starts_with("RULE↓"));
    press(&mut state, "ss");
    let shown = screen(&state, 100, 10);
    assert!(shown[3].contains("STAGED↓") && shown[4].starts_with("reports"), "{shown:?}");
}

#[test]
fn the_filter_is_shown_with_what_it_leaves() {
    let mut state = state();
    press(&mut state, "/mai");
    let shown = screen(&state, 100, 10);
    assert!(shown[4].starts_with("mail") && shown[5].is_empty(), "{shown:?}");
    assert!(shown[9].starts_with("/mai_") && shown[9].ends_with("1 of 1 shown, 2 in all"), "{shown:?}");
    press(&mut state, "x");
    assert_eq!(screen(&state, 100, 10)[3], "no entry contains \"maix\"; Esc shows all");
}

#[test]
fn a_question_names_its_object() {
    let mut state = state();
    press(&mut state, "p");
    assert_eq!(screen(&state, 100, 10)[9].split("?").next(), Some("pause rule \"reports\""));
}

#[test]
fn a_paused_screen_says_so_with_its_age() {
    let mut state = state();
    press(&mut state, " ");
    let shown = lines(draw_at(&state, 150_000, 100, 10).backend().buffer());
    assert_eq!(shown[0], "08:00:00 UTC  2 min 30 s old  not refreshing  http://127.0.0.1:8080");
}

#[test]
fn a_server_that_is_away_leaves_the_rows_and_their_age() {
    let mut state = state();
    update(&mut state, Err(Failure::Away("connection refused".to_owned())), 9000);
    let shown = lines(draw_at(&state, 9000, 100, 10).backend().buffer());
    assert_eq!(shown[0], "08:00:00 UTC  9 s old  http://127.0.0.1:8080");
    assert_eq!(shown[1], "trying again: no answer from the server (connection refused)");
    assert!(shown[4].starts_with("reports"));
}

#[test]
fn a_refused_key_is_shown_with_what_to_do_on_any_terminal() {
    let mut state = empty();
    update(&mut state, Err(Failure::Refused("HTTP 401\u{7}".to_owned())), 0);
    let shown = screen(&state, 40, 10);
    assert_eq!(
        shown[1..4].join(" "),
        "API key refused; use FAIRGATE_API_KEY or --key-file with a key of role operator or admin (HTTP 401\u{fffd})"
    );
    assert_eq!(screen(&state, 120, 10)[2].trim(), "1 Rules  2 Tenants  3 Queues  4 Limits  5 Workers", "one line");
}

#[test]
fn an_empty_server_is_described() {
    let mut state = empty();
    assert_eq!(screen(&state, 100, 10)[1], "waiting for the server");
    for (key, text) in [
        ("1", "there is no plan rule"),
        ("2", "there is no plan rule"),
        ("3", "there is no queue"),
        ("4", "there is no limit"),
        ("5", "there is no worker"),
    ] {
        press(&mut state, key);
        let list = (!["1", "2"].contains(&key)).then(|| json!({"items": []}));
        update(&mut state, Ok(Figures { list, ..figures(&[]) }), 0);
        assert_eq!(screen(&state, 100, 10)[3], text, "view {key}");
    }
}

#[test]
fn text_of_the_server_cannot_control_the_terminal() {
    let mut state = empty();
    update(&mut state, Ok(figures(&[rule("a\u{1b}[2J\u{9b}1mb\n", 1)])), 0);
    press(&mut state, "2");
    let shown = screen(&state, 100, 10).concat();
    assert!(shown.contains("of a\u{fffd}[2J\u{fffd}1mb\u{fffd}"), "{shown}");
    assert!(!shown.chars().any(char::is_control));
}

#[test]
fn colours_are_left_out_without_hiding_what_they_say() {
    let state = state();
    assert_eq!(style(&state, Look::Coloured, 1).fg, Some(Color::Yellow));
    let plain = style(&state, Look::Plain, 1);
    assert_eq!(plain.fg, Some(Color::Reset));
    assert!(plain.add_modifier.contains(Modifier::BOLD));
    let selected = style(&state, Look::Plain, 4);
    assert!(selected.add_modifier.contains(Modifier::REVERSED));
}

#[test]
fn lines_break_at_spaces_and_end_after_the_last_one() {
    assert_eq!(wrapped("a bc def g", 4, 3), ["a bc", "def", "g"]);
    assert_eq!(wrapped("abcdef g h i", 3, 2), ["abcdef", "g h"]);
    assert_eq!(wrapped("", 0, 3), [""]);
}
