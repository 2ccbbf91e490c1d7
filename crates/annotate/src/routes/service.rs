//! Requests of monitoring and other programs.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use crate::access::Lead;
use crate::app::App;
use crate::error::Refusal;

const OPENAPI: &str = include_str!("../openapi.json");

pub(crate) async fn health(State(app): State<Arc<App>>) -> Result<Json<Value>, Refusal> {
    if !app.writer.works(app.now()).await {
        return Err(Refusal::unavailable("nothing can be stored"));
    }
    Ok(Json(json!({ "status": "ok" })))
}

pub(crate) async fn metrics(State(app): State<Arc<App>>, _: Lead) -> impl IntoResponse {
    let text = app.metrics.text(&app.state(), app.terms, app.writer.waiting());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}

pub(crate) async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI)
}
