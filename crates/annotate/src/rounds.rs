//! The life of rounds: opened when a batch is available, closed when complete, then handed over.

use std::sync::Arc;
use std::time::Duration;

use nextpair_data::queue::{Answer, Task};

use crate::app::App;
use crate::error::Error;
use crate::event::GoldTask;
use crate::source::{Batch, HandOver};
use crate::state::{Act, Outcomes, Round};
use crate::store::fingerprint_of;

/// Interval between two checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// While a round is open, only one in this many checks asks the source for a batch, which may be large.
const CHECKS_PER_BATCH_REQUEST: usize = 10;

/// Keeps rounds up to date forever, and logs each failure once.
pub(crate) async fn keep_up(app: Arc<App>) {
    let (mut logged, mut looks) = (String::new(), 0);
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        looks += 1;
        let open = app.state().round().is_some_and(Round::is_open);
        let done = if open && looks % CHECKS_PER_BATCH_REQUEST != 0 {
            finish_rounds(&app).await
        } else {
            update(&app).await
        };
        let wrong = done.err().map(|error| error.to_string()).unwrap_or_default();
        if wrong != logged && !wrong.is_empty() {
            app.log.line(&wrong);
        }
        logged = wrong;
    }
}

/// Closes, hands over and opens whatever is due. A failed hand-over does not delay the next round.
pub(crate) async fn update(app: &Arc<App>) -> Result<(), Error> {
    let finished = finish_rounds(app).await;
    open_round(app).await?;
    finished
}

/// Closes the round if it is time, and hands closed rounds over.
async fn finish_rounds(app: &Arc<App>) -> Result<(), Error> {
    if let Some(grace) = app.grace {
        let due = app.state().closes_at(app.terms, grace).is_some_and(|at| at <= app.now().tick);
        if due {
            app.system(Act::CloseIfComplete { grace }).await?;
        }
    }
    hand_over(app).await
}

/// Opens the available batch, unless it is open already.
pub(crate) async fn open_round(app: &Arc<App>) -> Result<(), Error> {
    let source = Arc::clone(&app.source);
    // A batch may be large, so this slow work must not block the responses to people.
    let batch = tokio::task::spawn_blocking(move || {
        let batch = source.batch().map_err(|e| Error::Source(e.to_string()))?;
        Ok::<_, Error>(batch.map(|Batch { round, tasks }| {
            let tasks: Vec<_> = tasks.into_iter().map(Arc::new).collect();
            (round as i64, fingerprint_of(&tasks), tasks)
        }))
    });
    let batch = batch.await.map_err(|e| Error::Source(e.to_string()))?;
    let Some((round, fingerprint, tasks)) = batch? else { return Ok(()) };
    let last =
        app.state().round().map(|last| (last.number, last.is_about(&tasks), last.handed_over));
    match last {
        Some((number, true, _)) if number == round => Ok(()),
        Some((number, false, _)) if number == round => Err(Error::Source(format!(
            "the picks of round {round} are not those that the database knows; serve them with \
             another database"
        ))),
        Some((number, ..)) if number > round => Err(Error::Source(format!(
            "round {round} waits, but the database knows round {number}; serve it with another \
             database"
        ))),
        _ => {
            if let Some((number, _, false)) = last {
                overtaken(app, number).await?;
            }
            let suggestions = Arc::clone(&app.suggestions);
            let gold = gold_of(app, &tasks).await?;
            app.system(Act::Open { round, fingerprint, tasks, gold, suggestions }).await.map(drop)
        }
    }
}

/// The gold to mix into a round.
async fn gold_of(app: &Arc<App>, tasks: &[Arc<Task>]) -> Result<Vec<GoldTask>, Error> {
    if app.gold.known.is_empty() {
        return Ok(Vec::new());
    }
    let (app, tasks) = (Arc::clone(app), tasks.to_vec());
    let used = app.state().used_gold();
    let mix = move || app.gold.mix(&tasks, &used, app.catalog.dataset(), app.pool);
    tokio::task::spawn_blocking(mix).await.map_err(|e| Error::Source(e.to_string()))
}

/// Hands over the finished answers of closed rounds, also those that were reviewed since the last time.
async fn hand_over(app: &Arc<App>) -> Result<(), Error> {
    // Everything in the state is stored.
    let closed: Vec<(Batch, Vec<Answer>, Outcomes)> = {
        let state = app.state();
        let closed = state.rounds.iter().filter(|round| round.waits_for_hand_over());
        closed.map(|round| (round.batch(), state.said(round), round.outcomes())).collect()
    };
    for (batch, answers, outcomes) in closed {
        let (round, source) = (batch.round as i64, Arc::clone(&app.source));
        let taken = tokio::task::spawn_blocking(move || source.hand_over(&batch, &answers));
        let taken = taken.await.map_err(|e| Error::Source(e.to_string()))?;
        let wrong = |e| format!("the answers of round {round} are safe, but not handed over: {e}");
        match taken.map_err(|e| Error::Source(wrong(e)))? {
            HandOver::Taken => {
                app.system(Act::HandedOver { round }).await?;
                app.log.line(format_args!(
                    "round {round} is closed, and its answers are handed over: {outcomes}"
                ));
            }
            HandOver::TooLate => overtaken(app, round).await?,
        }
    }
    Ok(())
}

/// Ends a round that the source finished without these answers.
async fn overtaken(app: &App, round: i64) -> Result<(), Error> {
    app.log.line(format_args!(
        "round {round} was finished without some of the answers from here; they stay in the \
         database, and exports have them"
    ));
    app.system(Act::Overtaken { round }).await.map(drop)
}
