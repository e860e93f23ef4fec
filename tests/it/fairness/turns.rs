//! The order of tenants that idle, drain, return, are held or cannot be served.

use super::model::Model;
use fairgate::domain::tenant::Weight;

fn weight(number: f64) -> Weight {
    Weight::of(number).unwrap()
}

fn picks(model: &mut Model, times: usize) -> String {
    (0..times).filter_map(|_| model.pick()).collect()
}

#[test]
fn turns_follow_the_weights() {
    let mut model = Model::default();
    model.arrive("a", weight(3.0), 30);
    model.arrive("b", weight(1.0), 30);
    assert_eq!(picks(&mut model, 8), "abaaabaa");
}

#[test]
fn equal_ones_go_by_name() {
    let mut model = Model::default();
    ["c", "a", "b"].into_iter().for_each(|name| model.arrive(name, Weight::ONE, 2));
    assert_eq!(picks(&mut model, 6), "abcabc");
}

#[test]
fn an_idle_tenant_gains_no_credit() {
    let mut model = Model::default();
    model.arrive("a", Weight::ONE, 1000);
    model.arrive("b", Weight::ONE, 1);
    picks(&mut model, 500);
    assert!(model.queue.tenant("b").is_none());
    model.arrive("b", Weight::ONE, 100);
    assert_eq!(model.queue.tenant("b").unwrap().start, model.queue.clock());
    assert_eq!(picks(&mut model, 20).matches('b').count(), 10);
}

#[test]
fn a_drained_tenant_that_comes_back_gets_no_credit() {
    let mut steady = Model::default();
    let mut dripping = Model::default();
    for model in [&mut steady, &mut dripping] {
        model.arrive("a", Weight::ONE, 300);
    }
    steady.arrive("b", Weight::ONE, 300);
    let mut got = 0;
    for _ in 0..200 {
        // One job at a time, each as soon as the last is gone, gives no advantage over a backlog.
        if dripping.queue.tenant("b").is_none_or(|tenant| tenant.jobs == 0) {
            dripping.arrive("b", Weight::ONE, 1);
        }
        got += usize::from(dripping.pick().as_deref() == Some("b"));
    }
    assert_eq!(picks(&mut steady, 200).matches('b').count(), 100);
    assert_eq!(got, 100);
}

#[test]
fn a_held_tenant_does_not_pin_the_clock() {
    let mut with = Model::default();
    let mut without = Model::default();
    for model in [&mut with, &mut without] {
        model.arrive("a", weight(2.0), 500);
        model.arrive("b", weight(1.0), 500);
    }
    with.arrive("h", weight(50.0), 500);
    picks(&mut with, 10);
    with.reweigh("h", Weight::HELD);
    picks(&mut with, 3);
    assert_eq!(with.queue.total(), 3000, "its departure time has passed");
    picks(&mut without, 30);
    let got = picks(&mut with, 300);
    assert_eq!(got.matches('a').count(), picks(&mut without, 300).matches('a').count());
    assert!(!got.contains('h'));
    with.reweigh("h", weight(50.0));
    assert_eq!(with.queue.tenant("h").unwrap().start, with.queue.clock(), "no credit for the time it was held");
}

#[test]
fn a_tenant_that_cannot_be_served_does_not_pin_the_clock() {
    let mut model = Model::default();
    model.arrive("never", Weight::HELD, 7);
    model.arrive("a", Weight::ONE, 50);
    model.arrive("b", Weight::ONE, 50);
    let before = model.queue.clock();
    picks(&mut model, 10);
    assert_eq!(model.queue.clock() - before, 5.0);
    model.drain();
    assert_eq!(model.queue.tenant("never").unwrap().jobs, 7);
    assert_eq!((model.queue.waiting(), model.pick()), (0, None));
    model.reweigh("never", Weight::ONE);
    assert_eq!(picks(&mut model, 9).len(), 7 * "never".len());
}

#[test]
fn holding_gives_no_advantage() {
    let mut model = Model::default();
    model.arrive("a", Weight::ONE, 500);
    model.arrive("b", Weight::ONE, 500);
    let mut got = 0;
    for _ in 0..200 {
        let served = model.pick().unwrap();
        if served == "b" {
            got += 1;
            model.reweigh("b", Weight::HELD);
            model.reweigh("b", Weight::ONE);
        }
    }
    assert_eq!(got, 100);
}

#[test]
fn removal_is_not_charged() {
    let mut model = Model::default();
    model.arrive("a", Weight::ONE, 10);
    model.arrive("b", Weight::ONE, 10);
    let start = model.queue.tenant("b").unwrap().start;
    model.remove("b", 9);
    assert_eq!((model.queue.tenant("b").unwrap().start, model.queue.total()), (start, 2000));
    model.remove("b", 1);
    assert_eq!((model.queue.tenant("b"), model.queue.total()), (None, 1000));
}

#[test]
fn bounds_and_lags_are_reported() {
    let mut model = Model::default();
    model.arrive("a", weight(3.0), 10);
    model.arrive("b", weight(2.0), 10);
    assert_eq!(model.queue.wait_bound("b"), Some(4));
    assert_eq!(picks(&mut model, 1), "a");
    assert!((model.queue.lag("a").unwrap() + 0.4).abs() < 1e-12);
    assert!((model.queue.lag("b").unwrap() - 0.4).abs() < 1e-12);
    assert_eq!((model.queue.lag("c"), model.queue.wait_bound("c")), (None, None));
}

/// Like the scripts, which keep only the departure time of such a tenant.
#[test]
fn a_new_weight_changes_nothing_about_a_tenant_without_jobs() {
    let mut model = Model::default();
    model.arrive("a", Weight::ONE, 1);
    model.arrive("b", Weight::ONE, 10);
    assert_eq!(picks(&mut model, 1), "a");
    let before = *model.queue.tenant("a").expect("it leaves, and counts until then");
    model.reweigh("a", weight(7.0));
    assert_eq!((model.queue.tenant("a"), model.queue.total()), (Some(&before), 2000));
}
