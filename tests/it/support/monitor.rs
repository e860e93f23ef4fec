//! The commands that a Redis server receives.

use super::{PATIENCE, TestRedis};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// Records every command since its start, including those of scripts.
pub struct Monitor {
    stream: BufReader<UnixStream>,
}

impl Monitor {
    pub async fn start(redis: &TestRedis) -> Self {
        let mut stream = BufReader::new(UnixStream::connect(redis.socket()).await.expect("Redis accepts connections"));
        stream.write_all(b"MONITOR\r\n").await.expect("sent");
        let mut monitor = Monitor { stream };
        assert_eq!(monitor.line().await, "+OK");
        monitor
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = tokio::time::timeout(PATIENCE, self.stream.read_line(&mut line)).await;
        read.expect("Redis answers").expect("the connection is open");
        line.trim_end().to_owned()
    }

    /// The commands so far with their arguments.
    pub async fn commands(&mut self, redis: &TestRedis) -> Vec<String> {
        redis.command::<String>(&["ECHO", "the last one"]).await;
        let mut commands = Vec::new();
        loop {
            let line = self.line().await;
            if line.contains("\"ECHO\" \"the last one\"") {
                return commands;
            }
            // The command follows the time and, in brackets, the client.
            commands.extend(line.split_once("] ").map(|(_, command)| command.to_owned()));
        }
    }
}
