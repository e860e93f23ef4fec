//! The address of a Redis, and connections to its current primary.

use super::sentinel::Sentinels;
use crate::config::{Host, Topology};
use redis::aio::{MultiplexedConnection, PubSub};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, SingleNodeRoutingInfo, SlotAddr};
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo,
    RedisResult, TlsCertificates,
};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long one attempt to connect may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The address of a Redis and the credentials for it.
#[derive(Clone)]
pub struct Address {
    pub topology: Topology,
    pub tls: bool,
    pub username: Option<String>,
    pub password: Option<String>,
    /// Certificates to trust instead of the public ones, as PEM.
    pub root_certificates: Option<Vec<u8>>,
}

impl Address {
    /// Creates an address without TLS or credentials.
    pub fn plain(topology: Topology) -> Self {
        Address { topology, tls: false, username: None, password: None, root_certificates: None }
    }

    /// Creates the address of a server that listens on a unix socket, such as the private Redis.
    pub fn unix(path: &Path) -> Self {
        Address::plain(Topology::Socket { path: path.to_owned(), database: 0 })
    }

    /// Returns the database number; 0 for a cluster, which has only one database.
    pub fn database(&self) -> u32 {
        match &self.topology {
            Topology::Server { database, .. }
            | Topology::Socket { database, .. }
            | Topology::Sentinel { database, .. } => *database,
            Topology::Cluster { .. } => 0,
        }
    }

    /// Returns the same address with another database. A cluster's address does not change.
    pub fn in_database(&self, number: u32) -> Address {
        let mut address = self.clone();
        match &mut address.topology {
            Topology::Server { database, .. }
            | Topology::Socket { database, .. }
            | Topology::Sentinel { database, .. } => *database = number,
            Topology::Cluster { .. } => {}
        }
        address
    }

    /// Returns true if both addresses name the same server and user, so that one script can write
    /// to both databases. Compares the configured values and not the servers, because servers may
    /// change while the process runs.
    pub fn is_same_server(&self, other: &Address) -> bool {
        let is_cluster = matches!(self.topology, Topology::Cluster { .. });
        !is_cluster
            && self.in_database(0).topology == other.in_database(0).topology
            && (self.tls, &self.username) == (other.tls, &other.username)
    }

    fn node(&self, host: &Host) -> ConnectionAddr {
        let (host, port) = (host.name.clone(), host.port);
        match self.tls {
            true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            false => ConnectionAddr::Tcp(host, port),
        }
    }

    fn login(&self, database: u32) -> RedisConnectionInfo {
        let mut login = RedisConnectionInfo::default().set_db(i64::from(database));
        if let Some(name) = &self.username {
            login = login.set_username(name);
        }
        if let Some(password) = &self.password {
            login = login.set_password(password);
        }
        login
    }

    fn info(&self, addr: ConnectionAddr, database: u32) -> RedisResult<ConnectionInfo> {
        Ok(addr.into_connection_info()?.set_tcp_settings(no_delay()).set_redis_settings(self.login(database)))
    }

    fn client(&self, info: ConnectionInfo) -> RedisResult<Client> {
        match self.tls {
            true => Client::build_with_tls(info, self.certificates()),
            false => Client::open(info),
        }
    }

    fn certificates(&self) -> TlsCertificates {
        TlsCertificates { client_tls: None, root_cert: self.root_certificates.clone() }
    }

    pub(in crate::store) fn open(&self) -> RedisResult<PrimaryClient> {
        match &self.topology {
            Topology::Server { host, database } => self.open_single(self.node(host), *database),
            Topology::Socket { path, database } => self.open_single(ConnectionAddr::Unix(path.clone()), *database),
            Topology::Sentinel { hosts, service, .. } => self.open_sentinel(hosts, service),
            Topology::Cluster { hosts } => self.open_cluster(hosts),
        }
    }

    fn open_single(&self, addr: ConnectionAddr, database: u32) -> RedisResult<PrimaryClient> {
        let client = self.client(self.info(addr, database)?)?;
        Ok(PrimaryClient::Single(Box::new(client)))
    }

    /// The credentials are those of the data servers; sentinels are asked without any.
    fn open_sentinel(&self, hosts: &[Host], service: &str) -> RedisResult<PrimaryClient> {
        let client = |host| self.client(self.node(host).into_connection_info()?);
        let clients = hosts.iter().map(client).collect::<RedisResult<Vec<_>>>()?;
        Ok(PrimaryClient::Sentinel(Arc::new(Sentinels::new(clients, service)), Box::new(self.clone())))
    }

