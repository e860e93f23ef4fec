//! Workers that fetch the jobs of a queue over HTTP.

use super::{Client, eventually};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;

/// Workers of one queue, each with one job at a time. They stop when dropped.
pub struct Workers {
    _tasks: JoinSet<()>,
    taken: Arc<Mutex<Vec<String>>>,
}

impl Workers {
    /// Starts `count` workers, whose jobs take `run` each.
    pub fn start(client: &Client, queue: &str, count: usize, run: Duration) -> Workers {
        let (mut tasks, taken) = (JoinSet::new(), Arc::<Mutex<Vec<String>>>::default());
        for _ in 0..count {
            let (client, queue, taken) = (client.clone(), queue.to_owned(), Arc::clone(&taken));
            tasks.spawn(async move {
                loop {
                    let fetched = client.fetch(&queue, 1).await;
                    for id in fetched.job_ids() {
                        let tenant = fetched.text_at("/jobs/0/meta/tenant_id").to_owned();
                        taken.lock().expect("no panic").push(tenant);
                        tokio::time::sleep(run).await;
                        client.ack(&id).await.expect(200);
                    }
                    if fetched.job_ids().is_empty() {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
            });
        }
        Workers { _tasks: tasks, taken }
    }

    /// The tenants of the jobs fetched so far, in order.
    pub fn taken(&self) -> Vec<String> {
        self.taken.lock().expect("no panic").clone()
    }
}

/// The state of a main queue while one tenant floods it.
pub struct Flood {
    /// The largest depth of the queue.
    pub deepest: u64,
    /// Jobs fetched between the push of a quiet tenant's job and the fetch of that job.
    pub overtaking: usize,
}

impl Flood {
    /// Pushes jobs one by one, then `jobs` of a noisy tenant at once, then one of a quiet tenant.
    pub async fn run(
        jobs: usize,
        push: impl AsyncFn(&str, usize),
        depth: impl AsyncFn() -> u64,
        taken: impl Fn() -> Vec<String>,
    ) -> Flood {
        for done in 1..=8 {
            push("noisy", 1).await;
            eventually("a lone job is taken", async || taken().len() >= done).await;
        }
        let mut deepest = 0;
        push("noisy", jobs).await;
        eventually("some jobs of the burst are taken", async || {
            deepest = deepest.max(depth().await);
            taken().len() >= 20
        })
        .await;
        let before = taken().len();
        push("quiet", 1).await;
        let mut place = None;
        eventually("the quiet tenant's job is taken", async || {
            deepest = deepest.max(depth().await);
            place = taken().iter().position(|tenant| tenant == "quiet");
            place.is_some()
        })
        .await;
        Flood { deepest, overtaking: place.unwrap_or(0).saturating_sub(before) }
    }
}
