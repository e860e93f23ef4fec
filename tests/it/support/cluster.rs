//! A Redis Cluster of three primaries, whose slots a test can move.

use super::eventually;
use super::server::{Server, free_port};
use std::process::Command;

/// Keys that one MIGRATE moves.
const PORTION: &str = "100";

/// Three nodes, each with a third of the slots.
pub struct Cluster {
    nodes: Vec<Server>,
}

impl Cluster {
    pub async fn start() -> Self {
        let mut nodes = Vec::new();
        for _ in 0..3 {
            nodes.push(node().await);
        }
        let cluster = Cluster { nodes };
        let (hosts, mut create) = (cluster.hosts(), Command::new("redis-cli"));
        let created = create.args(["--cluster", "create"]).args(hosts).arg("--cluster-yes").output().unwrap();
        assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stdout));
        eventually("the cluster is up", async || {
            cluster.nodes.iter().all(|node| node.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok"))
        })
        .await;
        cluster
    }

    /// Adds a replica of one node.
    pub async fn add_replica(&self, primary: &Server) -> Server {
        let (replica, mut add) = (node().await, Command::new("redis-cli"));
        add.args(["--cluster", "add-node"]).args([&replica, primary].map(|node| format!("127.0.0.1:{}", node.port)));
        let added = add.args(["--cluster-slave", "--cluster-master-id", &id(primary)]).output().unwrap();
        assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stdout));
        replica.replicates(primary).await;
        replica
    }

    fn hosts(&self) -> Vec<String> {
        self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect()
    }

    pub fn url(&self) -> String {
        format!("redis+cluster://{}", self.hosts().join(","))
    }

    /// The slot of the default namespace.
    pub fn slot(&self) -> String {
        self.nodes[0].cli(&["CLUSTER", "KEYSLOT", "fg:{default}:"]).trim().to_owned()
    }

    /// The node that has keys of the default namespace, and one that has none.
    pub fn owner_and_other(&self) -> (&Server, &Server) {
        let slot = self.slot();
        let has_keys = |node: &&Server| node.cli(&["CLUSTER", "COUNTKEYSINSLOT", &slot]).trim() != "0";
        let (owners, others): (Vec<&Server>, Vec<&Server>) = self.nodes.iter().partition(has_keys);
        assert_eq!(owners.len(), 1, "one node has the keys");
        (owners[0], others[0])
    }

    /// Begins to move the slot from its owner to another node, as `redis-cli --cluster reshard` does.
    pub fn begin_move(&self, source: &Server, target: &Server) {
        let slot = self.slot();
        assert_eq!(target.cli(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(source)]).trim(), "OK");
        assert_eq!(source.cli(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(target)]).trim(), "OK");
    }

    /// Aborts a move before the first key was moved.
    pub fn give_up_move(&self, source: &Server, target: &Server) {
        for node in [source, target] {
            assert_eq!(node.cli(&["CLUSTER", "SETSLOT", &self.slot(), "STABLE"]).trim(), "OK");
        }
    }

    /// Moves all keys of the slot in portions; returns their number.
    pub fn move_keys(&self, source: &Server, target: &Server) -> usize {
        let (slot, port) = (self.slot(), target.port.to_string());
        let mut moved = 0;
        loop {
            let listed = source.cli(&["CLUSTER", "GETKEYSINSLOT", &slot, PORTION]);
            let keys: Vec<&str> = listed.lines().filter(|key| !key.is_empty()).collect();
            if keys.is_empty() {
                return moved;
            }
            let migrate = [&["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"], &keys[..]].concat();
            assert_eq!(source.cli(&migrate).trim(), "OK");
            moved += keys.len();
        }
    }

    /// Makes the target the owner of the slot. The target gets the command first, so that the slot always has an owner.
    pub fn finish_move(&self, source: &Server, target: &Server) {
        for node in [target, source] {
            assert_eq!(node.cli(&["CLUSTER", "SETSLOT", &self.slot(), "NODE", &id(target)]).trim(), "OK");
        }
    }
}

async fn node() -> Server {
    // The cluster bus listens on the port plus 10000, which must exist.
    let port = loop {
        let port = free_port();
        if port < 50_000 {
            break port;
        }
    };
    Server::start_in(tempfile::tempdir().unwrap(), port, &["--cluster-enabled", "yes"]).up().await
}

/// The id by which a cluster knows a node.
fn id(node: &Server) -> String {
    node.cli(&["CLUSTER", "MYID"]).trim().to_owned()
}
