//! The outcome of a simulation while it runs: counts, waits, shares and deviations of tenants.

use super::contenders::Contenders;
use super::fluid::Fluid;
use super::jain::{Dispatches, JainWindows};
use super::main_queue::Waiting;
use super::report::{Deviation, Report, Series, TenantReport, Totals, ms, round};
use super::scenario::{MOST_JOBS, Scenario};
use super::timeline::Timeline;
use super::waits::GroupWaits;
use crate::domain::tenant::Weight;

/// The outcome so far.
pub(super) struct Outcomes {
    accounts: Vec<Account>,
    groups: Vec<GroupWaits>,
    /// Tenants with jobs that wait for a worker, except held ones.
    waiting: Contenders,
    dispatch_fluid: Fluid,
    promotion_fluid: Fluid,
    promotions: Deviation,
    jain: JainWindows,
    timeline: Timeline,
    dispatches: u64,
    /// Number of dispatches at which at least two tenants had jobs waiting.
    contended: u64,
    busy_us: u64,
    /// The end of the last job.
    end_us: u64,
    are_jobs_left_out: bool,
}

/// The counts of one tenant.
#[derive(Clone, Debug)]
struct Account {
    group: u32,
    weight: Weight,
    jobs: u64,
    dispatches: u64,
    contended: u64,
    waiting: u64,
    staged: u64,
    /// The number of dispatches of all tenants when its last waiting job was dispatched.
    empty_at: Option<u64>,
    completed: u64,
    discarded: u64,
    deviation: Deviation,
}

/// Figures that others know at the end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PlannerFigures {
    pub rounds: u64,
    pub wasted_us: u64,
}

impl Outcomes {
    /// Creates the outcome of a scenario that has not begun.
    pub(super) fn new(scenario: &Scenario) -> Outcomes {
        let of_group = |(group, number): (&super::TenantGroup, u32)| {
            let account = Account {
                group: number,
                weight: group.weight,
                jobs: 0,
                dispatches: 0,
                contended: 0,
                waiting: 0,
                staged: 0,
                empty_at: None,
                completed: 0,
                discarded: 0,
                deviation: Deviation::default(),
            };
            std::iter::repeat_n(account, group.count as usize)
        };
        let accounts: Vec<Account> = scenario.groups.iter().zip(0..).flat_map(of_group).collect();
        let weights = || accounts.iter().map(|account| account.weight);
        Outcomes {
            waiting: Contenders::new(accounts.len()),
            dispatch_fluid: Fluid::new(weights()),
            promotion_fluid: Fluid::new(weights()),
            promotions: Deviation::default(),
            groups: scenario.groups.iter().map(|_| GroupWaits::new()).collect(),
            jain: JainWindows::default(),
            timeline: Timeline::new(scenario.groups.len()),
            dispatches: 0,
            contended: 0,
            busy_us: 0,
            end_us: 0,
            are_jobs_left_out: false,
            accounts,
        }
    }

    /// Records the time. Called before anything happens at that time.
    pub(super) fn advance(&mut self, now_us: u64) {
        let groups = &self.groups;
        self.timeline.advance(now_us, |group| groups[group].dispatches);
    }

    /// Counts new jobs of a tenant.
    pub(super) fn enqueued(&mut self, tenant: u32, jobs: u64) {
        self.accounts[tenant as usize].jobs += jobs;
    }

    /// Takes note that a job of the scenario was left out because there are too many.
    pub(super) fn leave_out(&mut self) {
        self.are_jobs_left_out = true;
    }

    /// Counts attempts that begin to wait for a worker.
    pub(super) fn waits(&mut self, tenant: u32, jobs: u64) {
        let account = &mut self.accounts[tenant as usize];
        account.waiting += jobs;
        self.dispatch_fluid.arrive(tenant, jobs);
        if !account.weight.is_held() {
            self.waiting.insert(tenant);
        }
    }

    /// Counts attempts that are staged.
    pub(super) fn staged(&mut self, tenant: u32, jobs: u64) {
        self.accounts[tenant as usize].staged += jobs;
        self.promotion_fluid.arrive(tenant, jobs);
    }

    /// Counts a promotion.
    pub(super) fn promoted(&mut self, promoted: Waiting) {
        let (account, fluid) = (&mut self.accounts[promoted.tenant as usize], &mut self.promotion_fluid);
        let ahead = |fluid: &Fluid, staged: u64| fluid.left(promoted.tenant) - staged as f64;
        // Between its promotions, a tenant falls behind all the time, so it is furthest ahead after
        // one and furthest behind before one.
        self.promotions.include(ahead(fluid, account.staged));
        account.staged -= 1;
        fluid.serve(false);
        self.promotions.include(ahead(fluid, account.staged));
    }

