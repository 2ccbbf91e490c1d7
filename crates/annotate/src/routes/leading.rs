//! Requests of leads.

use std::collections::HashSet;
use std::io::BufWriter;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use nextpair_data::queue::{Answered, ExportFormat, Outcome, export as write_export};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Reply;
use super::extract::{JsonBody, Key, PathParam, QueryParams, limit, note};
use crate::access::{Lead, Reviewer};
use crate::app::App;
use crate::error::Refusal;
use crate::event::{Event, EventKind, PersonId, Seq, Submission};
use crate::state::{
    Act, AnswerFilter, Overview, QueueFilter, Round, RoundView, State as Known, TaskState,
    Unanswered, Unreviewed,
};
use crate::stream::stream;

/// Highest price that is not a typing error.
const HIGHEST_PRICE: f64 = 1e6;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReturnRequest {
    key: Key,
    note: String,
}

pub(crate) async fn give_back(
    State(app): State<Arc<App>>,
    Reviewer(caller): Reviewer,
    PathParam(answer): PathParam<Seq>,
    JsonBody(ReturnRequest { key: Key(key), note: text }): JsonBody<ReturnRequest>,
) -> Reply<Value> {
    let note = note(&text)?;
    app.act(caller.person, Act::Return { key, answer, note }).await?;
    Ok(Json(json!({ "answer": answer })))
}

