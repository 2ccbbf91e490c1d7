//! Requests about the quality of answers.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::extract::PathParam;
use crate::access::Lead;
use crate::app::App;
use crate::error::Refusal;
use crate::event::Seq;
use crate::state::{Act, Quality};

/// Most alerts that are shown; the numbers of people count all.
const MOST: usize = 200;

pub(crate) async fn quality(State(app): State<Arc<App>>, _: Lead) -> Result<Json<Value>, Refusal> {
    let Quality { alerts, people } = (*app.quality().await?).clone();
    let total = alerts.len();
    let shown: Vec<_> = {
        let state = app.state();
        let view = |alert| app.catalog.alert(alert, &state);
        alerts.into_iter().take(MOST).map(view).collect()
    };
    Ok(Json(json!({ "total": total, "alerts": shown, "people": people })))
}

pub(crate) async fn dismiss(
    State(app): State<Arc<App>>,
    Lead(caller): Lead,
    PathParam(answer): PathParam<Seq>,
) -> Result<StatusCode, Refusal> {
    app.act(caller.person, Act::Dismiss { answer }).await?;
    Ok(StatusCode::NO_CONTENT)
}
