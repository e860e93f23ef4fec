//! Acks and nacks: the workers' answers for their active jobs.

use super::batch::BatchCommand;
use super::codec::wire;
use super::reply::{self, JobOutcome};
use super::script::{ACK, NACK};
use super::{Core, Error, Store};
use crate::domain::escape::escape;
use crate::domain::job::{Failure, FailureVerdict, id};
use crate::domain::tenant::Scope;
use redis::Cmd;
use std::sync::Arc;

/// A worker's report that a job is completed.
#[derive(Clone, Debug)]
pub struct Ack {
    pub job_id: String,
    pub worker: Option<String>,
    /// The job's result, as JSON.
    pub result: Option<String>,
    /// The client's key for this request. A repeat with the same key gets the first answer again.
    pub idempotency_key: Option<String>,
}

/// A worker's report that a job failed, or its request to put the job back into its queue.
#[derive(Clone, Debug)]
pub struct Nack {
    pub job_id: String,
    pub worker: Option<String>,
    pub failure: Failure,
    pub requeue: bool,
    pub idempotency_key: Option<String>,
}

/// A worker's answer with the scope of its client.
pub(in crate::store) struct Scoped<T> {
    answer: T,
    scope: Scope,
}

pub(in crate::store) struct AckCommand(pub(in crate::store) Arc<Core>);

impl BatchCommand for AckCommand {
    type Request = Scoped<Ack>;
    type Reply = Result<JobOutcome, Error>;

    const COMMAND: &'static str = "ack";

    fn weight(request: &Self::Request) -> (usize, usize) {
        (1, request.answer.result.as_ref().map_or(0, String::len))
    }

    async fn run(&self, requests: Vec<Scoped<Ack>>) -> Result<Vec<Self::Reply>, Error> {
        self.0.metrics.group(Self::COMMAND, requests.len());
        let ops: Vec<String> =
            requests.iter().map(|request| op("ack", request.answer.idempotency_key.as_deref())).collect();
        let fill = |command: &mut Cmd, _: bool| {
            self.0.begin(command).arg(requests.len());
            requests.iter().zip(&ops).for_each(|(request, op)| push_ack(command, request, op));
        };
        reply::outcomes(ACK.call(&self.0.connection, fill).await?, Self::COMMAND)
    }
}

/// Appends a request as `lua/commands/ack.lua` reads it.
fn push_ack(command: &mut Cmd, Scoped { answer: ack, scope }: &Scoped<Ack>, op: &str) {
    command.arg(&ack.job_id).arg(worker_word(scope, ack.worker.as_deref())).arg(op).arg(scope.word());
    command.arg(u8::from(ack.result.is_some())).arg(ack.result.as_deref().unwrap_or(""));
}

pub(in crate::store) struct NackCommand(pub(in crate::store) Arc<Core>);

impl BatchCommand for NackCommand {
    type Request = Scoped<Nack>;
    type Reply = Result<JobOutcome, Error>;

    const COMMAND: &'static str = "nack";

    fn weight(request: &Self::Request) -> (usize, usize) {
        (1, request.answer.failure.entry.len())
    }

    async fn run(&self, requests: Vec<Scoped<Nack>>) -> Result<Vec<Self::Reply>, Error> {
        self.0.metrics.group(Self::COMMAND, requests.len());
        let ops: Vec<String> =
            requests.iter().map(|request| op("nack", request.answer.idempotency_key.as_deref())).collect();
        let fill = |command: &mut Cmd, _: bool| {
            self.0.begin(command).arg(requests.len());
            requests.iter().zip(&ops).for_each(|(request, op)| push_nack(command, request, op));
        };
        reply::outcomes(NACK.call(&self.0.connection, fill).await?, Self::COMMAND)
    }
}

/// Appends a request as `lua/commands/nack.lua` reads it.
fn push_nack(command: &mut Cmd, Scoped { answer: nack, scope }: &Scoped<Nack>, op: &str) {
    let failure = &nack.failure;
    command.arg(&nack.job_id).arg(worker_word(scope, nack.worker.as_deref())).arg(op).arg(scope.word());
    command.arg(u8::from(nack.requeue)).arg(&failure.entry).arg(&failure.error);
    command
        .arg(wire::join(&failure.classes))
        .arg(failure.verdict.map_or("", FailureVerdict::name))
        .arg(u8::from(failure.retryable));
    command.arg(failure.hold_until.map(|at| at.to_string()).unwrap_or_default()).arg(&failure.message);
}

/// Returns the operation's id: the client's idempotency key, so that a repeat is recognized, or a
/// new id.
fn op(command: &str, idempotency_key: Option<&str>) -> String {
    idempotency_key.map_or_else(id::generate, |key| format!("{command}:{}", escape(key)))
}

/// Returns a worker's name in the store; empty if there is none.
fn worker_word(scope: &Scope, worker: Option<&str>) -> String {
    worker.map(|name| escape(&scope.worker(name))).unwrap_or_default()
}

impl Store {
    /// Completes an active job.
    pub async fn ack(&self, ack: Ack) -> Result<JobOutcome, Error> {
        self.ack.submit(Scoped { answer: ack, scope: self.scope.clone() }).await?
    }

    /// Fails an active job, or puts it back into its queue if [`Nack::requeue`] is set.
    pub async fn nack(&self, nack: Nack) -> Result<JobOutcome, Error> {
        self.nack.submit(Scoped { answer: nack, scope: self.scope.clone() }).await?
    }
}
