//! Whose turn it is when tenants idle, drain, return, are held or cannot be served.

use super::bench::Bench;
use fairgate::fairness::Weight;

fn weight(number: f64) -> Weight {
    Weight::of(number).unwrap()
}

fn picks(bench: &mut Bench, times: usize) -> String {
    (0..times).filter_map(|_| bench.pick()).collect()
}

#[test]
fn turns_follow_the_weights() {
    let mut bench = Bench::default();
    bench.arrive("a", weight(3.0), 30);
    bench.arrive("b", weight(1.0), 30);
    assert_eq!(picks(&mut bench, 8), "abaaabaa");
}

#[test]
fn equal_ones_go_by_name() {
    let mut bench = Bench::default();
    ["c", "a", "b"].into_iter().for_each(|name| bench.arrive(name, Weight::ONE, 2));
    assert_eq!(picks(&mut bench, 6), "abcabc");
}

#[test]
fn an_idle_tenant_gains_no_credit() {
    let mut bench = Bench::default();
    bench.arrive("a", Weight::ONE, 1000);
    bench.arrive("b", Weight::ONE, 1);
    picks(&mut bench, 500);
    assert!(bench.queue.tenant("b").is_none());
    bench.arrive("b", Weight::ONE, 100);
    assert_eq!(bench.queue.tenant("b").unwrap().start, bench.queue.clock());
    assert_eq!(picks(&mut bench, 20).matches('b').count(), 10);
}

#[test]
fn a_drained_tenant_that_comes_back_gets_no_credit() {
    let mut steady = Bench::default();
    let mut dripping = Bench::default();
    for bench in [&mut steady, &mut dripping] {
        bench.arrive("a", Weight::ONE, 300);
    }
    steady.arrive("b", Weight::ONE, 300);
    let mut got = 0;
    for _ in 0..200 {
        // One job at a time, as soon as the last has gone: no better than a backlog.
        if dripping.queue.tenant("b").is_none_or(|tenant| tenant.jobs == 0) {
            dripping.arrive("b", Weight::ONE, 1);
        }
        got += usize::from(dripping.pick().as_deref() == Some("b"));
    }
    assert_eq!(picks(&mut steady, 200).matches('b').count(), 100);
    assert_eq!(got, 100);
}

#[test]
fn a_held_tenant_pins_nothing() {
    let mut with = Bench::default();
    let mut without = Bench::default();
    for bench in [&mut with, &mut without] {
        bench.arrive("a", weight(2.0), 500);
        bench.arrive("b", weight(1.0), 500);
    }
    with.arrive("h", weight(50.0), 500);
    picks(&mut with, 10);
    with.reweigh("h", Weight::HELD);
    picks(&mut with, 3);
    assert_eq!(with.queue.total(), 3000, "its leaving time is over");
    picks(&mut without, 30);
    let got = picks(&mut with, 300);
    assert_eq!(got.matches('a').count(), picks(&mut without, 300).matches('a').count());
    assert!(!got.contains('h'));
    with.reweigh("h", weight(50.0));
    assert_eq!(with.queue.tenant("h").unwrap().start, with.queue.clock(), "no credit for the time it was held");
}

#[test]
fn a_tenant_that_cannot_be_served_does_not_pin_the_clock() {
    let mut bench = Bench::default();
    bench.arrive("never", Weight::HELD, 7);
    bench.arrive("a", Weight::ONE, 50);
    bench.arrive("b", Weight::ONE, 50);
    let before = bench.queue.clock();
    picks(&mut bench, 10);
    assert_eq!(bench.queue.clock() - before, 5.0);
    bench.drain();
    assert_eq!(bench.queue.tenant("never").unwrap().jobs, 7);
    assert_eq!((bench.queue.waiting(), bench.pick()), (0, None));
    bench.reweigh("never", Weight::ONE);
    assert_eq!(picks(&mut bench, 9).len(), 7 * "never".len());
}

#[test]
fn holding_is_no_way_to_get_ahead() {
    let mut bench = Bench::default();
    bench.arrive("a", Weight::ONE, 500);
    bench.arrive("b", Weight::ONE, 500);
    let mut got = 0;
    for _ in 0..200 {
        let served = bench.pick().unwrap();
        if served == "b" {
            got += 1;
            bench.reweigh("b", Weight::HELD);
            bench.reweigh("b", Weight::ONE);
        }
    }
    assert_eq!(got, 100);
}

#[test]
fn removal_is_not_charged() {
    let mut bench = Bench::default();
    bench.arrive("a", Weight::ONE, 10);
    bench.arrive("b", Weight::ONE, 10);
    let start = bench.queue.tenant("b").unwrap().start;
    bench.remove("b", 9);
    assert_eq!((bench.queue.tenant("b").unwrap().start, bench.queue.total()), (start, 2000));
    bench.remove("b", 1);
    assert_eq!((bench.queue.tenant("b"), bench.queue.total()), (None, 1000));
}

#[test]
fn bounds_and_lags_are_told() {
    let mut bench = Bench::default();
    bench.arrive("a", weight(3.0), 10);
    bench.arrive("b", weight(2.0), 10);
    assert_eq!(bench.queue.wait_bound("b"), Some(4));
    assert_eq!(picks(&mut bench, 1), "a");
    assert!((bench.queue.lag("a").unwrap() + 0.4).abs() < 1e-12);
    assert!((bench.queue.lag("b").unwrap() - 0.4).abs() < 1e-12);
    assert_eq!((bench.queue.lag("c"), bench.queue.wait_bound("c")), (None, None));
}

/// As the scripts have it, which keep no more of such a tenant than when it leaves.
#[test]
fn a_new_weight_changes_nothing_about_a_tenant_without_jobs() {
    let mut bench = Bench::default();
    bench.arrive("a", Weight::ONE, 1);
    bench.arrive("b", Weight::ONE, 10);
    assert_eq!(picks(&mut bench, 1), "a");
    let before = *bench.queue.tenant("a").expect("it leaves, and counts until then");
    bench.reweigh("a", weight(7.0));
    assert_eq!((bench.queue.tenant("a"), bench.queue.total()), (Some(&before), 2000));
}
