//! The commands that a Redis is sent.

use super::{PATIENCE, TestRedis};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// Sees every command from the moment it was started, those of scripts included.
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

    /// The commands so far, each with its arguments.
    pub async fn commands(&mut self, redis: &TestRedis) -> Vec<String> {
        redis.command::<String>(&["ECHO", "the last one"]).await;
        let mut commands = Vec::new();
        loop {
            let line = self.line().await;
            if line.contains("\"ECHO\" \"the last one\"") {
                return commands;
            }
            // Behind the time and the client, which stand in brackets.
            commands.extend(line.split_once("] ").map(|(_, command)| command.to_owned()));
        }
    }
}