    fn open_cluster(&self, hosts: &[Host]) -> RedisResult<PrimaryClient> {
        let nodes = hosts.iter().map(|host| self.info(self.node(host), 0)).collect::<RedisResult<Vec<_>>>()?;
        let listeners = nodes.iter().map(|info| self.client(info.clone())).collect::<RedisResult<Vec<_>>>()?;
        let mut builder = ClusterClient::builder(nodes)
            .connection_timeout(CONNECT_TIMEOUT)
            .response_timeout(Duration::from_secs(3600)) // calls have their own deadline
            // `Connection` repeats calls: it knows which ones were sent, and ASK must not be
            // followed (`slot_hold`)
            .retries(0)
            .tcp_settings(no_delay());
        if self.tls {
            builder = builder.certs(self.certificates());
        }
        Ok(PrimaryClient::Cluster(Box::new(builder.build()?), listeners))
    }
}

/// Clients that open connections to the current primary.
pub(in crate::store) enum PrimaryClient {
    Single(Box<Client>),
    /// The sentinels, and the address whose credentials and database apply to the server that they
    /// name.
    Sentinel(Arc<Sentinels>, Box<Address>),
    /// The cluster, and a client for each of its nodes. A published message reaches all nodes, so a
    /// subscriber can connect to any of them.
    Cluster(Box<ClusterClient>, Vec<Client>),
}

/// A new connection and its server.
pub(super) struct Opened {
    pub(super) connection: RawConnection,
    /// The server's address, if sentinels named it.
    pub(super) server: Option<Host>,
}

/// An open connection; clones share it.
#[derive(Clone)]
pub(in crate::store) enum RawConnection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl PrimaryClient {
    pub(super) async fn connect(&self) -> RedisResult<Opened> {
        // `Connection` sets the deadlines of calls, so that every call has the same one.
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT_TIMEOUT)).set_response_timeout(None);
        let mut server = None;
        let connection = match self {
            PrimaryClient::Single(client) => {
                RawConnection::Single(client.get_multiplexed_async_connection_with_config(&config).await?)
            }
            PrimaryClient::Sentinel(sentinels, address) => {
                let named = primary(sentinels).await?;
                let client = address.client(address.info(address.node(&named), address.database())?)?;
                server = Some(named);
                RawConnection::Single(client.get_multiplexed_async_connection_with_config(&config).await?)
            }
            PrimaryClient::Cluster(client, _) => RawConnection::Cluster(client.get_async_connection().await?),
        };
        Ok(Opened { connection, server })
    }

    /// Subscribes to a channel on a new connection.
    pub(super) async fn listen(&self, channel: &str) -> RedisResult<PubSub> {
        let mut connection = match self {
            PrimaryClient::Single(client) => client.get_async_pubsub().await?,
            PrimaryClient::Sentinel(sentinels, address) => {
                let named = primary(sentinels).await?;
                let client = address.client(address.info(address.node(&named), address.database())?)?;
                client.get_async_pubsub().await?
            }
            PrimaryClient::Cluster(_, nodes) => any(nodes).await?,
        };
        connection.subscribe(channel).await?;
        Ok(connection)
    }
}

async fn primary(sentinels: &Sentinels) -> RedisResult<Host> {
    Ok(sentinels.primary().await?.swap_remove(0))
}

async fn any(nodes: &[Client]) -> RedisResult<PubSub> {
    let mut last = Err((redis::ErrorKind::ClusterConnectionNotFound, "no node is configured").into());
    for node in nodes {
        last = node.get_async_pubsub().await;
        if last.is_ok() {
            break;
        }
    }
    last
}

impl RawConnection {
    pub(super) async fn send(&mut self, command: &redis::Cmd) -> RedisResult<redis::Value> {
        use redis::aio::ConnectionLike;
        let reply = match self {
            RawConnection::Single(connection) => connection.req_packed_command(command).await,
            RawConnection::Cluster(connection) => connection.req_packed_command(command).await,
        };
        reply.and_then(redis::Value::extract_error)
    }

    /// Sends commands as a pipeline; in a cluster, to the primary of the key's slot. The replies
    /// include the errors of commands.
    pub(super) async fn send_to_slot(
        &mut self,
        commands: &redis::Pipeline,
        key: &str,
    ) -> RedisResult<Vec<redis::Value>> {
        use redis::aio::ConnectionLike;
        match self {
            RawConnection::Single(connection) => connection.req_packed_commands(commands, 0, commands.len()).await,
            RawConnection::Cluster(connection) => {
                let route = SingleNodeRoutingInfo::SpecificNode(Route::with_key(key, SlotAddr::Master));
                connection.route_pipeline(commands.clone(), 0, commands.len(), route).await
            }
        }
    }
}

/// Disables Nagle's algorithm, which would delay every small call until the previous one is
/// acknowledged.
fn no_delay() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}
