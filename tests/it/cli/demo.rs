//! `fairgate demo`: tenants, workers and a webhook around a real server.

use crate::support::{Client, eventually, free_address};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// A running demo; killed when dropped.
struct Demo {
    child: Child,
    client: Client,
    lines: Arc<Mutex<Vec<String>>>,
    temporary: tempfile::TempDir,
}

impl Demo {
    async fn start() -> Demo {
        let (address, temporary) = (free_address(), tempfile::tempdir().unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairgate"));
        command.args(["demo", "--listen", &address]).env("TMPDIR", temporary.path());
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let (lines, sink) = (Arc::new(Mutex::new(Vec::new())), BufReader::new(child.stderr.take().expect("piped")));
        let kept = Arc::clone(&lines);
        std::thread::spawn(move || sink.lines().map_while(Result::ok).for_each(|line| kept.lock().unwrap().push(line)));
        let demo = Demo { child, client: Client::new(format!("http://{address}")), lines, temporary };
        eventually("the demo is ready", async || demo.has_printed("Try this:")).await;
        demo
    }

    fn has_printed(&self, text: &str) -> bool {
        self.lines.lock().unwrap().iter().any(|line| line.contains(text))
    }

    fn press_enter(&mut self) {
        self.child.stdin.as_mut().expect("piped").write_all(b"\n").expect("the demo reads");
    }

    fn files(&self) -> usize {
        std::fs::read_dir(self.temporary.path()).unwrap().count()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_and_workers_are_busy_and_fairness_can_be_turned_off_and_on() {
    let mut demo = Demo::start().await;
    let client = demo.client.clone();
    let rule = "/v1/admin/planner/reports";
    client.get(rule).await.expect(200);
    eventually("jobs of quiet tenants and of the noisy one are done", async || {
        let rule = client.get(rule).await;
        rule.at("/rounds/promoted_total").as_u64().unwrap_or(0) > 50
    })
    .await;
    eventually("a status line is printed", async || demo.has_printed("fairness on ")).await;
    let webhook = client.get(rule).await;
    assert_eq!((webhook.at("/weights/source"), webhook.at("/weights/errors_total")), (&"webhook".into(), &0.into()));

    demo.press_enter();
    eventually("the rule is removed", async || demo.has_printed("fairness is off")).await;
    assert_ne!(client.get(rule).await.at("/state"), "running");
    demo.press_enter();
    eventually("the rule is back", async || demo.has_printed("fairness is on")).await;
    assert_eq!(client.get(rule).await.expect(200).at("/state"), "running");

    assert_eq!(demo.files(), 1, "the data directory");
    let pid = nix::unistd::Pid::from_raw(demo.child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(demo.child.wait().unwrap().code(), Some(0));
    assert_eq!(demo.files(), 0, "nothing is left behind");
}
