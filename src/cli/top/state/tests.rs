use super::*;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::json;

/// An answer with two rules, of which the first one is paused, and a list for the view.
fn figures(promoted: u64, list: Option<Value>) -> Figures {
    let rule = |name: &str, state: &str| json!({"rule": name, "state": state, "rounds": {"promoted_total": promoted}});
    Figures {
        report: json!({"verdict": "ok", "summary": "nothing", "generated_at": "2027-01-15T08:00:00.000Z"}),
        rules: json!({"items": [rule("mail", "paused"), rule("reports", "running")], "pagination": {"total": 2}}),
        list,
        rule: None,
    }
}

fn read(state: &mut State, figures: Figures, now_ms: u64) -> Effect {
    let tab = state.tab;
    state.update(Event::Read(Box::new(Reading { tab, outcome: Ok(figures) })), now_ms)
}

fn fail(state: &mut State, failure: Failure) {
    let tab = state.tab;
    _ = state.update(Event::Read(Box::new(Reading { tab, outcome: Err(failure) })), 60_000);
}

fn state() -> State {
    let mut state = State::new("http://127.0.0.1:8080".to_owned(), Duration::from_secs(2));
    assert_eq!(read(&mut state, figures(10, None), 1000), Effect::Nothing);
    state
}

fn press(state: &mut State, code: KeyCode) -> Effect {
    state.update(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)), 0)
}

fn type_text(state: &mut State, text: &str) {
    text.chars().for_each(|letter| _ = press(state, KeyCode::Char(letter)));
}

fn tenants(rule: &str, names: &[&str]) -> Figures {
    let items: Vec<Value> = names.iter().map(|name| json!({"tenant_id": name, "queue": rule})).collect();
    Figures { rule: Some(rule.to_owned()), ..figures(10, Some(json!({"items": items}))) }
}

#[test]
fn enter_shows_the_tenants_of_the_selected_rule_and_esc_goes_back() {
    let mut state = state();
    press(&mut state, KeyCode::Char('j'));
    assert_eq!(press(&mut state, KeyCode::Enter), Effect::Read);
    assert_eq!(state.question(), Question { tab: Tab::Tenants, rule: Some("reports".to_owned()) });
    assert_eq!(read(&mut state, tenants("reports", &["acme", "noisy"]), 2000), Effect::Nothing);
    assert_eq!(state.rows().shown().len(), 2);
    assert_eq!(press(&mut state, KeyCode::Esc), Effect::Read);
    assert_eq!((state.tab, state.rule()), (Tab::Rules, Some("reports")));
}

#[test]
fn tenants_of_another_rule_are_not_shown() {
    let mut state = state();
    press(&mut state, KeyCode::Enter);
    assert_eq!(read(&mut state, tenants("reports", &["acme"]), 2000), Effect::Read);
    assert_eq!(state.rows().shown().len(), 0);
    read(&mut state, tenants("mail", &["acme"]), 3000);
    assert_eq!(state.rows().shown().len(), 1);
    press(&mut state, KeyCode::Esc);
    press(&mut state, KeyCode::Down);
    press(&mut state, KeyCode::Char('2'));
    assert_eq!(state.rows().shown().len(), 0, "those of mail are forgotten");
}

#[test]
fn a_rule_that_disappears_is_reported() {
    let mut state = State::new("http://127.0.0.1:8080".to_owned(), Duration::from_secs(2));
    state.open(Tab::Tenants, Some("invoices".to_owned()));
    assert_eq!(read(&mut state, tenants("mail", &["acme"]), 2000), Effect::Nothing);
    assert_eq!(state.notice.as_deref(), Some("rule \"invoices\" does not exist"));
}

#[test]
fn a_filter_of_rules_that_hides_all_does_not_cause_more_readings() {
    let mut state = state();
    press(&mut state, KeyCode::Char('/'));
    type_text(&mut state, "nothing");
    press(&mut state, KeyCode::Enter);
    assert_eq!(state.rule(), Some("reports"), "the last one that matched, because it is running");
    press(&mut state, KeyCode::Char('2'));
    assert_eq!(read(&mut state, tenants("reports", &["acme"]), 2000), Effect::Nothing);
    let gone = Figures { rules: json!({"items": [{"rule": "new"}]}), ..tenants("new", &["acme"]) };
    assert_eq!(read(&mut state, gone, 3000), Effect::Nothing);
}

#[test]
fn digits_tab_and_arrows_choose_the_view() {
    let mut state = state();
    for (code, tab) in [
        (KeyCode::Char('5'), Tab::Workers),
        (KeyCode::Tab, Tab::Rules),
        (KeyCode::BackTab, Tab::Workers),
        (KeyCode::Char('3'), Tab::Queues),
        (KeyCode::Right, Tab::Limits),
        (KeyCode::Left, Tab::Queues),
    ] {
        assert_eq!((press(&mut state, code), state.tab), (Effect::Read, tab));
    }
    assert_eq!((press(&mut state, KeyCode::Char('6')), state.tab), (Effect::Nothing, Tab::Queues));
}

#[test]
fn an_answer_for_another_view_does_not_change_this_one() {
    let mut state = state();
    press(&mut state, KeyCode::Char('3'));
    let reading = Reading { tab: Tab::Workers, outcome: Ok(figures(10, Some(json!({"items": [{"id": "w1"}]})))) };
    _ = state.update(Event::Read(Box::new(reading)), 2000);
    assert!(!state.rows().is_loaded);
    press(&mut state, KeyCode::Char('5'));
    assert_eq!(state.rows().shown()[0].id, "w1");
}

