//! What the app does by itself: it opens rounds, closes complete ones, and hands answers over.

use std::sync::Arc;
use std::time::Duration;

use nextpair_data::fingerprint;
use nextpair_data::queue::Task;

use crate::app::App;
use crate::refusal::Error;
use crate::source::Batch;
use crate::state::Act;

/// How often it looks.
const EVERY: Duration = Duration::from_millis(500);

/// Looks again and again, and says once what is wrong.
pub(crate) async fn keep(app: Arc<App>) {
    let mut said = String::new();
    loop {
        tokio::time::sleep(EVERY).await;
        let wrong = look(&app).await.err().map(|error| error.to_string()).unwrap_or_default();
        if wrong != said && !wrong.is_empty() {
            eprintln!("{wrong}");
        }
        said = wrong;
    }
}

/// Does what is to be done now.
pub(crate) async fn look(app: &Arc<App>) -> Result<(), Error> {
    hand_over(app).await?;
    open_round(app).await?;
    if let Some(grace) = app.grace {
        let due = app.clerk.state().closes_at(app.terms, grace).is_some_and(|at| at <= app.now());
        if due {
            app.system(Act::CloseIfComplete { grace }).await?;
            hand_over(app).await?;
        }
    }
    Ok(())
}

/// Opens the batch that waits, if it is not open.
async fn open_round(app: &Arc<App>) -> Result<(), Error> {
    let source = Arc::clone(&app.source);
    let batch = tokio::task::spawn_blocking(move || source.batch()).await;
    let batch = batch.map_err(|e| Error::Source(e.to_string()))?;
    let Some(Batch { round, tasks }) = batch.map_err(|e| Error::Source(e.to_string()))? else {
        return Ok(());
    };
    let (round, fingerprint) = (round as i64, fingerprint_of(&tasks)?);
    let last = app
        .clerk
        .state()
        .round()
        .map(|last| (last.number, last.fingerprint == fingerprint, last.handed_over));
    match last {
        Some((number, same, _)) if number == round => match same {
            true => Ok(()),
            false => Err(Error::Source(format!(
                "the picks of round {round} are not those that the database knows; serve them \
                 with another database"
            ))),
        },
        Some((number, ..)) if number > round => Err(Error::Source(format!(
            "round {round} waits, but the database knows round {number}; serve it with another \
             database"
        ))),
        _ => {
            if let Some((number, _, false)) = last {
                eprintln!("round {number} was finished without this desk; round {round} is next");
                app.system(Act::Overtaken { round: number }).await?;
            }
            app.system(Act::Open { round, fingerprint, tasks }).await.map(drop)
        }
    }
}

/// Hands over what was closed.
async fn hand_over(app: &Arc<App>) -> Result<(), Error> {
    let waiting: Vec<i64> = {
        let state = app.clerk.state();
        let closed = state.rounds.iter().filter(|round| !round.is_open() && !round.handed_over);
        closed.map(|round| round.number).collect()
    };
    for number in waiting {
        let given = {
            let state = app.clerk.state();
            let Some(round) = state.rounds.iter().find(|round| round.number == number) else {
                continue;
            };
            let tasks = round.slots.iter().map(|slot| slot.task.clone()).collect();
            (Batch { round: number as usize, tasks }, state.to_hand_over(round))
        };
        let source = Arc::clone(&app.source);
        let taken = tokio::task::spawn_blocking(move || source.hand_over(&given.0, &given.1));
        let taken = taken.await.map_err(|e| Error::Source(e.to_string()))?;
        let wrong = |e| format!("the answers of round {number} are safe, but not handed over: {e}");
        taken.map_err(|e| Error::Source(wrong(e)))?;
        app.system(Act::HandedOver { round: number }).await?;
        eprintln!("round {number} is closed, and its answers are handed over");
    }
    Ok(())
}

fn fingerprint_of(tasks: &[Task]) -> Result<String, Error> {
    let text = serde_json::to_vec(tasks).map_err(|e| Error::Source(e.to_string()))?;
    Ok(fingerprint(&text))
}
