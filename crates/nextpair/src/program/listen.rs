//! The address of a server, shared by `annotate` and `watch`.

use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::{Context, Result};

#[derive(clap::Args)]
pub(crate) struct ListenArgs {
    /// The address to listen on. Others reach it only where this is not an address of this machine
    /// alone
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
}

impl ListenArgs {
    /// Returns the address with a port.
    pub(crate) fn address(&self, port: u16) -> Result<SocketAddr> {
        let place = || format!("--host {}", self.host);
        let found = (self.host.as_str(), port).to_socket_addrs().with_context(place)?;
        found.into_iter().next().with_context(place)
    }
}
