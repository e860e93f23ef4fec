//! Group commit: sends requests that wait at the same time as one script call.
//!
//! There is no timer. A lone request is sent at once. Requests gather only while calls are in
//! flight, and the next call takes them together, so batches grow with load and never add latency.

use super::error::Error;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::task::TaskTracker;

/// Largest number of jobs in one call; bounds how long the call occupies Redis.
pub(super) const MOST_JOBS: usize = 64;
const MOST_BYTES: usize = 256 * 1024;
/// Largest number of waiting requests. More are refused, because they would wait longer than their
/// clients do.
const MOST_WAITING: usize = 20_000;

/// An operation that takes several requests in one call.
pub(super) trait BatchCommand: Send + Sync + 'static {
    type Request: Send + Sync + 'static;
    type Reply: Send + 'static;

    /// Name of the command, for metrics and errors.
    const COMMAND: &'static str;

    /// Number of calls in flight. One gives the largest groups. A second keeps Redis busy while the
    /// replies of the first are handed out, which pays if no other operation runs meanwhile.
    const IN_FLIGHT: usize = 1;

    /// Returns the numbers of jobs and bytes that a request adds to a call.
    fn weight(request: &Self::Request) -> (usize, usize);

    /// Runs one call. Returns a reply for each request, in their order.
    fn run(&self, requests: Vec<Self::Request>) -> impl Future<Output = Result<Vec<Self::Reply>, Error>> + Send;
}

type Waiting<V> = (<V as BatchCommand>::Request, oneshot::Sender<Result<<V as BatchCommand>::Reply, Error>>);

/// The sending side of an operation's queue; clones share it.
pub(super) struct Batcher<V: BatchCommand> {
    queue: mpsc::Sender<Waiting<V>>,
}

impl<V: BatchCommand> Batcher<V> {
    /// Starts the task that sends calls. The task ends when the last handle is dropped.
    pub(super) fn start(command: V, tasks: &TaskTracker) -> Self {
        let (queue, waiting) = mpsc::channel(MOST_WAITING);
        tasks.spawn(send_calls(Arc::new(command), waiting, tasks.clone()));
        Batcher { queue }
    }

    /// Adds a request to the next call and waits for its reply.
    pub(super) async fn submit(&self, request: V::Request) -> Result<V::Reply, Error> {
        let (reply, answer) = oneshot::channel();
        self.queue.try_send((request, reply)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Error::Busy,
            mpsc::error::TrySendError::Closed(_) => Error::Unavailable("shutting down".to_owned()),
        })?;
        answer.await.unwrap_or_else(|_| Err(Error::Unavailable("the call was dropped".to_owned())))
    }
}

async fn send_calls<V: BatchCommand>(command: Arc<V>, mut waiting: mpsc::Receiver<Waiting<V>>, tasks: TaskTracker) {
    let in_flight = Arc::new(Semaphore::new(V::IN_FLIGHT));
    let mut held_over: Option<Waiting<V>> = None;
    loop {
        // Take the permit first, so that requests which arrive while calls are in flight gather in
        // the queue.
        let Ok(permit) = Arc::clone(&in_flight).acquire_owned().await else { return };
        let first = match held_over.take() {
            Some(first) => first,
            None => match waiting.recv().await {
                Some(first) => first,
                None => return,
            },
        };
        // Yield once, so that requests which have arrived but were not read yet join this call. A
        // lone request does not wait for others.
        tokio::task::yield_now().await;
        let (mut jobs, mut bytes) = V::weight(&first.0);
        let mut group = vec![first];
        while jobs < MOST_JOBS && bytes < MOST_BYTES {
            let Ok(next) = waiting.try_recv() else { break };
            let (more_jobs, more_bytes) = V::weight(&next.0);
            if jobs + more_jobs > MOST_JOBS || bytes + more_bytes > MOST_BYTES {
                held_over = Some(next);
                break;
            }
            (jobs, bytes) = (jobs + more_jobs, bytes + more_bytes);
            group.push(next);
        }
        let command = Arc::clone(&command);
        tasks.spawn(async move {
            let (requests, replies): (Vec<_>, Vec<_>) = group.into_iter().unzip();
            let outcome = command.run(requests).await;
            drop(permit);
            hand_out::<V>(outcome, replies);
        });
    }
}

/// Sends each caller its reply. If the caller is gone, the reply is dropped, and its `Drop`
/// releases what it holds.
fn hand_out<V: BatchCommand>(
    outcome: Result<Vec<V::Reply>, Error>,
    replies: Vec<oneshot::Sender<Result<V::Reply, Error>>>,
) {
    match outcome {
        Ok(results) if results.len() == replies.len() => {
            replies.into_iter().zip(results).for_each(|(reply, result)| drop(reply.send(Ok(result))));
        }
        Ok(_) => {
            let error = Error::unreadable(V::COMMAND);
            replies.into_iter().for_each(|reply| drop(reply.send(Err(error.clone()))));
        }
        Err(error) => replies.into_iter().for_each(|reply| drop(reply.send(Err(error.clone())))),
    }
}
