//! The threads that compute.

use std::error::Error;
use std::fmt::Display;
use std::num::NonZero;
use std::panic;
use std::process::exit;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};
use tokio::runtime::{Builder, Runtime};

use crate::program::WRONG;

/// How long idle threads of a server are kept: longer than it runs.
const KEPT: Duration = Duration::from_secs(1 << 32);

/// Starts the threads of the process: so many, or one per core.
pub(crate) fn set(threads: Option<usize>) -> Result<()> {
    let cores = available_parallelism().map_or(1, NonZero::get);
    // Many more than there are cores only look for work that another one has: 1,024 on two cores take seconds.
    let most = 256.max(2 * cores);
    if let Some(threads) = threads {
        ensure!(threads > 0, "--threads is 0; at least one is needed");
        ensure!(
            threads <= most,
            "--threads is {threads}; this machine has {cores} cores, and at most {most} threads are accepted"
        );
    }
    let wanted = threads.unwrap_or(0);
    if let Err(error) = rayon::ThreadPoolBuilder::new().num_threads(wanted).build_global() {
        match error.source() {
            Some(refused) => bail!(refusal(refused)),
            // A host such as Python has started them before.
            None if threads.is_some() => bail!("--threads: {error}"),
            None => {}
        }
    }
    detail!("threads: {}", rayon::current_num_threads());
    Ok(())
}

/// Starts the threads of a server. One that waits for files stays until the end: where the system has no room for
/// another one later, what waits goes there.
pub(crate) fn of_server(builder: &mut Builder) -> Result<Runtime> {
    let usual = panic::take_hook();
    // Tokio panics for want of a thread, and waits for those that it has before it unwinds.
    panic::set_hook(Box::new(|panic| {
        let why = panic.payload().downcast_ref::<String>().map_or("", String::as_str);
        alert!("error: {}", refusal(why));
        exit(i32::from(WRONG))
    }));
    let runtime = builder.enable_all().thread_keep_alive(KEPT).build();
    if let Ok(runtime) = &runtime {
        runtime.spawn_blocking(|| ());
    }
    panic::set_hook(usual);
    runtime.map_err(|error| anyhow!(refusal(error)))
}

fn refusal(why: impl Display) -> String {
    format!(
        "no threads could be started: {why}; a limit on memory, address space or processes (`ulimit -a`) may be too \
         low, or --threads too high"
    )
}
