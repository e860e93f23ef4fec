//! What the next round would do: the same arithmetic as the script's, on a copy.

use super::desk::Desk;
use super::stats::find;
use crate::fair::{Batch, FairQueue, Gate, Rule, Tenant, Weight};
use crate::job::escape::{escape, unescape};
use crate::store::{Error, Observation, Survey};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Promotions that a preview shows at most.
const MOST: u64 = 1000;

/// A dry run of a rule's next round, or of one for so many jobs; `None` if there is no such rule.
pub async fn preview(desk: &Desk, name: &str, jobs: Option<u64>) -> Result<Option<Value>, Error> {
    let known = desk.rules().known().await?;
    let Some((rule, _)) = find(&known, name) else { return Ok(None) };
    let status = desk.store().rule_status(name, rule.queue.as_deref()).await?;
    let mut queues = Vec::new();
    let (mut order, mut batch) = (Vec::new(), 0);
    let mut closed = status.paused.then_some("paused");
    for queue in status.queues.iter().filter(|queue| queue.staged > 0) {
        let gate = Gate::read(&rule, queue.depth, queue.oldest, status.now);
        let wanted = if status.paused {
            0
        } else {
            jobs.unwrap_or_else(|| wanted(&rule, queue)).min(gate.room).min(queue.staged)
        };
        closed = closed.or(gate.closed.map(|closed| closed.name()));
        let survey = desk.store().next_tenants(name, &queue.queue, (wanted as usize).max(1) + 1, false).await?;
        let picks = picks(&survey, wanted.min(MOST));
        batch += wanted;
        queues.push(json!({
            "name": queue.queue,
            "batch": wanted,
            "gate": {"open": gate.closed.is_none(), "reason": gate.closed.map(|closed| closed.name())},
            "order": picks,
        }));
        order.extend(picks.into_iter().map(|tenant| (tenant, survey_weight(&survey))));
    }
    let mut tenants: Vec<(String, Weight, u64)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (tenant, weights) in &order {
        let place = *places.entry(tenant.clone()).or_insert_with(|| {
            tenants.push((tenant.clone(), weights.get(tenant).copied().unwrap_or_default(), 0));
            tenants.len() - 1
        });
        tenants[place].2 += 1;
    }
    let tenants: Vec<Value> = tenants
        .into_iter()
        .map(|(tenant, weight, jobs)| json!({"tenant_id": tenant, "weight": weight.as_f64(), "jobs": jobs}))
        .collect();
    let order: Vec<String> = order.into_iter().map(|(tenant, _)| tenant).collect();
    Ok(Some(json!({
        "rule": name,
        "gate": {"open": closed.is_none(), "reason": closed, "latency_threshold_ms": rule.latency_threshold},
        "batch": batch,
        "tenants": tenants,
        "order": order,
        "queues": queues,
        "why": "Among the tenants whose virtual start has come, the one with the earliest deadline goes; each job moves its tenant by 1/weight.",
    })))
}

fn survey_weight(survey: &Survey) -> HashMap<String, Weight> {
    survey.tenants.iter().map(|tenant| (tenant.name.clone(), tenant.weight)).collect()
}

/// How many jobs a scheduled round would want, as far as that is known outside of the process that plans.
fn wanted(rule: &Rule, queue: &Observation) -> u64 {
    match rule.batch {
        Batch::Jobs(jobs) => u64::from(jobs),
        Batch::Auto => queue.aim.max(1).saturating_sub(queue.depth),
    }
}

fn picks(survey: &Survey, most: u64) -> Vec<String> {
    let waiting = survey.tenants.iter().filter_map(|tenant| {
        let start = tenant.start?;
        // Under the names that the scripts compare, for the same order among equals.
        Some((escape(&tenant.name), Tenant { start, weight: tenant.weight, share: tenant.weight, jobs: tenant.staged }))
    });
    // Those who leave have no name here, only a moment and a weight, which may be that of many.
    let leaving = survey.leavers.iter().enumerate().flat_map(|(number, leaver)| {
        let heaviest = u64::from(Weight::MOST.thousandths());
        let parts = leaver.weight.div_ceil(heaviest);
        (0..parts).map(move |part| {
            let weight = Weight::from_thousandths((leaver.weight - part * heaviest).min(heaviest) as u32);
            let name = format!("\u{0}{number}.{part}");
            (name, Tenant { start: leaver.start, weight: Weight::HELD, share: weight, jobs: 0 })
        })
    });
    let mut queue = FairQueue::restore(survey.clock, survey.total_weight, waiting.chain(leaving));
    (0..most).map_while(|_| queue.pick()).map(|tenant| unescape(&tenant)).collect()
}
