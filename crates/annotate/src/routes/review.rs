//! Requests of reviewers.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Reply;
use super::extract::{JsonBody, Key, KeyBody, LimitQuery, PathParam, QueryParams, limit};
use crate::access::{Lead, Reviewer};
use crate::app::App;
use crate::error::Refusal;
use crate::event::Seq;
use crate::settings::is_share;
use crate::state::Act;

pub(crate) async fn waiting(
    State(app): State<Arc<App>>,
    Reviewer(caller): Reviewer,
    QueryParams(query): QueryParams<LimitQuery>,
) -> Reply<Value> {
    let limit = limit(query.limit, 20, 200)?;
    let (waiting, answers) = {
        let state = app.state();
        let waiting = state.to_review(caller.person);
        let shown = waiting.iter().take(limit).filter_map(|seq| state.answer_of(*seq));
        (waiting.len(), shown.collect::<Vec<_>>())
    };
    let answers: Vec<_> = answers.into_iter().map(|answer| app.catalog.answer(answer)).collect();
    Ok(Json(json!({ "waiting": waiting, "answers": answers })))
}

pub(crate) async fn accept(
    State(app): State<Arc<App>>,
    Reviewer(caller): Reviewer,
    PathParam(answer): PathParam<Seq>,
    JsonBody(KeyBody { key: Key(key) }): JsonBody<KeyBody>,
) -> Reply<Value> {
    app.act(caller.person, Act::Accept { key, answer }).await?;
    Ok(Json(json!({ "answer": answer })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReviewShareRequest {
    share: f64,
}

pub(crate) async fn share(
    State(app): State<Arc<App>>,
    Lead(caller): Lead,
    JsonBody(ReviewShareRequest { share }): JsonBody<ReviewShareRequest>,
) -> Result<StatusCode, Refusal> {
    if !is_share(share) {
        return Err(Refusal::invalid("a share is from 0 to 1"));
    }
    app.act(caller.person, Act::ReviewShare { share }).await?;
    Ok(StatusCode::NO_CONTENT)
}
