//! `nextpair watch EXPERIMENT`: the report of an experiment in the browser, while it runs.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::data::dataset::Dataset;
use crate::models::Device;
use crate::report::Options;
use crate::watch::Server;
use anyhow::{Context, Result};
use tokio::net::TcpListener;
use tokio::runtime::Builder;

use crate::program::listen::ListenArgs;
use crate::program::report::PageArgs;
use crate::program::signals::told_to_stop;
use crate::program::threads;

/// The most threads that look at the experiment at once.
const BLOCKING: usize = 4;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of an experiment, as `nextpair run` makes it
    experiment: PathBuf,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    listen: ListenArgs,
    /// The port to listen on; 0 takes a free one
    #[arg(long, value_name = "N", default_value_t = 7879)]
    port: u16,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    // What is wrong is said now, not on the page.
    if let Some(dataset) = &args.page.dataset {
        Dataset::open(dataset)?;
    }
    // The experiment may have the other devices.
    let options = args.page.options(Device::Cpu);
    options.check()?;
    let mut runtime = Builder::new_current_thread();
    threads::of_server(runtime.max_blocking_threads(BLOCKING))?.block_on(serve(args, options))?;
    Ok(ExitCode::SUCCESS)
}

/// Serves until a signal stops the process.
async fn serve(args: &Args, options: Options) -> Result<()> {
    let address = args.listen.address(args.port)?;
    let listener = TcpListener::bind(address).await.with_context(|| address.to_string())?;
    let server = Server::open(listener, &args.experiment, options)?;
    // Trap signals before the address is printed: from then on a caller may stop the process.
    let stop = told_to_stop(1);
    let experiment = args.experiment.display();
    say!("the report of {experiment} is at http://{}/; Ctrl-C stops it", server.address());
    if !server.address().ip().is_loopback() {
        say!("everybody who reaches this address can read it");
    }
    server.run(stop).await;
    Ok(())
}
