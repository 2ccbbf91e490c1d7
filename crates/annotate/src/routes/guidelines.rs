//! Requests about the guidelines.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Reply;
use super::extract::JsonBody;
use crate::access::{Caller, Lead};
use crate::app::App;
use crate::error::Refusal;
use crate::settings::check_guidelines;
use crate::state::{Act, ActResult};

pub(crate) async fn guidelines(State(app): State<Arc<App>>, _: Caller) -> Json<Value> {
    let state = app.state();
    let known = &state.guidelines;
    Json(json!({ "version": known.version, "text": &*known.text }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadRequest {
    version: u32,
}

pub(crate) async fn read(
    State(app): State<Arc<App>>,
    caller: Caller,
    JsonBody(ReadRequest { version }): JsonBody<ReadRequest>,
) -> Result<StatusCode, Refusal> {
    app.act(caller.person, Act::ReadGuidelines { version }).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GuidelinesRequest {
    text: String,
    after: u32,
}

pub(crate) async fn change(
    State(app): State<Arc<App>>,
    Lead(caller): Lead,
    JsonBody(GuidelinesRequest { text, after }): JsonBody<GuidelinesRequest>,
) -> Reply<Value> {
    let text = check_guidelines(&text).map_err(Refusal::invalid)?;
    let act = Act::SetGuidelines { text, after: Some(after) };
    match app.act(caller.person, act).await? {
        ActResult::Number(version) => Ok(Json(json!({ "version": version }))),
        _ => Err(Refusal::unavailable("nothing to show")),
    }
}