    /// Counts an attempt that a worker starts and runs for some time.
    pub(super) fn dispatched(&mut self, started: Waiting, now_us: u64, run_us: u64) {
        let (tenant, accounts) = (started.tenant, &self.accounts);
        let view = |accounts: &[Account], tenant: u32| {
            let account = &accounts[tenant as usize];
            Dispatches {
                weight: account.weight,
                total: account.dispatches,
                waiting: account.waiting,
                empty_at: account.empty_at,
            }
        };
        self.jain.begin(&self.waiting, self.dispatches, |tenant| view(accounts, tenant));
        let is_contended = self.waiting.len() >= 2;
        let account = &mut self.accounts[tenant as usize];
        let is_held = account.weight.is_held();
        let behind = account.waiting as f64 - self.dispatch_fluid.left(tenant);
        account.waiting -= 1;
        account.dispatches += 1;
        self.dispatches += 1;
        account.contended += u64::from(is_contended);
        self.contended += u64::from(is_contended);
        self.dispatch_fluid.serve(is_contended);
        if !is_held {
            account.deviation.include(-behind);
            account.deviation.include(self.dispatch_fluid.left(tenant) - account.waiting as f64);
        }
        if account.waiting == 0 {
            account.empty_at = Some(self.dispatches);
            self.waiting.remove(tenant);
        }
        self.groups[account.group as usize].record(now_us - started.since_us);
        let accounts = &self.accounts;
        self.jain.end(|tenant| view(accounts, tenant));
        self.busy_us += run_us;
        self.end_us = self.end_us.max(now_us + run_us);
    }

    /// Counts a job whose last attempt succeeded.
    pub(super) fn completed(&mut self, tenant: u32) {
        self.accounts[tenant as usize].completed += 1;
    }

    /// Counts a job whose last attempt failed.
    pub(super) fn discarded(&mut self, tenant: u32) {
        self.accounts[tenant as usize].discarded += 1;
    }

    /// Returns the number of attempts that workers have started.
    pub(super) fn dispatches(&self) -> u64 {
        self.dispatches
    }

    /// Returns the report of a scenario that has ended.
    pub(super) fn report(self, scenario: &Scenario, planner: PlannerFigures) -> Report {
        let mut all = GroupWaits::new();
        self.groups.iter().for_each(|group| all.merge(group));
        let sum = |count: fn(&Account) -> u64| self.accounts.iter().map(count).sum::<u64>();
        let (jobs, completed, discarded) = (sum(|one| one.jobs), sum(|one| one.completed), sum(|one| one.discarded));
        let seconds = self.end_us as f64 / 1e6;
        let per = |amount: f64, whole: f64| if whole > 0.0 { amount / whole } else { 0.0 };
        let totals = Totals {
            tenants: self.accounts.len() as u64,
            jobs,
            jobs_left_out: self.are_jobs_left_out && jobs >= MOST_JOBS,
            dispatches: self.dispatches,
            completed,
            discarded,
            left: jobs - completed - discarded,
            wait: all.quantiles(),
            jain_index: self.jain.mean().map(|index| round(index, 1e4)),
            utilisation: round(per(self.busy_us as f64 / 1e6, seconds * f64::from(scenario.workers)), 1e4),
            throughput_per_s: round(per(completed as f64, seconds), 1e3),
            makespan_ms: ms(self.end_us),
            rounds: planner.rounds,
            wasted_ms: ms(planner.wasted_us),
            promotions: self.promotions.rounded(),
        };
        let tenants = (0..scenario.groups.len()).map(|group| self.tenant_report(scenario, group)).collect();
        let Outcomes { timeline, groups, end_us, .. } = self;
        let (times, series) = timeline.finish(end_us, |group| groups[group].dispatches);
        Report {
            scenario: scenario.name.clone(),
            mode: scenario.mode.name(),
            seed: scenario.seed,
            workers: scenario.workers,
            tenants,
            totals,
            timeline: Series { at_ms: times.into_iter().map(ms).collect(), tenants: series },
        }
    }

    fn tenant_report(&self, scenario: &Scenario, number: usize) -> TenantReport {
        let group = &scenario.groups[number];
        let mut report = TenantReport {
            name: group.name.clone(),
            tenants: group.count,
            weight: group.weight.as_f64(),
            jobs: 0,
            dispatches: 0,
            completed: 0,
            discarded: 0,
            left: 0,
            share: None,
            expected_share: None,
            wait: self.groups[number].quantiles(),
            deviation: Deviation::default(),
        };
        let (mut contended, mut expected) = (0, 0.0);
        for (account, tenant) in self.accounts.iter().zip(0..).filter(|(one, _)| one.group as usize == number) {
            report.jobs += account.jobs;
            report.dispatches += account.dispatches;
            report.completed += account.completed;
            report.discarded += account.discarded;
            report.deviation.merge(account.deviation);
            contended += account.contended;
            expected += self.dispatch_fluid.served(tenant);
        }
        report.left = report.jobs - report.completed - report.discarded;
        report.deviation = report.deviation.rounded();
        if self.contended > 0 {
            let share = |jobs: f64| round(jobs / self.contended as f64, 1e4);
            (report.share, report.expected_share) = (Some(share(contended as f64)), Some(share(expected)));
        }
        report
    }
}
