//! The app as a host runs it: open, serve, close.

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

/// Time limit after a shutdown for answering requests in progress and closing the database.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The picks to annotate, and their dataset.
pub struct Project {
    /// The dataset of the picks.
    pub dataset: Dataset,
    /// The side of the picked items; people supply the other one.
    pub pool: Side,
    /// Supplies batches and receives their answers.
    pub source: Box<dyn Source>,
}

/// A link that signs a person in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// The name of the person.
    pub name: String,
    /// The complete address. It signs in anyone who has it.
    pub link: String,
}

/// The app with its database open, at a listener whose connections are not served yet.
pub struct Server {
    app: Arc<App>,
    listener: TcpListener,
    address: SocketAddr,
    invitations: Vec<Invitation>,
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
        // An error in the first batch is an error of the app.
        rounds::open_round(&app).await?;
        let invitations = app.invitations(settings);
        Ok(Server { app, listener, address, invitations })
    }

    /// The address on which the app listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The links of the lead, who comes first, and of the people in [`Settings::invite`].
    pub fn invitations(&self) -> &[Invitation] {
        &self.invitations
    }

    /// Serves until `shutdown` completes, answers the requests in progress, and closes the
    /// database. Requests still in progress after five seconds, or when `cut_off` completes, are
    /// dropped. Everything acknowledged is stored, even if the returned future is dropped.
    pub async fn run(
        self,
        shutdown: impl Future<Output = ()>,
        cut_off: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let Server { app, listener, .. } = self;
        // Ends with this function, however it ends.
        let mut background = JoinSet::new();
        background.spawn(rounds::keep_up(Arc::clone(&app)));
        let (told, drain) = tokio::sync::oneshot::channel();
        let shutdown = async {
            shutdown.await;
            let _ = told.send(());
        };
        let out_of_patience = async {
            // The sender is dropped unsent only with the serving future.
            let _ = drain.await;
            sleep(TIMEOUT).await;
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
        let _ = timeout(TIMEOUT, close).await;
        ended
    }
}