#[test]
fn pausing_needs_a_yes() {
    let mut state = state();
    press(&mut state, KeyCode::Down);
    assert_eq!(press(&mut state, KeyCode::Char('p')), Effect::Nothing);
    let action = Action { verb: Verb::Pause, target: Target::Rule, name: "reports".to_owned() };
    assert_eq!(state.mode, Mode::Confirm(action.clone()));
    assert_eq!(press(&mut state, KeyCode::Char('x')), Effect::Nothing);
    assert_eq!(press(&mut state, KeyCode::Char('n')), Effect::Nothing);
    assert_eq!(state.mode, Mode::Browse);
    press(&mut state, KeyCode::Char('p'));
    assert_eq!(press(&mut state, KeyCode::Char('y')), Effect::Act(action.clone()));
    assert_eq!(state.update(Event::Acted(action.clone(), Ok(())), 0), Effect::Read);
    assert_eq!(state.notice.as_deref(), Some("paused rule \"reports\""));
    let refused = Failure::Other("HTTP 404".to_owned());
    _ = state.update(Event::Acted(action, Err(refused)), 0);
    assert_eq!(state.notice.as_deref(), Some("cannot pause rule \"reports\": HTTP 404"));
}

#[test]
fn a_paused_rule_or_queue_is_resumed() {
    let mut state = state();
    press(&mut state, KeyCode::Char('p'));
    let of_rule = Action { verb: Verb::Resume, target: Target::Rule, name: "mail".to_owned() };
    assert_eq!(press(&mut state, KeyCode::Char('y')), Effect::Act(of_rule));
    press(&mut state, KeyCode::Char('3'));
    read(&mut state, figures(10, Some(json!({"items": [{"name": "slow", "paused": true}]}))), 2000);
    press(&mut state, KeyCode::Char('p'));
    let of_queue = Action { verb: Verb::Resume, target: Target::Queue, name: "slow".to_owned() };
    assert_eq!(press(&mut state, KeyCode::Char('Y')), Effect::Act(of_queue));
    press(&mut state, KeyCode::Char('5'));
    press(&mut state, KeyCode::Char('p'));
    assert_eq!(state.mode, Mode::Browse, "workers are not paused");
    assert!(state.notice.is_some());
}

#[test]
fn keys_are_text_while_a_filter_is_typed() {
    let mut state = state();
    press(&mut state, KeyCode::Char('/'));
    type_text(&mut state, "req");
    press(&mut state, KeyCode::Backspace);
    assert_eq!((state.rows().filter(), state.rows().shown().len()), ("re", 1));
    press(&mut state, KeyCode::Enter);
    assert_eq!((&state.mode, state.rows().filter()), (&Mode::Browse, "re"));
    press(&mut state, KeyCode::Esc);
    assert_eq!(state.rows().shown().len(), 2);
    press(&mut state, KeyCode::Char('/'));
    type_text(&mut state, &"x".repeat(500));
    assert!(state.rows().filter().len() < 100);
    press(&mut state, KeyCode::Esc);
    assert_eq!((&state.mode, state.rows().filter()), (&Mode::Browse, ""));
}

#[test]
fn space_stops_and_continues_refreshing() {
    let mut state = state();
    assert_eq!(press(&mut state, KeyCode::Char(' ')), Effect::Nothing);
    assert!(state.is_paused && state.is_stale(1000));
    assert_eq!(press(&mut state, KeyCode::Char('3')), Effect::Read, "there is nothing to show yet");
    read(&mut state, figures(10, Some(json!({"items": []}))), 2000);
    assert_eq!(press(&mut state, KeyCode::Char('1')), Effect::Nothing);
    assert_eq!(press(&mut state, KeyCode::Char('3')), Effect::Nothing);
    assert_eq!(press(&mut state, KeyCode::Char(' ')), Effect::Read);
    assert!(!state.is_paused);
}

#[test]
fn q_and_ctrl_c_quit() {
    let mut state = state();
    assert_eq!(press(&mut state, KeyCode::Char('q')), Effect::Quit);
    press(&mut state, KeyCode::Char('/'));
    assert_eq!(press(&mut state, KeyCode::Char('q')), Effect::Nothing);
    let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(state.update(Event::Key(ctrl_c), 0), Effect::Quit);
}

#[test]
fn the_rate_comes_from_two_answers() {
    let mut state = state();
    assert_eq!(state.promoted_per_s, None);
    read(&mut state, figures(35, None), 3000);
    assert_eq!(state.promoted_per_s, Some(25.0), "2 rules with 25 jobs each in 2 s");
    read(&mut state, figures(1, None), 5000);
    assert_eq!(state.promoted_per_s, None, "the counts began again");
    read(&mut state, figures(2, None), 5000);
    assert_eq!(state.promoted_per_s, None, "no time has passed");
}

#[test]
fn figures_stay_while_the_server_is_away() {
    let mut state = state();
    assert!(!state.is_stale(5000) && state.is_stale(7000));
    fail(&mut state, Failure::Away("connection refused".to_owned()));
    assert_eq!((state.rows().shown().len(), state.age(60_000)), (2, Some(Duration::from_secs(59))));
    assert!(state.is_stale(1000) && state.failure.is_some());
    read(&mut state, figures(10, None), 61_000);
    assert_eq!((state.failure.as_ref(), state.is_stale(61_000)), (None, false));
}

#[test]
fn the_verdict_has_no_control_characters() {
    let report = json!({"verdict": "critical", "summary": "rule \u{1b}[2J", "generated_at": "?"});
    let health = Health::of(&report);
    assert_eq!((health.tone, health.summary.as_str(), health.time.as_str()), (Tone::Critical, "rule \u{fffd}[2J", ""));
    assert_eq!(Health::of(&json!("not a report")).verdict, "");
}
