//! The switch that turns fairness off and on while the demo runs.

use super::producers;
use super::scenario::{RULE, rule};
use crate::remote::{Error, Remote};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_util::sync::CancellationToken;

/// Adds and removes the plan rule. Without it, jobs go straight to the queue, first in, first out.
#[derive(Clone)]
pub(super) struct FairnessSwitch {
    client: Remote,
    webhook: String,
    is_on: Arc<AtomicBool>,
}

impl FairnessSwitch {
    /// Creates a switch that is off.
    pub(super) fn new(client: Remote, webhook: String) -> Self {
        FairnessSwitch { client, webhook, is_on: Arc::new(AtomicBool::new(false)) }
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    pub(super) async fn turn_on(&self) -> Result<(), Error> {
        self.client.api_put(&format!("/ojs/v1/admin/planner/{RULE}"), &rule(&self.webhook)).await?;
        self.is_on.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Jobs that are staged already are still promoted in turns.
    async fn turn_off(&self) -> Result<(), Error> {
        self.client.api_delete(&format!("/ojs/v1/admin/planner/{RULE}")).await?;
        self.is_on.store(false, Ordering::Relaxed);
        Ok(())
    }
}

/// Turns fairness off or on for each line of standard input, until it ends or the demo stops.
pub(super) async fn follow_input(switch: FairnessSwitch, client: Remote, stop: CancellationToken) {
    let (lines, mut entered) = tokio::sync::mpsc::channel(1);
    // Reading blocks, and only the end of the process interrupts it, so it has a thread of its own.
    std::thread::spawn(move || {
        let mut line = String::new();
        while std::io::stdin().read_line(&mut line).is_ok_and(|read| read > 0) && lines.blocking_send(()).is_ok() {
            line.clear();
        }
    });
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            line = entered.recv() => if line.is_none() { return },
        }
        let outcome = if switch.is_on() { switch.turn_off().await } else { switch.turn_on().await };
        match outcome {
            Ok(()) if switch.is_on() => {
                eprintln!("fairness is on: jobs that are in the queue already keep their places, new ones take turns");
            }
            Ok(()) => {
                eprintln!("fairness is off: the next flood starts, and everybody waits behind it");
                producers::flood(&client).await;
            }
            Err(error) => eprintln!("error: {error}"),
        }
    }
}
