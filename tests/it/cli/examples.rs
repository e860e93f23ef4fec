//! The example configurations: `fairgate check` accepts each and prints the expected summary.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Every example with part of the output of `fairgate check`.
const EXAMPLES: &[(&str, &str)] = &[
    ("own-queues.toml", "rule \"reports\" plans report.* every 1s\n"),
    ("ojs.toml", "rule \"reports\" plans report.* every 1s into main queue \"jobs\"\n"),
    ("sidekiq.toml", "jobs in its queue stage are staged"),
    ("sidekiq-fairplay.toml", "replaces sidekiq-fairplay for HeavyJob, API::SyncJob"),
    (
        "sidekiq-shadow.toml",
        "rule \"heavy\" plans HeavyJob, Billing::* every 1s into main queue \"legacy\", in shadow: only watches the queue\n",
    ),
];

#[test]
fn each_is_accepted_and_none_is_forgotten() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/examples");
    for (file, part) in EXAMPLES {
        let output = Command::new(env!("CARGO_BIN_EXE_fairgate"))
            .args(["check", "--config"])
            .arg(directory.join(file))
            .env("JOBS_TOKEN", "a-token")
            .output()
            .expect("it runs");
        let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && said.contains(part), "{file}\n{said}{wrong}");
    }
    let entries = std::fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry"));
    // The folder of scenarios has its own test.
    let files = entries.filter(|entry| entry.path().is_file()).map(|entry| entry.file_name());
    let there: BTreeSet<String> = files.map(|name| name.to_string_lossy().into_owned()).collect();
    assert_eq!(there, EXAMPLES.iter().map(|(file, _)| (*file).to_owned()).collect());
}