pub(crate) async fn overview(State(app): State<Arc<App>>, _: Lead) -> Json<Overview> {
    let mut overview = app.state().overview(app.terms, app.grace, app.now());
    overview.finished =
        app.source.is_finished() && !app.state().round().is_some_and(Round::is_open);
    for at_work in &mut overview.people {
        at_work.last_seen = app.last_seen(at_work.person.id);
    }
    Json(overview)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswersQuery {
    limit: Option<usize>,
    before: Option<Seq>,
    person: Option<PersonId>,
    item: Option<String>,
}

pub(crate) async fn answers(
    State(app): State<Arc<App>>,
    _: Lead,
    QueryParams(asked): QueryParams<AnswersQuery>,
) -> Reply<Value> {
    let AnswersQuery { limit: count, before, person, item } = asked;
    let limit = limit(count, 50, 200)?;
    let which = AnswerFilter { limit, before, person, item, this_round: false };
    let answers = app.state().answers(&which);
    let answers: Vec<_> = answers.into_iter().map(|answer| app.catalog.answer(answer)).collect();
    Ok(Json(json!({ "answers": answers })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueueQuery {
    state: Option<TaskState>,
    offset: Option<usize>,
    limit: Option<usize>,
}

pub(crate) async fn queue(
    State(app): State<Arc<App>>,
    _: Lead,
    QueryParams(QueueQuery { state, offset, limit: count }): QueryParams<QueueQuery>,
) -> Reply<Value> {
    let page = QueueFilter { state, offset: offset.unwrap_or(0), limit: limit(count, 50, 200)? };
    let (total, tasks) = app.state().queue(page, app.terms, app.now().tick);
    let tasks: Vec<_> = tasks.into_iter().map(|task| app.catalog.queue_task(task)).collect();
    Ok(Json(json!({ "total": total, "tasks": tasks })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryQuery {
    item: String,
}

#[derive(Serialize)]
struct HistoryEntry {
    at: i64,
    what: &'static str,
    person: Option<String>,
    detail: Option<String>,
}

pub(crate) async fn history(
    State(app): State<Arc<App>>,
    _: Lead,
    QueryParams(HistoryQuery { item }): QueryParams<HistoryQuery>,
) -> Reply<Value> {
    let known = app.state().rounds.iter().any(|round| round.slot(&item).is_some());
    if !known {
        return Err(Refusal::not_found("nobody was asked about this item"));
    }
    let events = app.store.history(&item).await;
    let events = events.map_err(|error| {
        app.log.line(format_args!("the database failed: {error}"));
        Refusal::unavailable("the database does not answer; try again")
    })?;
    let state = app.state();
    let events: Vec<HistoryEntry> = events.iter().map(|event| past(&state, event)).collect();
    Ok(Json(json!({ "events": events })))
}

/// Describes an event in words.
fn past(state: &Known, event: &Event) -> HistoryEntry {
    let name = |id: PersonId| Some(state.name_of(id));
    let (person, detail) = match &event.kind {
        EventKind::Leased { person, .. } | EventKind::LetGo { person, .. } => (name(*person), None),
        EventKind::Answered { person, said, replaces, .. } => {
            let said = match &**said {
                Submission::Captions(captions) => captions.join("\n"),
                Submission::Image(image) => format!("image {image}"),
                Submission::Skip(reason) => format!("skipped: {reason}"),
            };
            let editor = event.by.filter(|by| by != person);
            let edited = editor.map(|by| format!(" (edited by {})", state.name_of(by)));
            let replaced = replaces.map(|old| format!(" (in the place of answer {old})"));
            let detail = said + &replaced.unwrap_or_default() + &edited.unwrap_or_default();
            (name(*person), Some(detail))
        }
        EventKind::Suggested { captions, .. } => (None, Some(captions.join("\n"))),
        EventKind::Flagged { note, .. } | EventKind::Resolved { note, .. } => {
            (event.by.and_then(name), (!note.is_empty()).then(|| note.clone()))
        }
        EventKind::Returned { note, .. } => (event.by.and_then(name), Some(note.clone())),
        _ => (event.by.and_then(name), None),
    };
    HistoryEntry { at: event.at, what: event.kind.name(), person, detail }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PauseRequest {
    paused: bool,
}

pub(crate) async fn pause(
    State(app): State<Arc<App>>,
    Lead(caller): Lead,
    JsonBody(PauseRequest { paused }): JsonBody<PauseRequest>,
) -> Result<StatusCode, Refusal> {
    app.act(caller.person, Act::Pause { paused }).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PriceRequest {
    #[serde(deserialize_with = "Option::deserialize")]
    price: Option<f64>,
}

pub(crate) async fn price(
    State(app): State<Arc<App>>,
    Lead(caller): Lead,
    JsonBody(PriceRequest { price }): JsonBody<PriceRequest>,
) -> Result<StatusCode, Refusal> {
    if price.is_some_and(|price| !(0.0..=HIGHEST_PRICE).contains(&price)) {
        return Err(Refusal::invalid(format!("a price is from 0 to {HIGHEST_PRICE}")));
    }
    app.act(caller.person, Act::Price { price }).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CloseRequest {
    round: i64,
    #[serde(default)]
    unanswered: Unanswered,
    #[serde(default)]
    unreviewed: Unreviewed,
}

pub(crate) async fn close(
    State(app): State<Arc<App>>,
    Lead(caller): Lead,
    JsonBody(CloseRequest { round, unanswered, unreviewed }): JsonBody<CloseRequest>,
) -> Reply<RoundView> {
    app.act(caller.person, Act::Close { round, unanswered, unreviewed }).await?;
    let state = app.state();
    let closed = state.rounds.iter().find(|known| known.number == round);
    let closed = closed.map(|round| Json(state.round_view(round, app.terms)));
    closed.ok_or_else(|| Refusal::not_found("there is no such round"))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportQuery {
    format: String,
    round: Option<i64>,
}

pub(crate) async fn export(
    State(app): State<Arc<App>>,
    _: Lead,
    QueryParams(ExportQuery { format, round }): QueryParams<ExportQuery>,
) -> Result<Response, Refusal> {
    let export_format: ExportFormat =
        format.parse().map_err(|e: nextpair_data::Error| Refusal::malformed(e.to_string()))?;
    let answered = {
        let state = app.state();
        let wanted = |number: i64| round.is_none_or(|round| round == number);
        let rounds: Vec<_> = state.rounds.iter().filter(|known| wanted(known.number)).collect();
        if rounds.is_empty() && round.is_some() {
            return Err(Refusal::not_found("there is no such round"));
        }
        let mut answered = Answered::default();
        // An item that went back to the pool may be a task of several rounds.
        let mut seen = HashSet::new();
        for round in rounds {
            answered.answers.extend(state.said(round));
            for (task, outcome) in round.outcomes_by_task() {
                if outcome == Outcome::Unreviewed {
                    answered.unreviewed.insert(task.id.clone());
                }
                if seen.insert(&task.id) {
                    answered.tasks.push(task.clone());
                }
            }
        }
        answered
    };
    let log = app.log.clone();
    // Not into memory: it may be long, and the client may read slowly.
    let write = move || {
        let file = tempfile::tempfile().map_err(|e| e.to_string())?;
        let (mut file, dataset) = (BufWriter::new(file), app.catalog.dataset());
        write_export(&mut file, export_format, &answered, dataset, app.pool)
            .map_err(|e| e.to_string())?;
        let file = file.into_inner().map_err(|e| e.to_string())?;
        stream(file).map_err(|e| e.to_string())
    };
    let written = tokio::task::spawn_blocking(write).await;
    let failed = |what: String| {
        log.line(format_args!("an export failed: {what}"));
        Refusal::unavailable("the file could not be made; the log says why")
    };
    let response = written.map_err(|e| failed(e.to_string()))?.map_err(failed)?;
    let name = format!("attachment; filename=\"{}\"", export_format.file_name());
    let kind = export_format.media_type().to_owned();
    Ok(([(header::CONTENT_TYPE, kind), (header::CONTENT_DISPOSITION, name)], response)
        .into_response())
}
