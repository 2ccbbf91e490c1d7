//! Requests about flags.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::annotating::shown;
use super::extract::{JsonBody, Key, PathParam, note};
use super::shown::Next;
use crate::access::{Caller, Lead};
use crate::app::App;
use crate::error::Refusal;
use crate::event::Seq;
use crate::state::Act;

/// Most flags that are listed: those that wait come first.
const MOST: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlagRequest {
    key: Key,
    item: String,
    note: String,
}

pub(crate) async fn raise(
    State(app): State<Arc<App>>,
    caller: Caller,
    JsonBody(FlagRequest { key: Key(key), item, note: text }): JsonBody<FlagRequest>,
) -> Result<Json<Next>, Refusal> {
    let note = note(&text)?;
    shown(&app, app.act(caller.person, Act::Flag { key, item, note }).await?)
}

pub(crate) async fn list(State(app): State<Arc<App>>, _: Lead) -> Json<Value> {
    let flags = app.state().flags(MOST);
    let flags: Vec<_> = flags.into_iter().map(|flag| app.catalog.flag(flag)).collect();
    Json(json!({ "flags": flags }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResolveRequest {
    key: Key,
    #[serde(default)]
    note: String,
}

pub(crate) async fn resolve(
    State(app): State<Arc<App>>,
    Lead(caller): Lead,
    PathParam(flag): PathParam<Seq>,
    JsonBody(ResolveRequest { key: Key(key), note: text }): JsonBody<ResolveRequest>,
) -> Result<StatusCode, Refusal> {
    let note = if text.trim().is_empty() { String::new() } else { note(&text)? };
    app.act(caller.person, Act::Resolve { key, flag, note }).await?;
    Ok(StatusCode::NO_CONTENT)
}
