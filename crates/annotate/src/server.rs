//! The app as a host runs it: opened, served, closed.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nextpair_data::Side;
use nextpair_data::dataset::Dataset;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::app::{App, system_clock};
use crate::connections::{self, Bounds};
use crate::error::Error;
use crate::settings::Settings;
use crate::source::Source;
use crate::{rounds, routes};

/// After a shutdown, requests in progress have this long to be answered, and the database to close.
const PATIENCE: Duration = Duration::from_secs(5);

/// The picks that people annotate, and the dataset they are from.
pub struct Project {
    /// The dataset that the picks are from.
    pub dataset: Dataset,
    /// The side of the items that were picked; people give the other one.
    pub pool: Side,
    /// Gives batches and takes their answers.
    pub source: Box<dyn Source>,
}

/// A link that signs somebody in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// Whom.
    pub name: String,
    /// The whole address. Whoever has it is let in.
    pub link: String,
}

/// The app with its database open, at a listener whose connections wait to be served.
pub struct Server {
    app: Arc<App>,
    listener: TcpListener,
    address: SocketAddr,
    invitations: Vec<Invitation>,
}

/// Opens the app and serves it until `shutdown` completes: [`Server::open`], then [`Server::run`].
pub async fn run(
    listener: TcpListener,
    project: Project,
    settings: &Settings,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    Server::open(listener, project, settings).await?.run(shutdown, std::future::pending()).await
}

impl Server {
    /// Checks the settings against the listener's address, opens the database, invites the lead and
    /// the people of [`Settings::invite`], and opens the batch that waits.
    pub async fn open(
        listener: TcpListener,
        project: Project,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let address = listener.local_addr().map_err(Error::Listener)?;
        let app = App::open(project, settings, address, system_clock()).await?;
        // What is wrong with the first batch is wrong with the whole.
        rounds::open_round(&app).await?;
        let invitations = app.invitations(&settings.invite);
        Ok(Server { app, listener, address, invitations })
    }

    /// Where the app listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The links of the lead, who comes first, and of the people of [`Settings::invite`].
    pub fn invitations(&self) -> &[Invitation] {
        &self.invitations
    }

    /// Serves until `shutdown` completes, answers the requests that were begun, and closes the
    /// database. Requests that take longer than five seconds then, or than `cut_off` takes to
    /// complete, are dropped. Whatever was acknowledged is stored, even if the returned future is
    /// dropped.
    pub async fn run(
        self,
        shutdown: impl Future<Output = ()>,
        cut_off: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let Server { app, listener, .. } = self;
        // Ends with this function, however that ends.
        let mut background = JoinSet::new();
        background.spawn(rounds::keep_up(Arc::clone(&app)));
        let (told, drain) = tokio::sync::oneshot::channel();
        let shutdown = async {
            shutdown.await;
            let _ = told.send(());
        };
        let out_of_patience = async {
            // The sender is dropped unsent only with the future that serves.
            let _ = drain.await;
            sleep(PATIENCE).await;
        };
        let served =
            connections::serve(listener, routes::router(&app), Bounds::of_process(), shutdown);
        let ended = tokio::select! {
            () = served => Ok(()),
            () = out_of_patience => Ok(()),
            () = cut_off => Ok(()),
            () = app.writer.stopped() => Err(Error::Stopped("the writer")),
            _ = background.join_next() => Err(Error::Stopped("the task that opens and closes rounds")),
        };
        background.shutdown().await;
        let close = async {
            app.writer.close().await;
            app.store.close().await;
        };
        let _ = timeout(PATIENCE, close).await;
        ended
    }
}
