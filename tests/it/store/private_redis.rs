//! The private Redis: stopped with fairgate, restarted if it dies, never left behind.

use crate::support::{Process, TestRedis, eventually, json};
use std::path::Path;

fn is_alive(pid: u32) -> bool {
    // A zombie still has a directory, but no command line.
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|command| !command.is_empty())
}

/// The process that listens on the socket of a data directory.
fn redis_of(directory: &Path) -> Option<u32> {
    let entries = std::fs::read_dir("/proc").ok()?;
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let socket = directory.canonicalize().ok()?.join("redis.sock");
    pids.into_iter().find(|pid| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let text = String::from_utf8_lossy(&command);
        text.contains("redis-server") && text.contains(&*socket.to_string_lossy())
    })
}

fn data_dir() -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data").display().to_string();
    (directory, path)
}

#[test]
fn a_test_leaves_neither_process_nor_file_behind() {
    let redis = TestRedis::start();
    let (pid, directory) = (redis.pid(), redis.directory().to_owned());
    assert!(is_alive(pid) && directory.exists());
    drop(redis);
    assert!(!is_alive(pid), "the server has ended");
    assert!(!directory.exists(), "its directory is gone");
}

#[tokio::test]
async fn jobs_survive_a_restart_and_sigterm_stops_redis_too() {
    let (_directory, path) = data_dir();
    let mut first = Process::serve(&["--data-dir", &path]).await;
    let id = first.client.enqueue(json!({"type": "test.job", "args": [1]})).await;
    let redis = redis_of(Path::new(&path)).expect("a private Redis runs");
    assert_eq!(first.terminate(), Some(0), "{}", first.logged());
    assert!(!is_alive(redis));
    assert!(!Path::new(&path).join("redis.sock").exists());

    let second = Process::serve(&["--data-dir", &path]).await;
    assert_eq!(second.client.fetch("default", 1).await.job_ids(), [id]);
}

#[tokio::test]
async fn redis_does_not_outlive_a_fairgate_that_is_killed() {
    let (_directory, path) = data_dir();
    let mut process = Process::serve(&["--data-dir", &path]).await;
    let redis = redis_of(Path::new(&path)).expect("a private Redis runs");
    let id = process.client.enqueue(json!({"type": "test.job", "args": [1]})).await;
    process.kill();
    // The next process waits until the old Redis has released the directory.
    let next = Process::serve(&["--data-dir", &path]).await;
    assert!(!is_alive(redis), "the old Redis is gone");
    assert_eq!(next.client.state(&id).await, "available", "and the job was saved");
}

#[tokio::test]
async fn a_private_redis_that_dies_is_restarted() {
    let (_directory, path) = data_dir();
    let process = Process::serve(&["--data-dir", &path]).await;
    let id = process.client.enqueue(json!({"type": "test.job", "args": [1]})).await;
    // Jobs reach the disk within a second (appendfsync everysec); the test forces it, so that the kill loses nothing.
    let socket = Path::new(&path).join("redis.sock");
    let client = redis::Client::open(format!("unix://{}", socket.display())).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    redis::cmd("CONFIG").arg("SET").arg("appendfsync").arg("always").query_async::<()>(&mut connection).await.unwrap();
    redis::cmd("SET").arg("flushed").arg(1).query_async::<()>(&mut connection).await.unwrap();

    let pid = redis_of(Path::new(&path)).expect("a private Redis runs");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid as i32), nix::sys::signal::Signal::SIGKILL).unwrap();
    eventually("a new Redis runs and the job is there", async || {
        process
            .client
            .try_send("GET", &format!("/v1/jobs/{id}"), &[], None)
            .await
            .is_ok_and(|answer| answer.status == 200)
    })
    .await;
    assert_ne!(redis_of(Path::new(&path)), Some(pid));
}

#[tokio::test]
async fn two_fairgates_do_not_share_a_data_directory() {
    let (_directory, path) = data_dir();
    let _first = Process::serve(&["--data-dir", &path]).await;
    let second = Process::spawn(&["--data-dir", &path]);
    eventually("the second one explains why it does not start", async || {
        second.logged().contains("is in use by another fairgate")
    })
    .await;
}

#[tokio::test]
async fn a_data_directory_with_a_long_name_works() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x".repeat(120)).display().to_string();
    let process = Process::serve(&["--data-dir", &path]).await;
    process.client.enqueue_into("q").await;
}
